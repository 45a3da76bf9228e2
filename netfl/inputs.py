"""Files that a user names, read as far as a limit: nobody's file may take all memory, or never end."""

from __future__ import annotations

import errno
from pathlib import Path

MOST_BYTES = 64_000_000
"""The largest file of text that is read whole."""


REMEDY = "name a path on this machine, and copy files to or from elsewhere by other means"
"""What to do about an address in place of a path."""


def local_path(path: str | Path) -> Path:
    """The file or folder of this machine that *path* names.

    Raises:
        ValueError: it is an address, such as ``s3://bucket/run`` or ``file:///run``; the message says so.
    """
    scheme, sign, _ = str(path).partition("://")
    if sign:
        raise ValueError(f"an address ({scheme}://) where a local path is wanted")
    return Path(path)


def text(path: Path, most: int = MOST_BYTES) -> str:
    """What the file at *path* holds, as UTF-8; a byte order mark is left out, and line ends are those of Unix.

    Raises:
        OSError: it cannot be read, or is larger than *most* bytes.
        UnicodeDecodeError: it is no UTF-8.
    """
    return content(path, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of the file at *path*.

    Raises:
        OSError: it cannot be read, or is larger than *most* bytes.
    """
    with path.open("rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"larger than {most / 1e6:g} MB", str(path))
    return found
