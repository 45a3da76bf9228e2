"""Reading of files that a user names, and storage of Python objects.

This module opens files of text, with limits on size, and `netfl.files.parquet` those of Parquet.  `netfl.files.tables`
reads CSV and Parquet tables, `netfl.files.json_documents` JSON and `netfl.files.arrays` NumPy files.
`netfl.files.cells` converts their values.  All readers follow the rules of docs/files.md: what is not of the documented
form is refused with its place.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TextIO

from netfl.errors import Fault, MachineError, ScenarioError, refusing_path

MAX_BYTES = 64_000_000
"""Maximum size of a text file."""
MAX_NAME_BYTES = 255
"""Length of a file's name that no common file system exceeds."""


def local_path(path: str | Path, key: str = "") -> Path:
    """Return *path*, which the user gave under *key*, as a path on this machine.

    Raises:
        ScenarioError: it is empty or no path at all, or an address such as ``s3://bucket/run`` or ``file:///run``.
    """
    if not isinstance(path, str | os.PathLike):
        problem = f"not a path but {type(path).__name__}"
        remedy = "give a path, as text or a pathlib.Path"
        if isinstance(folder := getattr(path, "folder", None), Path):
            remedy = f"give its folder, {str(folder)!r}"
        raise ScenarioError([Fault(key, problem, None, remedy)])
    if str(path) == "":
        raise ScenarioError([Fault(key, "an empty path", None, "name a file or a folder")])
    if "\0" in str(path):
        raise ScenarioError([Fault(key, "has a character that no path can have", str(path), "remove it")])
    scheme, sign, _ = str(path).partition("://")
    if sign:
        problem = f"an address ({scheme}://) instead of a local path"
        remedy = "give a path on this machine"
        raise ScenarioError([Fault(key, problem, str(path), remedy)])
    return Path(path)


def absolute_path(path: Path) -> str:
    """Return *path* for pyarrow and pandas, which take a relative path with a colon for an address."""
    return str(path.absolute())


def is_file_name(name: str) -> bool:
    """Return whether *name* names one file of a folder: no path, no longer than a file system allows, and valid UTF-8.

    >>> is_file_name("rounds.parquet"), is_file_name("../rounds.parquet"), is_file_name("a" * 300)
    (True, False, False)
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    return 0 < length <= MAX_NAME_BYTES and name not in {".", ".."} and not re.search(r"[/\\\0]", name)


def is_present(path: Path) -> bool:
    """Return whether there is a file or folder *path*.

    Raises:
        MachineError: the system does not tell, as in a folder without permission.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable_file(path, error) from error
    return True


def refuse_special_file(path: Path) -> None:
    """Refuse a file that is not regular: opening a named pipe would wait for ever, and a device may have no end.

    Raises:
        OSError: it is such a file, or the system does not tell.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


@contextmanager
def open_file(path: Path, max_bytes: int | None = None) -> Iterator[io.BufferedReader]:
    """Open a file for reading.

    Raises:
        OSError: the file cannot be read, is larger than *max_bytes*, or is no regular file.
    """
    refuse_special_file(path)
    with path.open("rb") as file:
        if max_bytes is not None and os.fstat(file.fileno()).st_size > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes / 1e6:g} MB", str(path))
        yield file


@contextmanager
def open_text(path: Path, *, is_limited: bool = True) -> Iterator[TextIO]:
    """Open a UTF-8 file for reading, without a byte order mark and with the line ends that it has.

    Raises:
        OSError: see `open_file`; *is_limited* files have at most `MAX_BYTES`.
    """
    with open_file(path, MAX_BYTES if is_limited else None) as file:
        yield io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file, without a byte order mark and with Unix line ends.

    Raises:
        OSError: the file cannot be read, or is larger than `MAX_BYTES`.
        UnicodeDecodeError: the file is not UTF-8.
    """
    with open_file(path, MAX_BYTES) as file:
        content = file.read()
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def raise_unreadable(path: Path, error: Exception, remedy: str) -> NoReturn:
    """Raise the error about a file of the user that cannot be read: *error* is the reason."""
    reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
    raise ScenarioError([Fault("", f"{path.name} cannot be read: {reason}", str(path), remedy)]) from error


RESTORE = "restore it from a copy, or repeat the run that wrote it"
"""Remedy for a file of netfl that is lost or damaged."""


def unreadable_file(path: Path, error: Exception) -> MachineError:
    """Return the error about a file of netfl that is missing, not accessible or damaged: *error* is the reason."""
    if isinstance(error, FileNotFoundError):
        return MachineError(f"{path} is missing; {RESTORE}")
    if isinstance(error, OSError) and error.errno:
        refusing = refusing_path(error, path)
        return MachineError(f"{refusing} cannot be read: {error.strerror}; check the path and its permissions")
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return MachineError(f"{path} cannot be read: it is damaged ({reason}); {RESTORE}")


STORED = "stored:"
"""Prefix of the digest of a stored object where a scenario names it."""


def store_object(content: bytes, suffix: str) -> Path:
    """Write a Python object of a scenario to a file that is named by its content, and return the file.

    The file is in ``NETFL_CACHE``, or in the user's cache folder.  The run directory names it, so that the run can be
    repeated and resumed on this machine.

    Args:
        content: the object, serialized.
        suffix: suffix of the file, such as ``.npz``.

    Raises:
        MachineError: the file cannot be written.
    """
    path = stored_object(hashlib.sha256(content).hexdigest()[:16], suffix)
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            part.replace(path)
        except OSError as error:
            problem = f"cannot write {path}: {error.strerror or error}"
            raise MachineError(f"{problem}; set NETFL_CACHE to a writable folder") from error
    return path


def stored_object(digest: str, suffix: str) -> Path:
    """Return the file of the object with the first 16 digits of its SHA-256; it may be missing.

    Raises:
        ValueError: *digest* is something else, such as a path to a file of somebody else.
    """
    if not re.fullmatch("[0-9a-f]{16}", digest):
        raise ValueError(f"'{digest}' is not the digest of a stored object")
    import pooch

    return Path(os.environ.get("NETFL_CACHE") or pooch.os_cache("netfl")).absolute() / "objects" / f"{digest}{suffix}"


def read_object(path: Path) -> bytes:
    """Return the content of a stored object.

    Raises:
        OSError: the file cannot be read.
        ValueError: its content is not what was stored.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest()[:16] != path.stem:
        raise ValueError("its content has changed")
    return content
