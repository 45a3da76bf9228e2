"""Parquet files that say which format they are written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from netfl.errors import MachineError
from netfl.version import STAMP, refuse_newer

if TYPE_CHECKING:
    import pandas as pd

_BROKEN = (OSError, ValueError, pa.ArrowException)
"""What a damaged file makes of its reader."""
_MOST_ROWS_PER_BYTE = 64
"""Rows of an honest table take about a byte and more; one of far more rows only serves to fill the memory."""


def local(path: Path) -> str:
    """*path* as pyarrow and pandas take it: whole, as they take a relative one that has a colon for an address."""
    return str(path.absolute())


def stamped(table: pa.Table) -> pa.Table:
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
        refuse_newer(int(said) if said.isdigit() else None, str(path))


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
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


def frame(path: Path) -> pd.DataFrame:
    """A whole table as its columns say it; what pandas has noted beside them, such as an index, is passed over.

    Raises:
        MachineError: as `opened`.
        ScenarioError: a newer netfl wrote it.
    """
    with opened(path) as file:
        table: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    return table
