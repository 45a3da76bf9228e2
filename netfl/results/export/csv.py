"""Export of the tables of a run as CSV files, for tools that do not read Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from netfl.core.remedies import call
from netfl.errors import Fault, ScenarioError
from netfl.files import absolute_path
from netfl.files.parquet import open_parquet
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.results.run_schema import read_rows


def write_tables(run: Run, folder: Path) -> list[tuple[str, int]]:
    """Write every table of *run* as ``<table>.csv`` into *folder*, and return names and numbers of rows.

    Raises:
        ScenarioError: the run has no tables yet.
    """
    if not run.tables:
        problem = f"{run.folder} has no tables yet: it is {run.status}"
        raise ScenarioError([Fault("", problem, None, f"finish it with: {call('resume', run.folder)}")])
    folder.mkdir(parents=True, exist_ok=True)
    return [(name, _convert(run.path_of(f"{name}.parquet"), folder / f"{name}.csv")) for name in run.tables]


def _convert(table: Path, path: Path) -> int:
    """Write a Parquet file as CSV, and return the number of its rows."""
    with open_parquet(table) as file:
        schema = pa.schema([(field.name, _plain_type(field.type)) for field in file.schema_arrow])
    length = 0
    options = pacsv.WriteOptions(quoting_style="needed")
    with atomic_write(path) as part, pacsv.CSVWriter(absolute_path(part), schema, write_options=options) as writer:
        for batch in read_rows(table):
            columns = [_without_nan(column) for column in batch.columns]
            writer.write_table(pa.Table.from_arrays(columns, names=schema.names).cast(schema))
            length += batch.num_rows
    return length


def _without_nan(column: pa.Array) -> pa.Array:
    """Return a column with nulls in place of NaN, which become empty cells."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), None, column)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells of a column: that of the words of a dictionary."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind
