"""Messages between a run and its workers: pickled one after the other; large arrays go by way of files.

A file is mapped into memory by whoever reads it, so that processes share what they only read, such as the examples.
"""

from __future__ import annotations

import os
import pickle
import traceback
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import mkstemp
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

_LARGE = 1 << 20
"""Bytes from which an array is put into a file."""


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An exception on its way: many kinds cannot be made again from what `pickle` keeps of them.

    Args:
        kind: its class.
        words: its ``args``.
        more: its attributes.
    """

    kind: type[Exception]
    words: tuple[Any, ...]
    more: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> RemoteError:
        """*error*, with a note of where it was raised; as a plain one where nobody else could read it."""
        told = "".join(traceback.format_exception(error))
        found = cls(type(error), error.args, vars(error) | {"__notes__": [f"in a worker:\n{told}"]})
        try:
            pickle.loads(pickle.dumps(found))  # noqa: S301 - made right here
        except Exception:  # whatever an exception of the user's does there
            return cls(RuntimeError, (f"{type(error).__name__}: {error}",), {"__notes__": found.more["__notes__"]})
        return found

    def error(self) -> Exception:
        """The exception."""
        made = self.kind.__new__(self.kind, *self.words)
        made.args = self.words
        vars(made).update(self.more)
        return made


class SharedArrays:
    """Files of arrays in a folder that all processes see; an array that is put there again is not written again."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._there: dict[int, tuple[str, NDArray[Any]]] = {}

    def put(self, array: NDArray[Any]) -> str:
        """The file that holds *array*."""
        if id(array) not in self._there:
            handle, path = mkstemp(suffix=".npy", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                np.save(file, array)
            self._there[id(array)] = path, array  # which keeps the id its own
        return self._there[id(array)][0]

    def clear(self) -> None:
        """Let go of all arrays and of their files; who has mapped one keeps it."""
        for path, _ in self._there.values():
            with suppress(OSError):  # where a mapped file cannot be removed, its folder is, later
                Path(path).unlink()
        self._there = {}


class WorkerPipe:
    """One end of a pair of pipes.

    Args:
        incoming: what the other end writes.
        outgoing: what the other end reads.
        shelf: where large arrays are put.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], shelf: SharedArrays) -> None:
        self._incoming, self._outgoing, self._shelf = incoming, outgoing, shelf

    def send(self, message: object) -> None:
        """Send *message*.

        Raises:
            OSError: the other end is gone, or the folder is full.
        """
        _Pickler(self._outgoing, self._shelf).dump(message)
        self._outgoing.flush()

    def receive(self) -> Any:
        """The next message; waits for it.

        Raises:
            EOFError: the other end is gone.
        """
        try:
            return _Unpickler(self._incoming).load()
        except pickle.UnpicklingError as error:
            raise EOFError(str(error)) from error


def pack_message(message: object) -> bytes:
    """*message* as one piece, for where there is no shelf."""
    out = BytesIO()
    _Arrays(out, protocol=5).dump(message)
    return out.getvalue()


class _Arrays(pickle.Pickler):
    """Has tensors go as arrays, wherever they are."""

    def reducer_override(self, obj: object) -> Any:
        """What stands for a tensor."""
        return (torch.from_numpy, (obj.cpu().numpy(),)) if isinstance(obj, torch.Tensor) else NotImplemented


class _Pickler(_Arrays):
    """Puts large arrays on the shelf, those of tensors too."""

    def __init__(self, file: IO[bytes], shelf: SharedArrays) -> None:
        super().__init__(file, protocol=5)
        self._shelf = shelf

    def persistent_id(self, obj: object) -> str | None:
        """The file of a large array."""
        if not isinstance(obj, np.ndarray) or obj.nbytes < _LARGE or obj.dtype.hasobject:
            return None
        return self._shelf.put(obj)


class _Unpickler(pickle.Unpickler):
    """Maps them into memory; who writes into one has a copy of what it writes."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._found: dict[str, NDArray[Any]] = {}

    def persistent_load(self, pid: str) -> NDArray[Any]:
        """The array in the file *pid*."""
        if pid not in self._found:
            self._found[pid] = np.load(pid, mmap_mode="c")
        return self._found[pid]
