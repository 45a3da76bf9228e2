"""Reading of files that a user names: text, CSV and Parquet, with limits on size.

Limits keep a damaged or malicious file, such as an endless device, from filling the memory.
"""

from __future__ import annotations

import csv
import errno
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.types import STAMP, check_format

MAX_BYTES = 64_000_000
"""Maximum size of a text file."""
_MAX_FAULTS = 5
"""Errors of one kind that are reported."""
_MAX_ROWS_PER_BYTE = 64
"""Rows that a Parquet file may claim for each byte; tables of netfl need about a byte a row and more."""
_DAMAGE = (OSError, ValueError, pa.ArrowException)
"""Exceptions of a reader on a damaged Parquet file."""


def local_path(path: str | Path, key: str = "") -> Path:
    """Return *path* as a path on this machine.

    Args:
        path: a path that the user gave.
        key: key or option that holds it, such as ``--out``.

    Raises:
        ScenarioError: the path is an address, such as ``s3://bucket/run`` or ``file:///run``.
    """
    scheme, sign, _ = str(path).partition("://")
    if sign:
        problem = f"an address ({scheme}://) where a local path is wanted"
        remedy = "name a path on this machine, and copy files to or from elsewhere by other means"
        raise ScenarioError([Fault(key, problem, str(path), remedy)])
    return Path(path)


def absolute_path(path: Path) -> str:
    """Return *path* for pyarrow and pandas, which take a relative path with a colon for an address."""
    return str(path.absolute())


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: the file cannot be read, or is larger than *max_bytes*.
    """
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes / 1e6:g} MB", str(path))
    return content


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the content of a UTF-8 file, without a byte order mark and with Unix line ends.

    Raises:
        OSError: the file cannot be read, or is larger than *max_bytes*.
        UnicodeDecodeError: the file is not UTF-8.
    """
    return read_bytes(path, max_bytes).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Numeric columns of a CSV file.

    Args:
        path: the file.
        columns: values by column name, ``[rows]`` each.
        lines: line number of each row, ``[rows]``.
    """

    path: Path
    columns: Mapping[str, NDArray[np.float64]]
    lines: NDArray[np.int64]

    @property
    def users(self) -> NDArray[np.int64]:
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
            problem = f"{entry} again, as on line {self.lines[earlier[row]]}"
            yield self.row_fault(int(row), problem, "leave one of them out")


def user_faults(rows: CsvRows, users: int) -> Iterator[Fault]:
    """Yield an error for each of the first few rows whose column ``user`` is not below *users*."""
    user = rows.columns["user"]
    for row in np.flatnonzero((user != np.floor(user)) | (user < 0) | (user >= users))[:_MAX_FAULTS]:
        yield rows.row_fault(int(row), f"there is no user {user[row]:g}", f"users are numbered 0 to {users - 1}")


def read_csv(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> CsvRows:
    """Return the *columns* of a CSV file with a header, and those *optional* ones that it has.

    Raises:
        ScenarioError: the file cannot be read, lacks a column, or has values other than finite numbers.
    """
    try:
        with io.StringIO(read_text(path), newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            if missing := [name for name in columns if name not in header]:
                problems = [(f"line 1: no column '{name}'", suggest(name, header)) for name in missing]
                raise ScenarioError([Fault("file", problem, str(path), remedy) for problem, remedy in problems])
            places = {name: header.index(name) for name in (*columns, *optional) if name in header}
            values, lines = _read_numbers(reader, places, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        remedy = f"name a CSV file with the columns {', '.join(columns)}"
        raise ScenarioError([Fault("file", problem, str(path), remedy)]) from error
    table = np.asarray(values, float).reshape(-1, len(places))
    return CsvRows(path, dict(zip(places, table.T, strict=True)), np.asarray(lines, np.int64))


def _read_numbers(
    reader: Iterator[list[str]], places: Mapping[str, int], path: Path
) -> tuple[list[list[float]], list[int]]:
    """Return the values of all rows in the order of *places*, and their line numbers."""
    values: list[list[float]] = []
    lines: list[int] = []
    faults: list[Fault] = []
    for line, row in enumerate(reader, start=2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            numbers = [float(row[place]) for place in places.values()]
        except (ValueError, IndexError):
            numbers = [math.nan]
        if not all(map(math.isfinite, numbers)):
            problem = f"line {line}: not a finite number for each of {', '.join(places)}"
            faults.append(Fault("file", problem, str(path)))
            if len(faults) == _MAX_FAULTS:
                break
        values.append(numbers)
        lines.append(line)
    if faults:
        raise ScenarioError(faults)
    return values, lines


def with_format(table: pa.Table) -> pa.Table:
    """Return the table with the format version in its metadata."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **STAMP})


def check_stamp(metadata: Mapping[bytes, bytes] | None, path: Path) -> None:
    """Refuse a table of a newer format.

    Args:
        metadata: metadata of its schema.
        path: its file.

    Raises:
        ScenarioError: a newer netfl wrote the table.
    """
    for version in ((metadata or {}).get(key, b"") for key in STAMP):
        check_format(int(version) if version.isdigit() else None, str(path))


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading.

    Raises:
        MachineError: the file cannot be read, is damaged, or claims more rows than it can hold.
        ScenarioError: a newer netfl wrote the file.
    """
    try:
        file = pq.ParquetFile(absolute_path(path))
    except _DAMAGE as error:
        raise MachineError(f"{path} cannot be read: {error}") from error
    with file:
        rows = file.metadata.num_rows
        if rows > _MAX_ROWS_PER_BYTE * path.stat().st_size:
            raise MachineError(f"{path} cannot be read: it claims {rows} rows, more than a file of its size has")
        check_stamp(file.metadata.metadata, path)
        try:
            yield file
        except _DAMAGE as error:
            raise MachineError(f"{path} cannot be read: {error}") from error


def read_frame(path: Path) -> pd.DataFrame:
    """Return a Parquet table by its columns, without pandas metadata such as an index.

    Raises:
        MachineError: see `open_parquet`.
        ScenarioError: a newer netfl wrote the file.
    """
    with open_parquet(path) as file:
        table: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    return table
