"""The base of data in the user's files."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.learning.data import Data, Dataset, Examples
from netfl.learning.data._in_memory import value_problem
from netfl.learning.data._splits import split_by_user, split_dataset
from netfl.registry import NotWith, one_line
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
    test_share: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, NotWith("test")] = None
    """The share of each user's examples, or of all without users, that is kept for testing, rounded down; 0.2 by
    default.  Not with ``test``."""
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same for validation."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split; independent of the seed of the run."""
    sha256: str | None = None
    """The SHA-256 of ``file``, as the command sha256sum prints it; a file with another checksum is refused."""

    @abstractmethod
    def read(self, path: Path) -> FileColumns:
        """Read the file at *path*; the keys of its errors are empty."""

    @model_validator(mode="after")
    def _check_shares(self) -> UserFileData:
        if self._test_share + self.validation_share >= 1:
            raise ValueError("test_share and validation_share leave no training examples")
        return self

    @property
    def classes(self) -> int:
        return self.labels

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for key, path in (("file", self.file), ("test", self.test)):
            if path is not None and not path.is_file():
                yield Fault(key, "the file does not exist", str(path), "relative paths start at the current directory")

    def load(self, streams: Streams) -> Dataset:
        if self.sha256 is not None:
            digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
            if digest != self.sha256.lower():
                raise_fault(
                    "sha256", f"{self.file} is another file, or is incomplete: its SHA-256 is {digest}", self.sha256
                )
        x, y, names = self._read_checked("file", self.file)
        known, user = np.unique(np.zeros(len(y)) if names is None else names, return_inverse=True)
        rows = split_by_user(user, self.validation_share, self._test_share, Streams(self.seed).rng("own"))
        data = split_dataset(Examples(x, y, user), rows, self.classes)
        test_x, test_y, test_user = data.test_x, data.test_y, data.test_user
        if self.test is not None:
            test_x, test_y, test_names = self._read_checked("test", self.test)
            test_user = None
            if names is not None and test_names is not None:
                unknown = np.setdiff1d(test_names, known)
                if len(unknown):
                    problem = f"users without training examples, such as {unknown[0]}"
                    raise_fault("test", problem, str(self.test))
                test_user = np.searchsorted(known, test_names)
        if not len(test_y):
            raise_fault("test_share", f"leaves none of {len(y)} examples for testing", self._test_share, "keep more")
        train_user, test_user = (None, None) if names is None else (data.train_user, test_user)
        return Dataset(data.train_x, data.train_y, test_x, test_y, self.classes, train_user, test_user, data.validation)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the user's own examples; a random permutation splits them"),)

    @property
    def _test_share(self) -> float:
        return 0.0 if self.test is not None else _DEFAULT_SHARE if self.test_share is None else self.test_share

    def _read_checked(self, key: str, path: Path) -> FileColumns:
        """Read a file and check shapes, types and values."""
        try:
            with prefix_faults(key):
                columns = self.read(path)
            x, y, user = np.asarray(columns.x, np.float32), columns.y, columns.user
        except ScenarioError:
            raise
        except Exception as error:  # a broken file can raise anything in its reader
            raise_fault(
                key, f"cannot be read: {one_line(error)}", str(path), "check that it is complete and of this format"
            )
        if not x.size:
            raise_fault(key, "holds no examples", str(path), "give one row for each example")
        if np.ndim(y) != 1:
            problem = f"holds labels {[*np.shape(y)]}"
            raise_fault(key, problem, str(path), "give each example one label, not a one-hot row")
        if any(column is not None and np.shape(column)[:1] != np.shape(y) for column in (x, y, user)):
            shapes = [[*np.shape(column)] for column in columns if column is not None]
            problem = f"holds arrays of different lengths: examples {shapes[0]}, labels {shapes[1]}, users {shapes[2:]}"
            raise_fault(key, problem, str(path), "give each example one label, and one user, or no users")
        if x.shape[1:] != self.shape:
            problem = f"{path} has examples of shape {[*x.shape[1:]]}"
            raise_fault("features", problem, [*self.shape], "set it to this shape")
        if problem := value_problem(x, self.tokens):
            raise_fault(key, problem, str(path), "fill it in, or remove the example")
        unknown = y[~np.isin(y, np.arange(self.labels))]
        if unknown.size:
            problem = f"{path} has other labels than 0 to {self.labels - 1}, such as {unknown[0]}"
            raise_fault("labels", problem, self.labels, "number the labels from 0")
        return FileColumns(x, y.astype(np.int64), user)


def raise_fault(key: str, problem: str, value: object = None, remedy: str = "") -> NoReturn:
    """Raise a scenario error with one error."""
    raise ScenarioError([Fault(key, problem, value, remedy)])
