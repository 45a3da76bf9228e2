"""Files that are whole or as they were, whether a process is killed, the disk is full or the power fails.

What is written goes beside the file, is brought to the disk, and is then moved there: a name never stands for half a
file.  The order of two such files is kept, too: where the second is there, the first is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A file to write beside *path*, which is moved there at the end: so *path* is whole, or as it was.

    Raises:
        OSError: the disk would not; what was written is gone then.
    """
    part = temp_path(path)
    try:
        if part.is_symlink():  # or what it leads to would be written
            part.unlink()
        yield part
        publish_file(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def temp_path(path: Path) -> Path:
    """Where what is to become *path* is written."""
    return path.with_name(path.name + ".part")


def publish_file(part: Path, path: Path) -> None:
    """Bring the finished file *part* to the disk, and give it the name *path* there."""
    sync(part)
    os.replace(part, path)  # noqa: PTH105 - the one call that replaces on every system
    sync_directory(path.parent)


def sync(*files: Path) -> None:
    """Bring what *files* hold to the disk."""
    for one in files:
        with one.open("r+b") as file:
            os.fsync(file.fileno())


def sync_directory(folder: Path) -> None:
    """Bring the names in *folder* to the disk, where the system can do that; Windows does so by itself."""
    if os.name != "posix":
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # some file systems of others know no such thing
            raise
    finally:
        os.close(place)
