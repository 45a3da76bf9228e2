"""Versions of every learner's model: written while a run goes on, and one safetensors file of each at its end.

The format is that of the package ``safetensors``: the length of a header in 8 bytes, the header, which says in JSON
which numbers are where, and the numbers, little-endian.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.results.atomic_write import atomic_write, sync, sync_directory

VERSIONS = "versions"
"""The folder of a run directory that holds them."""
_FLOAT = np.dtype("<f4")
_ALIGNED = 8


class SnapshotWriter:
    """Takes the versions as they are made.

    Until the end they are rows of plain numbers in ``<learner>-<replica>.part``: a crash loses none that was added.

    Args:
        folder: the run directory.
        lanes: learner and replica of each.
        layout: the names and shapes of the model's parameters, in their order.
        trained: the learners whose objectives train a t.
        rounds: the rounds whose versions are kept, in order; 0 is the start.
    """

    def __init__(
        self,
        folder: Path,
        lanes: Sequence[tuple[str, int]],
        layout: Mapping[str, tuple[int, ...]],
        trained: Collection[str],
        rounds: Sequence[int],
    ) -> None:
        self._folder = folder / VERSIONS
        self._rounds = rounds
        self._names = [f"{learner}-{replica}" for learner, replica in lanes]
        self._layouts = [dict(layout) | ({"t": ()} if learner in trained else {}) for learner, _ in lanes]

    def due(self, index: int) -> bool:
        """Whether the version of round *index* is to be kept."""
        place = bisect_left(self._rounds, index)
        return place < len(self._rounds) and self._rounds[place] == index

    def begin(self, index: int | None) -> None:
        """Go on behind round *index*, up to which all versions are there; ``None`` for the very first.

        Raises:
            MachineError: they are not.
        """
        self._folder.mkdir(exist_ok=True)
        rows = 0 if index is None else bisect_right(self._rounds, index)
        sizes = {self._part(name): rows * _row(own) for name, own in zip(self._names, self._layouts, strict=True)}
        for path, size in sizes.items():
            path.touch()
            if path.stat().st_size < size:
                raise MachineError(f"{path} is cut short; remove the run's checkpoints to start it again")
        for path, size in sizes.items():
            os.truncate(path, size)

    def add(self, versions: Iterable[NDArray[np.float64]]) -> None:
        """Add the next version of each lane, ``[parameters + 1]``: θ and, last, t."""
        for name, layout, version in zip(self._names, self._layouts, versions, strict=True):
            with self._part(name).open("ab") as file:
                file.write(version[: _row(layout) // _FLOAT.itemsize].astype(_FLOAT).tobytes())

    def sync(self) -> None:
        """Bring what was added to the disk."""
        sync(*map(self._part, self._names))
        sync_directory(self._folder)

    def close(self) -> None:
        """Write the files as they are read."""
        for name, layout in zip(self._names, self._layouts, strict=True):
            raw, path = self._part(name), self._folder / f"{name}.safetensors"
            with atomic_write(path) as new, raw.open("rb") as rows, new.open("wb") as file:
                file.write(_header(layout, self._rounds[: raw.stat().st_size // _row(layout)]))
                shutil.copyfileobj(rows, file, 1 << 20)

    def clear(self) -> None:
        """Remove what only was there to go on with."""
        for name in self._names:
            self._part(name).unlink(missing_ok=True)

    def _part(self, name: str) -> Path:
        """Where a lane's rows are."""
        return self._folder / f"{name}.part"


class ModelSnapshots(Mapping[int, Mapping[str, NDArray[np.float32]]]):
    """The versions in a file, by round: the parameters by name and, where the objective trains it, ``t``.

    Args:
        path: the file.

    Raises:
        MachineError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._places: dict[int, dict[str, tuple[tuple[int, ...], int, int]]] = {}
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                told = json.loads(file.read(min(length, path.stat().st_size)))
            self._numbers = np.memmap(path, _FLOAT, "r", offset=8 + length)
            for key, one in told.items():
                index, _, name = key.partition("/")
                begin, end = (place // _FLOAT.itemsize for place in one["data_offsets"])
                self._places.setdefault(int(index), {})[name] = tuple(one["shape"]), begin, end
            wrong = [*self._misplaced()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error
        if wrong:
            raise MachineError(f"{path} cannot be read: {wrong[0]} is not where its header says")

    def _misplaced(self) -> Iterator[str]:
        """What cannot be where the header says."""
        for index, places in self._places.items():
            for name, (shape, begin, end) in places.items():
                if not (0 <= begin <= end <= len(self._numbers) and math.prod(shape) == end - begin):
                    yield f"{index}/{name}"

    def __getitem__(self, index: int) -> Mapping[str, NDArray[np.float32]]:
        return {
            name: np.array(self._numbers[begin:end]).reshape(shape)
            for name, (shape, begin, end) in self._places[index].items()
        }

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _row(layout: Mapping[str, tuple[int, ...]]) -> int:
    """The bytes of one version."""
    return _FLOAT.itemsize * sum(math.prod(shape) for shape in layout.values())


def _header(layout: Mapping[str, tuple[int, ...]], rounds: Iterable[int]) -> bytes:
    """What a file of the versions of *rounds* begins with."""
    told, at = {}, 0
    for index in rounds:
        for name, shape in layout.items():
            end = at + _FLOAT.itemsize * math.prod(shape)
            told[f"{index}/{name}"] = {"dtype": "F32", "shape": [*shape], "data_offsets": [at, end]}
            at = end
    text = json.dumps(told, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(8, "little") + text
