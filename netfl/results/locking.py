"""Locks of run directories: one process writes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from netfl.errors import Fault, MachineError, ScenarioError

_NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock *folder* for writing; the system releases it when the process ends.

    Raises:
        ScenarioError: another process has locked it, or it contains links that lead elsewhere.
        MachineError: it cannot be written.
    """
    linked = next((path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_symlink()), None)
    if linked is not None:
        problem = f"{linked} is a link, but netfl does not write through links"
        raise ScenarioError([Fault("", problem, None, "replace it with the file")])
    lock = FileLock(folder / _NAME)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        problem = f"{folder} is being written by another process"
        raise ScenarioError([Fault("", problem, None, "wait until it ends, or stop it")]) from None
    except OSError as error:
        raise MachineError(f"cannot write into {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked *folder*."""
    if not (folder / _NAME).exists():
        return False
    try:
        with FileLock(folder / _NAME).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False  # a folder that cannot be written is not being written
