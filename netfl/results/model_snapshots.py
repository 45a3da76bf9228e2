"""Model versions of every learner, written during a run, and at its end as one safetensors file for each lane.

The format is that of the package ``safetensors``: the length of the header in 8 bytes, the header as JSON, which gives
name, shape and place of each array, and the numbers, little-endian.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from netfl.errors import MachineError
from netfl.files import unreadable_file
from netfl.results.atomic_write import atomic_write, sync, sync_directory
from netfl.results.run_schema import first_problem
from netfl.types import RunObserver, RunProgress, RunStart

if TYPE_CHECKING:
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.parallel_learner import ParallelLearner

VERSIONS = "versions"
"""Folder of a run directory that holds the files."""
_FLOAT = np.dtype("<f4")
_Size = Annotated[int, Field(ge=0)]


class _ArrayEntry(BaseModel):
    """Entry of the header for an array: its type, its shape, and its first byte and the one after its last."""

    dtype: Literal["F32"]
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]


_HEADER = TypeAdapter(dict[Annotated[str, Field(pattern=r"^\d{1,18}/")], _ArrayEntry])
_ALIGNED = 8


class SnapshotWriter(RunObserver):
    """Observer that keeps model versions of every lane.

    During the run they are rows of plain numbers in ``<learner>-<replica>.part``, which a crash leaves intact.

    Args:
        folder: the run directory.
        learner: the learners.
        layout: the names and shapes of the model's parameters, in their order.
        trained: the learners whose objectives train a t.
        rounds: the rounds whose versions are kept, in order; 0 is the start.
    """

    def __init__(
        self,
        folder: Path,
        learner: BatchedLearner | ParallelLearner,
        layout: Mapping[str, tuple[int, ...]],
        trained: Collection[str],
        rounds: Sequence[int],
    ) -> None:
        self._folder, self._learner, self._rounds = folder / VERSIONS, learner, rounds
        self._names = [f"{name}-{replica}" for name, replica in learner.lanes]
        self._layouts = [dict(layout) | ({"t": ()} if name in trained else {}) for name, _ in learner.lanes]
        self._checkpoint_round = -1

    def on_start(self, start: RunStart) -> None:
        """Keep version 0, or continue after the versions that the checkpoint counts on.

        Raises:
            MachineError: some of these versions are missing.
        """
        self._folder.mkdir(exist_ok=True)
        self._checkpoint_round = -1 if start.checkpoint_round is None else start.checkpoint_round
        rows = bisect_right(self._rounds, self._checkpoint_round)
        lanes = zip(self._names, self._layouts, strict=True)
        sizes = {self._part(name): rows * _row_bytes(layout) for name, layout in lanes}
        for path, size in sizes.items():
            path.touch()
            if path.stat().st_size < size:
                raise MachineError(f"{path} is incomplete; remove the run's checkpoints to start it again")
        for path, size in sizes.items():
            os.truncate(path, size)
        self._add_if_due(0)

    def on_round(self, progress: RunProgress) -> None:
        self._add_if_due(progress.round)

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Write the safetensors files of a finished run."""
        if status != "done":
            return
        for name, layout in zip(self._names, self._layouts, strict=True):
            raw, path = self._part(name), self._folder / f"{name}.safetensors"
            with atomic_write(path) as new, raw.open("rb") as rows, new.open("wb") as file:
                file.write(_header(layout, self._rounds[: raw.stat().st_size // _row_bytes(layout)]))
                shutil.copyfileobj(rows, file, 1 << 20)

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
        for lane, (name, layout) in enumerate(zip(self._names, self._layouts, strict=True)):
            with self._part(name).open("ab") as file:
                version = self._learner.version(lane)
                file.write(version[: _row_bytes(layout) // _FLOAT.itemsize].astype(_FLOAT).tobytes())

    def _part(self, name: str) -> Path:
        return self._folder / f"{name}.part"


class ModelSnapshots(Mapping[int, Mapping[str, NDArray[np.float32]]]):
    """Model versions in a file, by round: the parameters by name and, where the objective trains it, ``t``.

    Raises:
        MachineError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                begin = 8 + int.from_bytes(file.read(8), "little")
                header = _HEADER.validate_json(file.read(min(begin, size) - 8), strict=True)
            self._places = _find_arrays(header, size - begin)
            self._numbers = np.memmap(path, _FLOAT, "r", offset=begin) if begin < size else np.empty(0, _FLOAT)
        except ValidationError as error:
            raise unreadable_file(path, ValueError(first_problem(error))) from error
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable_file(path, error) from error

    def __getitem__(self, index: int) -> Mapping[str, NDArray[np.float32]]:
        return {
            name: np.array(self._numbers[begin:end]).reshape(shape)
            for name, (shape, begin, end) in self._places[index].items()
        }

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _find_arrays(
    header: Mapping[str, _ArrayEntry], size: int
) -> dict[int, dict[str, tuple[tuple[int, ...], int, int]]]:
    """Return the shape, and the first number and the one after the last, of each array of each version.

    Args:
        header: the entries of the arrays, which follow one another from the begin of the numbers on.
        size: the size of all numbers in bytes.

    Raises:
        ValueError: an array is not where its shape is, or versions differ in their arrays.
    """
    places: dict[int, dict[str, tuple[tuple[int, ...], int, int]]] = {}
    end = 0
    for key, entry in sorted(header.items(), key=lambda item: item[1].data_offsets):
        index, _, name = key.partition("/")
        begin = end
        end += _FLOAT.itemsize * math.prod(entry.shape)
        if entry.data_offsets != (begin, end):
            raise ValueError(f"{key} of the shape {[*entry.shape]} is not at the bytes {begin} to {end}")
        place = entry.shape, begin // _FLOAT.itemsize, end // _FLOAT.itemsize
        places.setdefault(int(index), {})[name] = place
    if end != size:
        raise ValueError(f"it has {size} bytes of numbers in place of {end}")
    shapes = [{name: shape for name, (shape, *_) in arrays.items()} for arrays in places.values()]
    if any(of_version != shapes[0] for of_version in shapes):
        raise ValueError("its versions have different arrays")
    return places


def _row_bytes(layout: Mapping[str, tuple[int, ...]]) -> int:
    return _FLOAT.itemsize * sum(math.prod(shape) for shape in layout.values())


def _header(layout: Mapping[str, tuple[int, ...]], rounds: Iterable[int]) -> bytes:
    entries, at = {}, 0
    for index in rounds:
        for name, shape in layout.items():
            end = at + _FLOAT.itemsize * math.prod(shape)
            entries[f"{index}/{name}"] = {"dtype": "F32", "shape": [*shape], "data_offsets": [at, end]}
            at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(8, "little") + text
