"""Atomic replacement of files: complete or unchanged, even if the process is killed, the disk is full or power fails.

The content is written beside the file, synchronized to the disk, and then renamed, so that
files appear in the order of their writes.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a file to write beside *path*, and rename it to *path* at the end.

    After any error inside, the new file is removed.

    Raises:
        OSError: the disk failed.
    """
    part = temp_path(path)
    try:
        if part.is_symlink():  # otherwise its target would be written
            part.unlink()
        yield part
        publish_file(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write *content* as JSON atomically."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def temp_path(path: Path) -> Path:
    """Return the file that is written before it becomes *path*."""
    return path.with_name(path.name + ".part")


def publish_file(part: Path, path: Path) -> None:
    """Synchronize the finished file *part* to the disk, and rename it to *path*."""
    sync(part)
    os.replace(part, path)  # noqa: PTH105 - the one call that replaces on every system
    sync_directory(path.parent)


def publish_folder(part: Path, path: Path) -> None:
    """Synchronize the names in the folder *part*, whose files are synchronized, and rename it to *path*."""
    for folder in (part, *(each for each in part.rglob("*") if each.is_dir())):
        sync_directory(folder)
    os.replace(part, path)  # noqa: PTH105 - as in `publish_file`
    sync_directory(part.parent)
    sync_directory(path.parent)


def sync(*files: Path) -> None:
    """Synchronize the content of *files* to the disk."""
    for path in files:
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def sync_directory(folder: Path) -> None:
    """Synchronize the names in *folder* to the disk, where the system supports that; Windows does it by itself."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # some network file systems do not support it
            raise
    finally:
        os.close(descriptor)
