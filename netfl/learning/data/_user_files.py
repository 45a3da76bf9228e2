"""Data of the user's own: what files of all kinds have in common."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, field_validator, model_validator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.learning.data import Data, Dataset
from netfl.learning.data._splits import split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts

_DEFAULT_SHARE = 0.2
DataFile = Annotated[Path, AfterValidator(Path.absolute)]
"""A file; a relative path starts at the current directory."""


class ColumnSpec(NamedTuple):
    """What a file holds: examples, labels, and whose each is, if it says."""

    x: NDArray[Any]
    y: NDArray[Any]
    user: NDArray[Any] | None


class UserFileData(Data):
    """A file of the user's own, or two: one to train on and one to test with."""

    file: DataFile
    """The examples; a relative path starts at the current directory."""
    test: DataFile | None = None
    """The examples to test with, a file of the same form; without it some of ``file`` are kept for that."""
    labels: Annotated[int, Field(ge=2, le=10_000)]
    """How many labels there are; in the file they are whole numbers from 0."""
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of each user's examples, or of all where there are no users, that is kept for testing, rounded down;
    0.2 by default.  Not beside ``test``."""
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same for validation."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides who is kept, whatever the seed of the run."""
    sha256: str | None = None
    """The SHA-256 of ``file``; another file in its place is refused."""

    @abstractmethod
    def read(self, path: Path) -> ColumnSpec:
        """What the file at *path* holds; the keys of its faults are empty."""

    @field_validator("sha256")
    @classmethod
    def _digits(cls, value: str | None) -> str | None:
        """Refuse what is no such sum."""
        if value is not None and not re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError("a SHA-256 is written as 64 digits, 0 to 9 and a to f, as the command sha256sum does")
        return value

    @model_validator(mode="after")
    def _one_split(self) -> UserFileData:
        """Refuse two ways to get test examples, and shares that leave none to train on."""
        if self.test is not None and self.test_share is not None:
            raise ValueError("test_share has no effect beside a file 'test': leave one of them out")
        if self._share + self.validation_share >= 1:
            raise ValueError("test_share and validation_share leave nothing to train on")
        return self

    @property
    def classes(self) -> int:
        """As the scenario says; the file is held to it."""
        return self.labels

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Files that are not there."""
        for key, path in (("file", self.file), ("test", self.test)):
            if path is not None and not path.is_file():
                yield Fault(key, "there is no such file", str(path), "relative paths start at the current directory")

    def load(self, streams: Streams) -> Dataset:
        """Read the file or the two, and split what comes whole."""
        self._check()
        whole = self._read("file", self.file)
        names, user = (None, np.zeros(len(whole.y), np.int64)) if whole.user is None else _numbered(whole.user)
        rows = split_by_user(user, self.validation_share, self._share, Streams(self.seed).rng("own"))
        found = split_dataset(whole.x, whole.y, user, rows, self.classes)
        test_x, test_y, test_user = found.test_x, found.test_y, found.test_user
        if self.test is not None:
            test_x, test_y, others = self._read("test", self.test)
            test_user = None if names is None or others is None else self._known(names, others)
        if not len(test_y):
            raise_fault("test_share", f"leaves none of {len(whole.y)} examples to test with", self._share, "keep more")
        own = found.train_user if names is not None else None
        kept = found.validation
        return Dataset(
            found.train_x, found.train_y, test_x, test_y, self.classes, own, None if own is None else test_user, kept
        )

    def laws(self) -> tuple[Law, ...]:
        """Only the split is drawn."""
        return (Law.none("the user's own examples; a random permutation splits them"),)

    @property
    def _share(self) -> float:
        """The share that is kept for testing."""
        return 0.0 if self.test is not None else _DEFAULT_SHARE if self.test_share is None else self.test_share

    def _check(self) -> None:
        """Make sure that the file is the one that the scenario means."""
        if self.sha256 is None:
            return
        try:
            with self.file.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise_fault("file", f"cannot be read: {error.strerror or error}", str(self.file))
        if found != self.sha256:
            raise_fault("sha256", f"{self.file} is another file, or is cut: its SHA-256 is {found}", self.sha256)

    def _read(self, key: str, path: Path) -> ColumnSpec:
        """A file's examples and labels, of the right shapes and types."""
        try:
            with prefix_faults(key):
                x, y, user = self.read(path)
        except ScenarioError:
            raise
        except Exception as error:  # whatever a broken file makes of its reader
            raise_fault(
                key, f"cannot be read: {' '.join(str(error).split())}", str(path), "is it whole, and of this form?"
            )
        if np.ndim(x) < 1 or np.ndim(y) != 1 or (user is not None and np.ndim(user) != 1):
            raise_fault(
                key, "holds no array of examples, or no list of labels or users", str(path), "give a row for each"
            )
        if not len(x) and not len(y):
            raise_fault(key, "holds no examples", str(path), "give it a row for each")
        counts = [len(x), len(y), len(y if user is None else user)]
        if len({*counts}) > 1:
            told = f"{counts[0]} examples, {counts[1]} labels" + (f" and {counts[2]} users" if user is not None else "")
            raise_fault(key, f"holds {told}", str(path), "give each example one of each")
        if x.shape[1:] != self.shape:
            raise_fault(
                "features", f"{path} has examples of shape {[*x.shape[1:]]}", [*self.shape], "say what they have"
            )
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "fiub":
            raise_fault(key, f"holds features of type {numbers.dtype}", str(path), "make numbers of them")
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1))
        if broken.size:
            problem = f"example {broken[0]} (from 0) holds a feature that is no finite number of 32 bits"
            raise_fault(key, problem, str(path), "fill it in, or leave the example out")
        strange = y[~np.isin(y, np.arange(self.labels))]
        if strange.size:
            problem = f"{path} has other labels than 0 to {self.labels - 1}, such as {strange[0]}"
            raise_fault("labels", problem, self.labels, "number the labels so")
        return ColumnSpec(numbers, y.astype(np.int64), user)

    def _known(self, names: NDArray[Any], user: NDArray[Any]) -> NDArray[np.int64]:
        """The numbers of the users of the test file."""
        strangers = np.setdiff1d(user, names)
        if len(strangers):
            raise_fault("test", f"users who have nothing to train on, such as {strangers[0]}", str(self.test))
        return np.searchsorted(names, user)


def raise_fault(key: str, problem: str, value: object = None, remedy: str = "") -> NoReturn:
    """Raise a scenario error with one fault."""
    raise ScenarioError([Fault(key, problem, value, remedy)])


def _numbered(user: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The users' names in rising order, and the number of each example's user among them."""
    names, number = np.unique(user, return_inverse=True)
    return names, number
