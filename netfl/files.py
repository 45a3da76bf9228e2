"""Reading of files that a user names: text, CSV and Parquet, with limits on size; and storage of Python objects."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.formats import check_stamp
from netfl.types import Floats, Ints

MAX_BYTES = 64_000_000
"""Maximum size of a text file."""
_MAX_FAULTS = 5
"""Errors of one kind that are reported."""
_MAX_ROWS_PER_BYTE = 64
"""Rows that a Parquet file may claim for each byte; tables of netfl need about a byte a row and more."""
_DAMAGE = (OSError, ValueError, pa.ArrowException)
"""Exceptions of a reader on a damaged Parquet file."""


def local_path(path: str | Path, key: str = "") -> Path:
    """Return *path*, which the user gave under *key*, as a path on this machine.

    Raises:
        ScenarioError: the path is an address, such as ``s3://bucket/run`` or ``file:///run``.
    """
    scheme, sign, _ = str(path).partition("://")
    if sign:
        problem = f"an address ({scheme}://) instead of a local path"
        remedy = "give a path on this machine"
        raise ScenarioError([Fault(key, problem, str(path), remedy)])
    return Path(path)


def absolute_path(path: Path) -> str:
    """Return *path* for pyarrow and pandas, which take a relative path with a colon for an address."""
    return str(path.absolute())


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file, without a byte order mark and with Unix line ends.

    Raises:
        OSError: the file cannot be read, or is larger than `MAX_BYTES`.
        UnicodeDecodeError: the file is not UTF-8.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_BYTES / 1e6:g} MB", str(path))
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def unreadable_file(path: Path, error: Exception) -> MachineError:
    """Return the error about a file of netfl that is missing, not accessible or damaged: *error* is the reason."""
    remedy = "Restore it from a copy, or repeat the run that wrote it."
    if isinstance(error, FileNotFoundError):
        return MachineError(f"{path} is missing. {remedy}")
    if isinstance(error, OSError) and error.errno:
        return MachineError(f"{path} cannot be read: {error.strerror}")
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return MachineError(f"{path} cannot be read: it is damaged ({reason}). {remedy}")


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Numeric columns of a CSV file.

    Args:
        columns: values by column name, ``[rows]`` each.
        lines: line number of each row, ``[rows]``.
    """

    path: Path
    columns: Mapping[str, Floats]
    lines: Ints

    @property
    def users(self) -> Ints:
        """Column ``user``."""
        return self.columns["user"].astype(np.int64)

    def row_fault(self, row: int, problem: str, remedy: str) -> Fault:
        """Return an error that names the line of a row."""
        return Fault("file", f"line {self.lines[row]}: {problem}", str(self.path), remedy)

    def duplicate_faults(self, key: Sequence[str]) -> Iterator[Fault]:
        """Yield an error for each of the first few rows that repeat the *key* columns of an earlier one."""
        values = np.column_stack([self.columns[name] for name in key])
        _, first, group = np.unique(values, axis=0, return_index=True, return_inverse=True)
        earlier = first[group.ravel()]
        for row in np.flatnonzero(earlier != np.arange(len(values)))[:_MAX_FAULTS]:
            entry = ", ".join(f"{name} {value:g}" for name, value in zip(key, values[row], strict=True))
            problem = f"{entry} occurs twice, first on line {self.lines[earlier[row]]}"
            yield self.row_fault(int(row), problem, "leave one of them out")


def user_faults(rows: CsvRows, users: int) -> Iterator[Fault]:
    """Yield an error for each of the first few rows whose column ``user`` is not below *users*."""
    user = rows.columns["user"]
    for row in np.flatnonzero((user != np.floor(user)) | (user < 0) | (user >= users))[:_MAX_FAULTS]:
        yield rows.row_fault(int(row), f"no such user: {user[row]:g}", f"users are numbered 0 to {users - 1}")


def read_csv(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> CsvRows:
    """Return the *columns* of a CSV file with a header, and those *optional* ones that it has.

    Raises:
        ScenarioError: the file cannot be read, lacks a column, or has values other than finite numbers.
    """
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""))
        header = [name.strip() for name in next(reader, [])]
        places = {name: header.index(name) for name in (*columns, *optional) if name in header}
        rows = ((line, row) for line, row in enumerate(reader, start=2) if any(cell.strip() for cell in row))
        numbered = [(line, *_parse_numbers(row, places.values())) for line, row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        remedy = f"name a CSV file with the columns {', '.join(columns)}"
        raise ScenarioError([Fault("file", problem, str(path), remedy)]) from error
    if missing := [name for name in columns if name not in header]:
        problems = [(f"line 1: no column '{name}'", suggest(name, header)) for name in missing]
        raise ScenarioError([Fault("file", problem, str(path), remedy) for problem, remedy in problems])
    lines, *values = np.asarray(numbered, float).reshape(-1, 1 + len(places)).T
    bad = lines[~np.isfinite(values).all(axis=0)][:_MAX_FAULTS].astype(int)
    if bad.size:
        problem = f"not a finite number for each of {', '.join(places)}"
        raise ScenarioError([Fault("file", f"line {line}: {problem}", str(path)) for line in bad])
    return CsvRows(path, dict(zip(places, values, strict=True)), lines.astype(np.int64))


def _parse_numbers(row: Sequence[str], places: Collection[int]) -> list[float]:
    """Return the numbers at *places*; NaN for all if one is missing or no number."""
    try:
        return [float(row[place]) for place in places]
    except (ValueError, IndexError):
        return [math.nan] * len(places)


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading.

    Raises:
        MachineError: the file is missing, cannot be read, is damaged, or claims more rows than it can hold.
        ScenarioError: a newer netfl wrote the file.
    """
    try:
        file = pq.ParquetFile(absolute_path(path), page_checksum_verification=True)
    except _DAMAGE as error:
        raise unreadable_file(path, error) from error
    with file:
        rows = file.metadata.num_rows
        if rows > _MAX_ROWS_PER_BYTE * path.stat().st_size:
            raise unreadable_file(path, ValueError(f"it states {rows} rows, more than fit into its size"))
        check_stamp(file.metadata.metadata, path)
        try:
            yield file
        except _DAMAGE as error:
            raise unreadable_file(path, error) from error


def read_frame(path: Path) -> pd.DataFrame:
    """Return a Parquet table by its columns, without pandas metadata such as an index.

    Raises:
        MachineError: see `open_parquet`.
        ScenarioError: a newer netfl wrote the file.
    """
    with open_parquet(path) as file:
        table: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    return table


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
