"""Opening of Parquet files, whose damage is an error with the file's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from netfl.core.formats import check_stamp
from netfl.files import absolute_path, refuse_special_file, unreadable_file

_MAX_ROWS_PER_BYTE = 64
"""Rows that a Parquet file may claim for each byte; tables of netfl need about a byte a row and more."""
_DAMAGE = (OSError, ValueError, pa.ArrowException)
"""Exceptions of a reader on a damaged Parquet file."""


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading.

    Raises:
        MachineError: the file is missing, cannot be read, is damaged, or claims more rows than it can hold.
        ScenarioError: a newer netfl wrote the file.
    """
    try:
        refuse_special_file(path)
        size = path.stat().st_size
        file = pq.ParquetFile(absolute_path(path), page_checksum_verification=True)
    except _DAMAGE as error:
        raise unreadable_file(path, error) from error
    with file:
        rows = file.metadata.num_rows
        if rows > _MAX_ROWS_PER_BYTE * size:
            raise unreadable_file(path, ValueError(f"it states {rows} rows, more than fit into its size"))
        check_stamp(file.metadata.metadata, path)
        try:
            yield file
        except _DAMAGE as error:
            raise unreadable_file(path, error) from error
