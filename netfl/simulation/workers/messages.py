"""Messages to and from workers.

Messages are pickled one after the other.  Large arrays go through files that each reader maps into memory, so that
processes share what they only read, such as the examples.  This module does not import torch.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import mkstemp
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from netfl.core.remedies import function

_FILE_BYTES = 1 << 20
"""Size from which an array is sent through a file."""


def continuation() -> str:
    """Return the remedy of a run that has lost a worker, as the end of a message."""
    return f"; continue from the last checkpoint with {function('resume')}"


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An exception of a worker.  Many exceptions cannot be built from their pickle, so the parts are sent.

    Args:
        kind: its class.
        arguments: its ``args``.
        attributes: its ``__dict__``.
    """

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> RemoteError:
        """Pack *error* with its traceback as a note; as a `RuntimeError` if the receiver could not unpickle it."""
        note = f"in a worker:\n{''.join(traceback.format_exception(error))}"
        packed = cls(type(error), error.args, vars(error) | {"__notes__": [note]})
        try:
            pickle.loads(pickle.dumps(packed))  # noqa: S301 - made right here
        except Exception:  # whatever an exception of the user's does there
            return cls(RuntimeError, (f"{type(error).__name__}: {error}",), {"__notes__": [note]})
        return packed

    def error(self) -> Exception:
        """Rebuild the exception."""
        error = self.kind.__new__(self.kind, *self.arguments)
        error.args = self.arguments
        vars(error).update(self.attributes)
        return error


class SharedArrays:
    """Files of arrays in a folder that all processes see.  An array that is put twice is written once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._files: dict[int, tuple[str, NDArray[Any]]] = {}

    def put(self, array: NDArray[Any]) -> str:
        """Return the path of the file that holds *array*."""
        if id(array) not in self._files:
            handle, path = mkstemp(suffix=".npy", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                np.save(file, array)
            self._files[id(array)] = path, array  # a reference keeps the id unique
        return self._files[id(array)][0]

    def clear(self) -> None:
        """Remove all files.  A process that has mapped one can still read it."""
        for path, _ in self._files.values():
            with suppress(OSError):  # where a mapped file cannot be removed, its folder is, later
                Path(path).unlink()
        self._files = {}


class WorkerPipe:
    """One end of a connection between two processes.

    Args:
        incoming: written by the other end.
        outgoing: read by the other end.
        arrays: for large arrays; ``None`` to send them like all else.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], arrays: SharedArrays | None) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._arrays = arrays

    def send(self, message: object) -> None:
        """Send *message*.

        Raises:
            OSError: the other end is closed, or the folder is full.
        """
        _Pickler(self._outgoing, self._arrays).dump(message)
        self._outgoing.flush()

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the other end is closed.
        """
        try:
            return _Unpickler(self._incoming).load()
        except pickle.UnpicklingError as error:
            raise EOFError(str(error)) from error


def answer_call(call: Callable[..., object], arguments: Sequence[object]) -> object:
    """Return the result of a call, or its exception packed."""
    try:
        return call(*arguments)
    except Exception as error:  # for the run to raise
        return RemoteError.of(error)


def pack_message(message: object) -> bytes:
    """Pickle *message* into bytes, for connections without shared files."""
    buffer = BytesIO()
    _Pickler(buffer, None).dump(message)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Sends tensors as arrays, and large arrays as paths of files."""

    def __init__(self, file: IO[bytes], arrays: SharedArrays | None) -> None:
        super().__init__(file, protocol=5)
        self._arrays = arrays

    def reducer_override(self, obj: object) -> Any:
        torch = sys.modules.get("torch")  # without torch there are no tensors
        if torch is not None and isinstance(obj, torch.Tensor):
            return torch.from_numpy, (obj.cpu().numpy(),)
        return NotImplemented

    def persistent_id(self, obj: object) -> str | None:
        if self._arrays is None or not isinstance(obj, np.ndarray):
            return None
        if obj.nbytes < _FILE_BYTES or obj.dtype.hasobject:  # a file cannot be mapped into objects
            return None
        return self._arrays.put(obj)


class _Unpickler(pickle.Unpickler):
    """Maps files into memory.  A write into a mapped array goes to a private copy."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._mapped: dict[str, NDArray[Any]] = {}

    def persistent_load(self, pid: str) -> NDArray[Any]:
        if pid not in self._mapped:
            self._mapped[pid] = np.load(pid, mmap_mode="c")
        return self._mapped[pid]
