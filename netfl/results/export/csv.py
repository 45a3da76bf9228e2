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
    with open_parquet(table) as file:
        fields = [(field.name, field.type) for field in file.schema_arrow]
    length = 0
    schema = pa.schema([(name, kind.value_type if pa.types.is_dictionary(kind) else kind) for name, kind in fields])
    options = pacsv.WriteOptions(quoting_style="needed")
    with atomic_write(path) as part, pacsv.CSVWriter(absolute_path(part), schema, write_options=options) as writer:
        for batch in read_rows(table):
            length += batch.num_rows
            columns = [  # NaN becomes an empty cell
                pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column
                for column in batch.columns
            ]
            writer.write_table(pa.Table.from_arrays(columns, names=schema.names).cast(schema))
    return length
