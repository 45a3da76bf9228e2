"""Locks of run directories: one process writes at a time, and others see that without a lock of their own."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError

_NAME = ".lock"


class _LockedError(Exception):
    """Another process has the lock."""


if sys.platform == "linux":
    import fcntl

    _FLOCK = "hhqqi4x"
    """The structure ``flock``: type, start as an offset from the begin of the file, length, and process."""

    def _request(descriptor: int, command: int) -> int:
        """Request a lock of the whole file; return the type of the lock that the system answers with."""
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, command, wanted))
        return int(answer[0])

    @contextmanager
    def _exclusive(path: Path) -> Iterator[None]:
        """Hold a lock that the system releases with the process; it belongs to the opened file, not to a thread."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                _request(descriptor, fcntl.F_OFD_SETLK)
            except OSError as error:
                if error.errno in {errno.EAGAIN, errno.EACCES}:
                    raise _LockedError from None
                raise
            yield
        finally:
            os.close(descriptor)

    def _is_held(path: Path) -> bool:
        """Return whether a process holds the lock; this takes none."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return _request(descriptor, fcntl.F_OFD_GETLK) != fcntl.F_UNLCK
        finally:
            os.close(descriptor)

else:  # no lock there can be queried without taking it
    from filelock import FileLock, Timeout

    @contextmanager
    def _exclusive(path: Path) -> Iterator[None]:
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise _LockedError from None
        try:
            yield
        finally:
            lock.release()

    def _is_held(path: Path) -> bool:
        try:
            with _exclusive(path):
                return False
        except _LockedError:
            return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock *folder* for writing; the system releases it when the process ends.

    Raises:
        ScenarioError: another process has locked it, or it contains links that lead elsewhere.
        MachineError: it cannot be written.
    """
    refuse_links(folder)
    with ExitStack() as held:
        try:
            held.enter_context(_exclusive(folder / _NAME))
        except _LockedError:
            problem = f"{folder} is being written by another process"
            raise ScenarioError([Fault("", problem, None, "wait until it ends, or stop it")]) from None
        except OSError as error:
            raise MachineError(f"cannot write into {folder}: {error.strerror or error}") from error
        yield


def refuse_links(folder: Path) -> None:
    """Refuse a folder that contains links, as files would be read or written where they lead.

    Raises:
        ScenarioError: it, or a folder in it, contains a link.
    """
    linked = next((path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_symlink()), None)
    if linked is not None:
        problem = f"{linked} is a link, but netfl does not follow links in its folders"
        raise ScenarioError([Fault("", problem, None, "replace it with the file")])


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked *folder*; False where that cannot be read, as it is not being written."""
    with suppress(OSError):
        return _is_held(folder / _NAME)
    return False
