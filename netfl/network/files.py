"""Files that a user names, read as far as a limit: nobody's file may take all memory, or never end."""

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

MOST_BYTES = 64_000_000
"""The largest file of text that is read whole."""


REMEDY = "name a path on this machine, and copy files to or from elsewhere by other means"
"""What to do about an address in place of a path."""


def check_local(path: str | Path) -> Path:
    """The file or folder of this machine that *path* names.

    Raises:
        ValueError: it is an address, such as ``s3://bucket/run`` or ``file:///run``; the message says so.
    """
    scheme, sign, _ = str(path).partition("://")
    if sign:
        raise ValueError(f"an address ({scheme}://) where a local path is wanted")
    return Path(path)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """What the file at *path* holds, as UTF-8; a byte order mark is left out, and line ends are those of Unix.

    Raises:
        OSError: it cannot be read, or is larger than *most* bytes.
        UnicodeDecodeError: it is no UTF-8.
    """
    return read_bytes(path, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of the file at *path*.

    Raises:
        OSError: it cannot be read, or is larger than *most* bytes.
    """
    with path.open("rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"larger than {most / 1e6:g} MB", str(path))
    return found


# Small CSV files of numbers, whose faults are told by line.


_NAMED = 5
"""How many faults of one kind are told."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """A CSV file as it was read.

    Args:
        path: the file.
        columns: the wanted columns by name.
        lines: the line number of each row.
    """

    path: Path
    columns: Mapping[str, NDArray[np.float64]]
    lines: NDArray[np.int64]

    @property
    def users(self) -> NDArray[np.int64]:
        """The column ``user``."""
        return self.columns["user"].astype(np.int64)

    def fault(self, row: int, problem: str, remedy: str) -> Fault:
        """A fault of one row."""
        return Fault("file", f"line {self.lines[row]}: {problem}", str(self.path), remedy)

    def repeated(self, key: Sequence[str]) -> Iterator[Fault]:
        """A fault for each row, up to a few, that repeats the *key* columns of an earlier one."""
        values = np.column_stack([self.columns[name] for name in key])
        _, first, group = np.unique(values, axis=0, return_index=True, return_inverse=True)
        earlier = first[group.ravel()]
        for row in np.flatnonzero(earlier != np.arange(len(values)))[:_NAMED]:
            said = ", ".join(f"{name} {value:g}" for name, value in zip(key, values[row], strict=True))
            yield self.fault(int(row), f"{said} again, as on line {self.lines[earlier[row]]}", "leave one of them out")


def read_csv(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> CsvRows:
    """The *columns* of a CSV file with a header, and the *optional* ones that it has; columns beside are passed over.

    Raises:
        ScenarioError: it cannot be read, lacks a column, or holds what is no finite number; up to a few faults.
    """
    try:
        with io.StringIO(read_text(path), newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            _see_header(path, header, columns)
            places = [(name, header.index(name)) for name in (*columns, *optional) if name in header]
            values, lines, faults = _numbers(reader, places, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        told = getattr(error, "strerror", None) or str(error)
        remedy = f"name a CSV file with the columns {', '.join(columns)}"
        raise ScenarioError([Fault("file", f"cannot be read: {told}", str(path), remedy)]) from error
    if faults:
        raise ScenarioError(faults)
    table = np.asarray(values, float).reshape(-1, len(places))
    return CsvRows(path, {name: table[:, at] for at, (name, _) in enumerate(places)}, np.asarray(lines, np.int64))


def user_faults(rows: CsvRows, users: int) -> Iterator[Fault]:
    """Entries of the column ``user`` that are no user of the scenario, up to a few."""
    user = rows.columns["user"]
    for row in np.flatnonzero((user != np.floor(user)) | (user < 0) | (user >= users))[:_NAMED]:
        yield rows.fault(int(row), f"there is no user {user[row]:g}", f"users are numbered 0 to {users - 1}")


def _see_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    """Stop if a column is missing."""
    missing = [name for name in columns if name not in header]
    if missing:
        raise ScenarioError(
            [Fault("file", f"line 1: no column '{name}'", str(path), suggest(name, header)) for name in missing]
        )


def _numbers(
    reader: Iterator[list[str]], places: Sequence[tuple[str, int]], path: Path
) -> tuple[list[list[float]], list[int], list[Fault]]:
    """The rows as numbers, their lines, and what is wrong with them."""
    values: list[list[float]] = []
    lines: list[int] = []
    faults: list[Fault] = []
    for line, row in enumerate(reader, start=2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            numbers = [float(row[at]) for _, at in places]
        except (ValueError, IndexError):
            numbers = [math.nan]
        if not all(map(math.isfinite, numbers)):
            wanted = ", ".join(name for name, _ in places)
            faults.append(Fault("file", f"line {line}: not a finite number for each of {wanted}", str(path)))
            if len(faults) == _NAMED:
                break
        values.append(numbers)
        lines.append(line)
    return values, lines, faults


_BROKEN = (OSError, ValueError, pa.ArrowException)
"""What a damaged file makes of its reader."""


_MOST_ROWS_PER_BYTE = 64
"""Rows of an honest table take about a byte and more; one of far more rows only serves to fill the memory."""


def local(path: Path) -> str:
    """*path* as pyarrow and pandas take it: whole, as they take a relative one that has a colon for an address."""
    return str(path.absolute())


def with_format(table: pa.Table) -> pa.Table:
    """The table, which says its format beside what else its metadata says."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **STAMP})


def check_stamp(metadata: Mapping[bytes, bytes] | None, path: Path) -> None:
    """Refuse a table that a newer netfl wrote.

    Args:
        metadata: of its schema.
        path: its file.

    Raises:
        ScenarioError: a newer netfl wrote it.
    """
    for said in ((metadata or {}).get(key, b"") for key in STAMP):
        check_format(int(said) if said.isdigit() else None, str(path))


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """A table's file, open to be read.

    Raises:
        MachineError: it cannot be read, is damaged where it is read, or claims more rows than it can hold.
        ScenarioError: a newer netfl wrote it.
    """
    try:
        file = pq.ParquetFile(local(path))
    except _BROKEN as error:
        raise MachineError(f"{path} cannot be read: {error}") from error
    with file:
        if file.metadata.num_rows > _MOST_ROWS_PER_BYTE * path.stat().st_size:
            told = f"it claims {file.metadata.num_rows} rows, more than a file of its size has"
            raise MachineError(f"{path} cannot be read: {told}")
        check_stamp(file.metadata.metadata, path)
        try:
            yield file
        except _BROKEN as error:
            raise MachineError(f"{path} cannot be read: {error}") from error


def read_frame(path: Path) -> pd.DataFrame:
    """A whole table as its columns say it; what pandas has noted beside them, such as an index, is passed over.

    Raises:
        MachineError: as `opened`.
        ScenarioError: a newer netfl wrote it.
    """
    with open_parquet(path) as file:
        table: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    return table


def local_path(path: str | Path, key: str = "") -> Path:
    """The file or folder of this machine that *path* names.

    Args:
        path: what a user names.
        key: what it is named for, such as ``--out``.

    Raises:
        ScenarioError: it is an address, such as ``s3://bucket/run``.
    """
    try:
        return check_local(path)
    except ValueError as error:
        raise ScenarioError([Fault(key, str(error), str(path), REMEDY)]) from None
