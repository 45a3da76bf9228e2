"""The base of data in the user's files."""

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
from netfl.learning.data import Data, Dataset, Examples
from netfl.learning.data._splits import split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts

_DEFAULT_SHARE = 0.2
DataFile = Annotated[Path, AfterValidator(Path.absolute)]
"""A file; a relative path starts at the current directory."""


class FileColumns(NamedTuple):
    """The content of a file: examples, labels and, if it has them, users."""

    x: NDArray[Any]
    y: NDArray[Any]
    user: NDArray[Any] | None


class UserFileData(Data):
    """A data file of the user, or two: one for training and one for testing."""

    file: DataFile
    """The examples; a relative path starts at the current directory."""
    test: DataFile | None = None
    """The test examples, a file of the same form; without it a part of ``file`` is kept for testing."""
    labels: Annotated[int, Field(ge=2, le=10_000)]
    """The number of labels; in the file they are whole numbers from 0."""
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of each user's examples, or of all without users, that is kept for testing, rounded down; 0.2 by
    default.  Not with ``test``."""
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same for validation."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split; independent of the seed of the run."""
    sha256: str | None = None
    """The SHA-256 of ``file``; a file with another checksum is refused."""

    @abstractmethod
    def read(self, path: Path) -> FileColumns:
        """Read the file at *path*; the keys of its faults are empty."""

    @field_validator("sha256")
    @classmethod
    def _check_digits(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError("a SHA-256 is written as 64 digits, 0 to 9 and a to f, as the command sha256sum does")
        return value

    @model_validator(mode="after")
    def _check_shares(self) -> UserFileData:
        if self.test is not None and self.test_share is not None:
            raise ValueError("test_share has no effect beside a file 'test': leave one of them out")
        if self._test_share + self.validation_share >= 1:
            raise ValueError("test_share and validation_share leave nothing to train on")
        return self

    @property
    def classes(self) -> int:
        return self.labels

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for key, path in (("file", self.file), ("test", self.test)):
            if path is not None and not path.is_file():
                yield Fault(key, "there is no such file", str(path), "relative paths start at the current directory")

    def load(self, streams: Streams) -> Dataset:
        self._check_sha256()
        x, y, names = self._read_checked("file", self.file)
        known, user = np.unique(np.zeros(len(y)) if names is None else names, return_inverse=True)
        rows = split_by_user(user, self.validation_share, self._test_share, Streams(self.seed).rng("own"))
        data = split_dataset(Examples(x, y, user), rows, self.classes)
        test_x, test_y, test_user = data.test_x, data.test_y, data.test_user
        if self.test is not None:
            test_x, test_y, test_names = self._read_checked("test", self.test)
            test_user = None if names is None or test_names is None else self._number_users(known, test_names)
        if not len(test_y):
            raise_fault("test_share", f"leaves none of {len(y)} examples to test with", self._test_share, "keep more")
        train_user, test_user = (None, None) if names is None else (data.train_user, test_user)
        return Dataset(data.train_x, data.train_y, test_x, test_y, self.classes, train_user, test_user, data.validation)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the user's own examples; a random permutation splits them"),)

    @property
    def _test_share(self) -> float:
        return 0.0 if self.test is not None else _DEFAULT_SHARE if self.test_share is None else self.test_share

    def _check_sha256(self) -> None:
        if self.sha256 is None:
            return
        try:
            with self.file.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise_fault("file", f"cannot be read: {error.strerror or error}", str(self.file))
        if digest != self.sha256:
            raise_fault("sha256", f"{self.file} is another file, or is cut: its SHA-256 is {digest}", self.sha256)

    def _read_checked(self, key: str, path: Path) -> FileColumns:
        """Read a file and check shapes, types and values."""
        try:
            with prefix_faults(key):
                x, y, user = self.read(path)
        except ScenarioError:
            raise
        except Exception as error:  # a broken file can raise anything in its reader
            problem = f"cannot be read: {' '.join(str(error).split())}"
            raise_fault(key, problem, str(path), "is it whole, and of this form?")
        if np.ndim(x) < 1 or np.ndim(y) != 1 or (user is not None and np.ndim(user) != 1):
            problem = "holds no array of examples, or no list of labels or users"
            raise_fault(key, problem, str(path), "give a row for each")
        if not len(x) and not len(y):
            raise_fault(key, "holds no examples", str(path), "give it a row for each")
        counts = [len(x), len(y), len(y if user is None else user)]
        if len({*counts}) > 1:
            problem = f"holds {counts[0]} examples, {counts[1]} labels" + (
                f" and {counts[2]} users" if user is not None else ""
            )
            raise_fault(key, problem, str(path), "give each example one of each")
        if x.shape[1:] != self.shape:
            problem = f"{path} has examples of shape {[*x.shape[1:]]}"
            raise_fault("features", problem, [*self.shape], "say what they have")
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "fiub":
            raise_fault(key, f"holds features of type {numbers.dtype}", str(path), "make numbers of them")
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1))
        if broken.size:
            problem = f"example {broken[0]} (from 0) holds a feature that is no finite number of 32 bits"
            raise_fault(key, problem, str(path), "fill it in, or leave the example out")
        unknown = y[~np.isin(y, np.arange(self.labels))]
        if unknown.size:
            problem = f"{path} has other labels than 0 to {self.labels - 1}, such as {unknown[0]}"
            raise_fault("labels", problem, self.labels, "number the labels so")
        return FileColumns(numbers, y.astype(np.int64), user)

    def _number_users(self, known: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
        """Return the numbers of the users of the test file."""
        unknown = np.setdiff1d(names, known)
        if len(unknown):
            raise_fault("test", f"users who have nothing to train on, such as {unknown[0]}", str(self.test))
        return np.searchsorted(known, names)


def raise_fault(key: str, problem: str, value: object = None, remedy: str = "") -> NoReturn:
    """Raise a scenario error with one fault."""
    raise ScenarioError([Fault(key, problem, value, remedy)])
