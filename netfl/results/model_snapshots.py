"""Model versions of every learner, written during a run, and at its end as one safetensors file for each lane.

The format is that of the package ``safetensors``: the length of the header in 8 bytes, the header as JSON, which gives
name, type, shape and place of each array, and the numbers, little-endian.  Its metadata have the further names of tied
parameters.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from netfl.errors import MachineError
from netfl.files import open_file, unreadable_file
from netfl.results.atomic_write import atomic_write, sync, sync_directory
from netfl.results.run_schema import first_problem
from netfl.types import Floats, RunObserver, RunProgress, RunStart

VERSIONS = "versions"
"""Folder of a run directory that holds the files."""
_CONSTANT = "constant"
"""Word in place of the round, for arrays that all versions share."""
_METADATA = "__metadata__"
_FLOAT = np.dtype("<f4")
_TYPES: Mapping[str, np.dtype[Any]] = {"F32": _FLOAT, "I64": np.dtype("<i8"), "BOOL": np.dtype(bool)}
_CODES = {"f": "F32", "i": "I64", "u": "I64", "b": "BOOL"}
"""Types in the file, by the kind of NumPy's type."""
_Size = Annotated[int, Field(ge=0)]


class _ArrayEntry(BaseModel):
    """Entry of the header for an array: its type, its shape, and its first byte and the one after its last."""

    dtype: Literal["F32", "I64", "BOOL"]
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]


class _Header(BaseModel, extra="allow"):
    """Header of a file: the entry of each array by ``ROUND/NAME`` or ``constant/NAME``, and the tied names."""

    __pydantic_extra__: dict[str, _ArrayEntry]
    tied: dict[str, str] = Field(default={}, alias=_METADATA)


_ALIGNED = 8
_MAX_DIGITS = 19
"""Number of digits that no round has."""


@dataclass(frozen=True, slots=True)
class VersionLayout:
    """Content of a model version.

    Args:
        shapes: names and shapes of what an update carries, in their order.
        constants: frozen parameters, and buffers that no update carries, by name.
        tied: further names of parameters, each with the name in *shapes*.
    """

    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)


class VersionSource(Protocol):
    """Learners as the writer of versions reads them."""

    @property
    def lanes(self) -> Sequence[tuple[str, int]]:
        """Learner and replica of each lane."""

    def version(self, lane: int) -> Floats:
        """Return the current version of *lane*, ``[size + 1]``."""


class SnapshotWriter(RunObserver):
    """Observer that keeps model versions of every lane.

    During the run they are rows of plain numbers in ``<learner>-<replica>.part``, which a crash leaves intact.

    Args:
        folder: the run directory.
        learner: the learners.
        layout: content of a version.
        trained: the learners whose objectives train a t.
        rounds: the rounds whose versions are kept, in order; 0 is the start.  The version of the last round of each
            replica is kept, too.
    """

    def __init__(
        self,
        folder: Path,
        learner: VersionSource,
        layout: VersionLayout,
        trained: Collection[str],
        rounds: Sequence[int],
    ) -> None:
        self._folder = folder / VERSIONS
        self._learner = learner
        self._rounds = rounds
        self._names = [f"{name}-{replica}" for name, replica in learner.lanes]
        self._layouts: list[dict[str, tuple[int, ...]]] = []
        for name, _ in learner.lanes:
            shapes = dict(layout.shapes)
            if name in trained:
                shapes["t"] = ()
            self._layouts.append(shapes)
        self._constants = {name: _to_stored_type(array) for name, array in layout.constants.items()}
        self._tied = layout.tied
        self._checkpoint_round = -1
        self._round = 0
        self._last_rounds: dict[int, int] = {}  # of each replica that has ended, by its place

    def on_start(self, start: RunStart) -> None:
        """Keep version 0, or continue after the versions that the checkpoint counts on.

        Raises:
            MachineError: some of these versions are missing.
        """
        self._folder.mkdir(exist_ok=True)
        if start.checkpoint_round is not None:
            self._checkpoint_round = start.checkpoint_round
        rows = bisect_right(self._rounds, self._checkpoint_round)
        lanes = zip(self._names, self._layouts, strict=True)
        sizes = {self._part(name): rows * _row_bytes(layout) for name, layout in lanes}
        for path, size in sizes.items():
            path.touch()
            if path.stat().st_size < size:
                raise MachineError(f"{path} is incomplete; remove the run's checkpoints to start it again")
        for path, size in sizes.items():  # without those after the checkpoint, now that all are complete
            os.truncate(path, size)
        self._add_if_due(0)

    def on_round(self, progress: RunProgress) -> None:
        for place, result in enumerate(progress.results):
            if result is None:
                self._last_rounds.setdefault(place, self._round)
        self._round = progress.round
        self._add_if_due(progress.round)

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Write the safetensors files of a finished run."""
        if status != "done":
            return
        first = min((replica for _, replica in self._learner.lanes), default=0)
        for lane, (_, replica) in enumerate(self._learner.lanes):
            name = self._names[lane]
            layout = self._layouts[lane]
            raw = self._part(name)
            last = self._last_rounds.get(replica - first, self._round)
            rounds = [*self._rounds[: bisect_right(self._rounds, last)]]
            os.truncate(raw, len(rounds) * _row_bytes(layout))  # without those after the end of its replica
            if last not in rounds:
                rounds.append(last)
                self._add_version(lane)
            path = self._folder / f"{name}.safetensors"
            with atomic_write(path) as new, raw.open("rb") as rows, new.open("wb") as file:
                file.write(_header(layout, rounds, self._constants, self._tied))
                shutil.copyfileobj(rows, file, 1 << 20)
                for array in self._constants.values():
                    file.write(array.tobytes())

    def sync(self) -> None:
        """Force the versions so far to the disk."""
        sync(*map(self._part, self._names))
        sync_directory(self._folder)

    def remove_parts(self) -> None:
        """Remove the plain numbers of a finished run."""
        for name in self._names:
            self._part(name).unlink(missing_ok=True)

    def _add_if_due(self, index: int) -> None:
        place = bisect_left(self._rounds, index)
        if index <= self._checkpoint_round or place >= len(self._rounds) or self._rounds[place] != index:
            return
        for lane in range(len(self._names)):
            self._add_version(lane)

    def _add_version(self, lane: int) -> None:
        """Add the current version of *lane* to its numbers."""
        numbers = _row_bytes(self._layouts[lane]) // _FLOAT.itemsize  # t comes last, and only where it is trained
        with self._part(self._names[lane]).open("ab") as file:
            version = self._learner.version(lane)
            file.write(version[:numbers].astype(_FLOAT).tobytes())

    def _part(self, name: str) -> Path:
        return self._folder / f"{name}.part"


class _Place(NamedTuple):
    """Place of an array in a file: its type and shape, and its bytes after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class ModelSnapshots(Mapping[int, Mapping[str, NDArray[Any]]]):
    """Model versions in a file, by round: all of a model by name and, where the objective trains it, ``t``.

    A version of a module has the names of its ``state_dict``: parameters, also frozen and tied ones, and buffers.

    Raises:
        MachineError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open_file(path) as file:
                size = path.stat().st_size
                begin = 8 + int.from_bytes(file.read(8), "little")
                header = _Header.model_validate_json(file.read(min(begin, size) - 8), strict=True)
            self._places, self._constants = _find_arrays(header.__pydantic_extra__, size - begin)
            self._tied = header.tied
            _check_tied(self._tied, self._places)
            self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
            if begin < size:  # a map of no bytes is an error
                self._bytes = np.memmap(path, np.uint8, "r", offset=begin)
        except ValidationError as error:
            raise unreadable_file(path, ValueError(first_problem(error))) from error
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable_file(path, error) from error

    def __getitem__(self, index: int) -> Mapping[str, NDArray[Any]]:
        places = self._places[index] | self._constants
        version = {name: self._read(place) for name, place in places.items()}
        tied = {name: version[original] for name, original in self._tied.items()}
        return version | tied

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read(self, place: _Place) -> NDArray[Any]:
        return np.array(self._bytes[place.begin : place.end].view(place.dtype)).reshape(place.shape)


def _to_stored_type(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(_TYPES[_CODES[array.dtype.kind]])


def _find_arrays(
    header: Mapping[str, _ArrayEntry], size: int
) -> tuple[dict[int, dict[str, _Place]], dict[str, _Place]]:
    """Return the place of each array of each version, and of each array that all versions share.

    Args:
        header: the entries of the arrays, which follow one another from the begin of the numbers on.
        size: the size of all numbers in bytes.

    Raises:
        ValueError: an array is not where its shape is, or versions differ in their arrays.
    """
    places: dict[int, dict[str, _Place]] = {}
    constants: dict[str, _Place] = {}
    end = 0
    for key, entry in sorted(header.items(), key=lambda item: item[1].data_offsets):
        dtype = _TYPES[entry.dtype]
        begin = end
        end += dtype.itemsize * math.prod(entry.shape)
        if entry.data_offsets != (begin, end):
            raise ValueError(f"{key} of the shape {[*entry.shape]} is not at the bytes {begin} to {end}")
        index, _, name = key.partition("/")
        place = _Place(dtype, entry.shape, begin, end)
        if index == _CONSTANT:
            constants[name] = place
        elif index.isdecimal() and len(index) < _MAX_DIGITS:
            places.setdefault(int(index), {})[name] = place
        else:
            raise ValueError(f"{key} does not begin with a round")
    if end != size:
        raise ValueError(f"it has {size} bytes of numbers in place of {end}")
    layouts = [{name: (place.dtype, place.shape) for name, place in arrays.items()} for arrays in places.values()]
    if any(layout != layouts[0] for layout in layouts):
        raise ValueError("its versions have different arrays")
    return places, constants


def _check_tied(tied: Mapping[str, str], places: Mapping[int, Mapping[str, _Place]]) -> None:
    """Raise `ValueError` for the name of an array that versions do not have."""
    for name in tied.values():
        if not all(name in arrays for arrays in places.values()):
            raise ValueError(f"there is no array {name}, to which others are tied")


def _row_bytes(layout: Mapping[str, tuple[int, ...]]) -> int:
    return _FLOAT.itemsize * sum(math.prod(shape) for shape in layout.values())


def _header(
    layout: Mapping[str, tuple[int, ...]],
    rounds: Iterable[int],
    constants: Mapping[str, NDArray[Any]],
    tied: Mapping[str, str],
) -> bytes:
    entries: dict[str, Any] = {}
    if tied:
        entries[_METADATA] = dict(tied)
    at = 0
    for index in rounds:
        for name, shape in layout.items():
            end = at + _FLOAT.itemsize * math.prod(shape)
            entries[f"{index}/{name}"] = {"dtype": "F32", "shape": [*shape], "data_offsets": [at, end]}
            at = end
    for name, array in constants.items():
        end = at + array.nbytes
        code = _CODES[array.dtype.kind]
        entries[f"{_CONSTANT}/{name}"] = {"dtype": code, "shape": [*array.shape], "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(8, "little") + text
