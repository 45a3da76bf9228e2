"""Format number of netfl's files: stated in each file that is written, and checked in each that is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from netfl.errors import Fault, ScenarioError, __version__

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 3
"""Format number of scenario files, run directories, tables and sweep folders; a file without a number has format 1.

It increases whenever an older file would be misread or could not be read.
"""

_KEY = b"netfl.format"
STAMP = {_KEY: str(FORMAT).encode()}
"""Metadata of a Parquet table that states its format."""


def check_format(number: object, where: str) -> None:
    """Refuse a file that a newer netfl has written, before anything in it is misread.

    Args:
        number: the ``format`` that the file states; only an integer counts.
        where: the file, and the line where that is known.

    Raises:
        ScenarioError: *number* is greater than `FORMAT`.
    """
    if isinstance(number, int) and number > FORMAT:
        problem = f"newer than {FORMAT}, the newest format that netfl {__version__} reads"
        raise ScenarioError([Fault("format", problem, number, "install a newer version of netfl", where)])


def check_folder_format(number: object, path: Path) -> None:
    """Refuse a run directory or the folder of a sweep that an older or a newer netfl wrote.

    Args:
        number: the ``format`` that its *path* states; without one, the format is 1.
        path: the file that states it.

    Raises:
        ScenarioError: *number* is not `FORMAT`.
    """
    check_format(number, str(path))
    stated = 1 if number is None else number
    if stated != FORMAT:
        problem = f"older than {FORMAT}, the format of folders that netfl {__version__} reads"
        remedy = f"convert the folder: python benchmarks/migrate.py {path.parent}"
        raise ScenarioError([Fault("format", problem, stated, remedy, str(path))])


def check_stamp(metadata: Mapping[bytes, bytes] | None, path: Path) -> None:
    """Refuse a table with the *metadata* of a newer format.

    Raises:
        ScenarioError: a newer netfl wrote the table.
    """
    stated = (metadata or {}).get(_KEY, b"")
    if stated.isdigit():
        check_format(int(stated), str(path))


def with_stamp(table: pa.Table) -> pa.Table:
    """Return the table with its format in its metadata."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **STAMP})
