"""Locks of run directories: one process writes at a time, and others see that without a lock of their own."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from netfl.errors import Fault, ScenarioError, cannot_write
from netfl.files import unreadable_file

_NAME = ".lock"
_FOREIGN = frozenset({"wandb"})
"""Folders of other programs in a run directory; that of Weights & Biases has links to its logs."""


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
        ScenarioError: another process has locked it, or it contains links or special files.
        MachineError: it cannot be written.
    """
    refuse_special_files(folder)
    with ExitStack() as held:
        try:
            held.enter_context(_exclusive(folder / _NAME))
        except _LockedError:
            problem = f"{folder} is being written by another process"
            raise ScenarioError([Fault("", problem, None, "wait until it ends, or stop it")]) from None
        except OSError as error:
            raise cannot_write(error, folder) from error
        yield


def refuse_special_files(folder: Path) -> None:
    """Refuse a folder with links, as files would be read or written where they lead, or with named pipes or devices.

    Folders of other programs are left out, as netfl neither reads nor writes them.

    Raises:
        ScenarioError: it, or a folder in it, contains a link, a named pipe, a socket or a device.
        MachineError: it, or a folder in it, cannot be read.
    """

    def refuse_unreadable(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a folder that another process has removed meanwhile
            raise unreadable_file(Path(error.filename), error) from error

    for parent, folders, names in os.walk(folder, onerror=refuse_unreadable):
        folders[:] = [name for name in folders if name not in _FOREIGN]
        for name in (*folders, *names):
            path = Path(parent) / name
            try:
                mode = path.lstat().st_mode
            except OSError as error:
                refuse_unreadable(error)
                continue
            if stat.S_ISLNK(mode):
                problem = f"{path} is a link, but netfl does not follow links in its folders"
                raise ScenarioError([Fault("", problem, None, "replace it with the file")])
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise ScenarioError([Fault("", f"{path} is not a regular file", None, "remove it")])


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked *folder*; False where that cannot be read, as it is not being written."""
    with suppress(OSError):
        return _is_held(folder / _NAME)
    return False
