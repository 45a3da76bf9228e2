"""The bases of examples that the user provides."""

from __future__ import annotations

import hashlib
import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from netfl.core.plugins import one_line
from netfl.core.spec import NotWith
from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.arrays import as_numbers, as_single, lossy_columns
from netfl.files.cells import parse_identifiers
from netfl.learning.data import Data, Dataset, Examples
from netfl.learning.data._in_memory import value_problem
from netfl.learning.data._splits import split_by_user, split_dataset
from netfl.streams import Streams
from netfl.types import Ints, Law, ScenarioFacts
from netfl.units import Seed

_LOG = logging.getLogger(__name__)
_DEFAULT_SHARE = 0.2
DataFile = Annotated[Path, AfterValidator(Path.absolute)]
"""A file; a relative path starts at the current directory."""


class FileColumns(NamedTuple):
    """Examples of a user: features, labels or targets and, if they have them, users."""

    x: NDArray[Any]
    y: NDArray[Any]
    user: NDArray[Any] | None


class UserExamples(Data):
    """Examples of the user: those for training and, optionally, others for testing.

    A class of this base has the keys `main_key` and ``test``, which name the two parts.
    """

    main_key: ClassVar[str] = "file"
    """The key that names the examples."""
    test_key: ClassVar[str] = "test"
    """The key that names the test examples."""
    labels: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """The number of labels, which are whole numbers from 0; for a regression give ``targets`` instead."""
    targets: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For a regression: the number of values that are predicted for an example, in place of ``labels``."""
    test_share: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, NotWith("test")] = None
    """The share of each user's examples, or of all without users, that is kept for testing, rounded down; 0.2 by
    default.  Not with ``test``."""
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same for validation."""
    seed: Seed = 0
    """Seed of the split; independent of the seed of the run."""

    @abstractmethod
    def read_part(self, key: str) -> FileColumns:
        """Read the examples of *key*, `main_key` or ``test``; the keys of its errors are relative to *key*."""

    @property
    def has_test(self) -> bool:
        """True if the test examples are given separately."""
        return getattr(self, "test", None) is not None

    @model_validator(mode="after")
    def _check_shares(self) -> UserExamples:
        if self._test_share + self.validation_share >= 1:
            raise ValueError("test_share and validation_share leave no training examples; decrease them")
        if (self.labels is None) == (self.targets is None):
            raise ValueError(
                "neither labels nor targets is given; give the number of labels or, for a regression, of targets"
            )
        return self

    @property
    def classes(self) -> int:
        return self.labels or self.targets or 0

    @property
    def is_regression(self) -> bool:
        return self.targets is not None

    def load(self, streams: Streams) -> Dataset:
        x, y, names = self._read_checked(self.main_key)
        owners = np.zeros(len(y)) if names is None else names  # without users, all examples are split together
        distinct_names, user = np.unique(owners, return_inverse=True)
        rows = split_by_user(user, self.validation_share, self._test_share, Streams(self.seed).rng("own"))
        data = split_dataset(Examples(x, y, user), rows, self.classes)
        if self.has_test:
            test_x, test_y, test_names = self._read_checked("test")
            test_user = None
            if names is not None and test_names is not None:
                test_user = self._number_test_users(test_names, distinct_names)
            data = replace(data, test_x=test_x, test_y=test_y, test_user=test_user)
        if not len(data.test_y):
            raise_fault("test_share", f"leaves none of {len(y)} examples for testing", self._test_share, "keep more")
        if names is None:
            return replace(data, train_user=None, test_user=None)
        return replace(data, user_names=[*map(str, distinct_names.tolist())])

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the user's own examples; a random permutation splits them"),)

    @property
    def _test_share(self) -> float:
        if self.has_test:
            return 0.0
        return _DEFAULT_SHARE if self.test_share is None else self.test_share

    def _source(self, key: str) -> str:
        return str(getattr(self, key))

    def _number_test_users(self, test_names: NDArray[Any], distinct_names: NDArray[Any]) -> Ints:
        """Return the number of the user of each test example, the place of its name among *distinct_names*."""
        if distinct_names.dtype.kind == "U":
            test_names = test_names.astype(str)  # among other names, an integer is a name
        unknown = np.setdiff1d(test_names, distinct_names)
        if len(unknown):
            problem = f"users without training examples, such as {unknown[0]}"
            raise_fault("test", problem, self._source("test"))
        return np.searchsorted(distinct_names, test_names)

    def _read_checked(self, part: str) -> FileColumns:
        """Read the examples of the key *part* and check shapes, types and values."""
        source = self._source(part)
        key = self.test_key if part == "test" else part  # of errors
        try:
            with prefix_faults(key):
                columns = self.read_part(part)
            given, y, user = self._checked_types(key, source, columns)
            x = as_single(given)
        except ScenarioError:
            raise
        except Exception as error:  # a broken file can raise anything in its reader
            raise_fault(key, f"cannot be read: {one_line(error)}", source, self._reading_remedy)
        self._check_shapes(key, source, FileColumns(x, y, user))
        if problem := value_problem(x, self.tokens):
            raise_fault(key, problem, source, "fill it in, or remove the example")
        _warn_of_rounding(key, source, given, x)
        if self.targets is not None:
            return FileColumns(x, self._checked_targets(key, source, y), user)
        return FileColumns(x, self._checked_labels(source, y), user)

    def _checked_types(self, key: str, source: str, columns: FileColumns) -> FileColumns:
        """Return numbers, and users as integers or names."""
        user = columns.user
        try:
            x = as_numbers(np.asarray(columns.x))
        except ValueError as error:
            raise_fault(key, f"features: {error}", source, "give real numbers")
        try:
            y = as_numbers(np.asarray(columns.y))
        except ValueError as error:
            if self.targets is not None:
                raise_fault(key, f"targets: {error}", source, "give real numbers")
            raise_fault(key, f"labels: {error}", source, "number the labels from 0, such as by numpy.unique")
        try:
            if user is not None:
                user = parse_identifiers(np.asarray(user))
        except ValueError as error:
            raise_fault(key, str(error), source, "give each example the number or the name of its user")
        return FileColumns(x, y, user)

    def _check_shapes(self, key: str, source: str, columns: FileColumns) -> None:
        """Raise an error unless each example has the features of `shape`, a label or targets, and a user or none."""
        x, y, user = columns
        if not x.size:
            raise_fault(key, "holds no examples", source, "give one row for each example")
        if self.targets is None and np.ndim(y) != 1:
            problem = f"holds labels {[*np.shape(y)]}"
            raise_fault(key, problem, source, "give each example one label, not a one-hot row")
        shapes = [[*np.shape(column)] for column in (x, y, user) if column is not None]
        if any(shape[:1] != shapes[1][:1] for shape in shapes):
            problem = f"holds arrays of different lengths: examples {shapes[0]}, labels {shapes[1]}, users {shapes[2:]}"
            raise_fault(key, problem, source, "give each example one label, and one user, or no users")
        if x.shape[1:] != self.shape:
            problem = f"{source} has examples of shape {[*x.shape[1:]]}"
            raise_fault("features", problem, [*self.shape], "set it to this shape")

    def _checked_labels(self, source: str, y: NDArray[Any]) -> Ints:
        """Return the labels, ``[examples]``."""
        unknown = y[~np.isin(y, np.arange(self.classes))]
        if unknown.size:
            problem = f"{source} has other labels than 0 to {self.classes - 1}, such as {unknown[0]}"
            raise_fault("labels", problem, self.labels, "number the labels from 0")
        return y.astype(np.int64)

    def _checked_targets(self, key: str, source: str, y: NDArray[Any]) -> NDArray[np.float32]:
        """Return the targets of a regression, ``[examples, targets]``."""
        values = y[:, None] if np.ndim(y) == 1 else np.asarray(y)
        if values.shape[1:] != (self.targets,):
            problem = f"{source} has targets of shape {[*values.shape[1:]]}"
            raise_fault("targets", problem, self.targets, "set it to the number of values of an example")
        if problem := value_problem(values, None):
            raise_fault(key, f"targets: {problem}", source, "fill it in, or remove the example")
        return values.astype(np.float32)

    @property
    def _reading_remedy(self) -> str:
        return "check that it is complete and of this format"


class UserFileData(UserExamples):
    """A data file of the user, or two: one for training and one for testing."""

    file: DataFile
    """The examples; a relative path starts at the current directory."""
    test: DataFile | None = None
    """The test examples, a file of the same form; without it a part of ``file`` is kept for testing."""
    sha256: str | None = None
    """The SHA-256 of ``file``, as the command sha256sum prints it; a file with another checksum is refused."""

    @abstractmethod
    def read(self, path: Path) -> FileColumns:
        """Read the file at *path*; the keys of its errors are empty."""

    def read_part(self, key: str) -> FileColumns:
        return self.read(getattr(self, key))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for key, path in (("file", self.file), ("test", self.test)):
            if path is not None and not path.is_file():
                yield Fault(key, "the file does not exist", str(path), "relative paths start at the current directory")

    def load(self, streams: Streams) -> Dataset:
        if self.sha256 is not None:
            digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
            if digest != self.sha256.lower():
                problem = f"{self.file} is another file, or is incomplete: its SHA-256 is {digest}"
                raise_fault("sha256", problem, self.sha256)
        return super().load(streams)


def check_token_rows(tokens: int | None, features: Sequence[int]) -> None:
    """Raise a `ValueError` if examples are to be rows of tokens, and their *features* are not those of a row."""
    if tokens is not None and len(features) != 1:
        raise ValueError(f"tokens needs rows, not features of {[*features]}; give features: [length], or leave it out")


def check_label_columns(label: str | tuple[str, ...], targets: int | None) -> None:
    """Raise a `ValueError` if several columns are the *label*, and the regression has another number of targets."""
    if isinstance(label, tuple) and len(label) != targets:
        raise ValueError("label has another number of columns; give one column or, in a regression, as many as targets")


def _warn_of_rounding(key: str, source: str, given: NDArray[Any], x: NDArray[np.float32]) -> None:
    """Log a warning if features lose many of their values in 32 bits."""
    flat = (len(x), -1)
    lost = lossy_columns(np.reshape(given, flat), x.reshape(flat))
    if lost:
        _LOG.warning(
            "data.%s: %s: numbers of 32 bits keep less than half of the different values of feature %s (from 0); "
            "subtract a constant, such as the mean, or scale them",
            key,
            source,
            ", ".join(map(str, lost[:8])),
        )


def raise_fault(key: str, problem: str, value: object = None, remedy: str = "") -> NoReturn:
    """Raise a scenario error with one error."""
    raise ScenarioError([Fault(key, problem, value, remedy)])
