"""The tables of a recorded run as `netfl.access.replay` reads them: their columns, and the errors of their cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netfl.core.columns import PLACE_OF_MERGE, REPLICA, ROUND, USER, Column, columns_of, missing_defaults
from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.schema import COUNT, DATA, ENERGY, LEVEL, NUMBER, SPAN, TIME, FileColumn, FileSchema, Quantity
from netfl.files.schema import USER as USER_NUMBER
from netfl.files.tables import UserTable, read_table
from netfl.types import Bools, Delivery, Floats, Ints, LinkReport, Merge, MergedModel, Round

RANK = Column("rank", "int64", "place of the user in the ranking, from 0")
ERASURES = "erasures"
"""Table of the parts of deliveries that are lost, which some runs have."""
Key = tuple[int, int, int, float]
"""Round, user, base and time of arrival of a delivery."""
DELIVERY_KEY = ["round", "user", "base", "arrived_s"]
"""Columns that name a delivery of a replica."""
_KEY_COLUMNS = (REPLICA, ROUND, USER, Column("base", "int64", ""), Column("arrived_s", "double", ""))
"""These columns, and that of the replica."""
ERASURE_COLUMNS = (
    *_KEY_COLUMNS,
    Column("part", "int64", ""),
    Column("parts", "int64", ""),
)
LOST_TRAININGS = "lost_trainings"
"""Table of the trainings in vain before deliveries, which some runs have."""
LOST_TRAINING_COLUMNS = (
    *_KEY_COLUMNS,
    Column("place", "int32", ""),
    Column("lost_base", "int64", ""),
)
NOT_SUMMED = "not_summed"
"""Table of the updates that sums in the air left out, which some runs have."""
NOT_SUMMED_COLUMNS = (REPLICA, ROUND, Column("user", "int64", ""), Column("base", "int64", ""))
MERGES = "merges"
MERGED_MODELS = "merged_models"
MERGED_UPDATES = "merged_updates"
"""Tables of the merges of other nodes than the server, which some runs have."""
MERGE_COLUMNS = (REPLICA, ROUND, PLACE_OF_MERGE, *columns_of(Merge))
MERGED_MODEL_COLUMNS = (REPLICA, ROUND, *columns_of(MergedModel))
MERGED_UPDATE_COLUMNS = (*_KEY_COLUMNS, Column("node", "int64", ""), Column("number", "int64", ""))
LINKS = "links"
"""Table of how deliveries came over the air, which some runs have."""
LINK_COLUMNS = (
    *_KEY_COLUMNS,
    *(replace(column, default=math.nan) for column in columns_of(LinkReport) if column.arrow_type == "double"),
    Column("mode", "int32", "", field="mode"),
)
"""Columns of this table, in any order; quantities may be unknown."""
_FROM_ONE = replace(COUNT, lowest=1.0, remedy="write a whole number from 1 on")
_QUANTITIES = {
    "user": USER_NUMBER,
    "round": _FROM_ONE,
    "attempts": _FROM_ONE,
    "parts": _FROM_ONE,
    "airtime_s": SPAN,
    "energy_J": ENERGY,
    "snr_db": LEVEL,
    "gain_db": LEVEL,
    "uplink_bits": DATA,
    "downlink_bits": DATA,
    "weight": replace(NUMBER, name="a weight", lowest=0.0, takes_durations=False, remedy="write a number from 0 on"),
}
"""Contents of columns; all others are whole numbers from 0 on or, with the unit in their names, times."""


def _file_column(column: Column) -> FileColumn:
    """Return the declaration of a *column* in a file."""
    quantity: Quantity = replace(TIME, form="number") if column.name.endswith("_s") else COUNT
    quantity = _QUANTITIES.get(column.name, quantity)
    if column.can_be_empty and quantity.form == "whole number":
        quantity = replace(quantity, form="number")
    return FileColumn(
        column.name,
        quantity,
        is_needed=column.default is None,
        empty="not known" if column.can_be_empty else "",
        takes_infinity=column.can_be_empty,
    )


def _schema(table: str, *columns: Column) -> FileSchema:
    return FileSchema(f"access `replay`, {table}", *map(_file_column, columns))


SCHEMAS = {
    "rounds": _schema("rounds", REPLICA, *columns_of(Round)),
    "deliveries": _schema("deliveries", REPLICA, ROUND, *columns_of(Delivery)),
    ERASURES: _schema(ERASURES, *ERASURE_COLUMNS),
    LOST_TRAININGS: _schema(LOST_TRAININGS, *LOST_TRAINING_COLUMNS),
    NOT_SUMMED: _schema(NOT_SUMMED, *NOT_SUMMED_COLUMNS),
    LINKS: _schema(LINKS, *LINK_COLUMNS),
    MERGES: _schema(MERGES, *MERGE_COLUMNS),
    MERGED_MODELS: _schema(MERGED_MODELS, *MERGED_MODEL_COLUMNS),
    MERGED_UPDATES: _schema(MERGED_UPDATES, *MERGED_UPDATE_COLUMNS),
    "users": _schema("users", REPLICA, USER, RANK),
}
"""Declared columns of the tables that are read."""


def row_values(table: pd.DataFrame, rows: type) -> Iterator[dict[str, Any]]:
    """Yield the values of each row by the fields of the dataclass *rows* that hold them, as Python objects."""
    columns = columns_of(rows)
    names = [column.field for column in columns]
    for row in zip(*(table[column.name].tolist() for column in columns), strict=True):
        yield dict(zip(names, row, strict=True))


def key_of(index: int, delivery: Delivery) -> Key:
    """Return the values of `DELIVERY_KEY` of a delivery in round *index*.

    A user may deliver twice in a round from one base, but not at one time.
    """
    return index, delivery.user, delivery.base, delivery.arrived_s


class Rows:
    """Some rows of a table, in another order; their index is the row in the table."""

    def __init__(self, table: UserTable, rows: pd.DataFrame) -> None:
        self._table = table
        self._rows = rows

    def refuse(self, is_wrong: Bools, problem: str, column: str) -> None:
        """Refuse rows for their value in *column*."""
        wrong = np.zeros(len(self._table), bool)
        wrong[self._rows.index[is_wrong]] = True
        self._table.refuse(
            wrong,
            lambda row: Fault("", f"{column}: {problem}", self._rows[column].loc[row].item(), "correct the recording"),
        )


def read_columns(folder: Path, name: str, columns: Sequence[Column]) -> tuple[pd.DataFrame, UserTable]:
    """Read *columns* of a table as numbers, and the table with the errors of its cells.

    Columns that the file does not have get their defaults.

    Raises:
        ScenarioError: the file cannot be read, or a column is missing; the key is ``run``.
    """
    path = folder / f"{name}.parquet"
    if not path.is_file():
        problem = f"there is no folder {folder}"
        if folder.is_dir():
            problem = f"there is no file {path}"
        raise ScenarioError([Fault("run", problem, remedy="name the folder of a finished run")])
    schema = SCHEMAS[name]
    with prefix_faults("run"):
        table = read_table(path)
        table.require(*(column.name for column in columns if column.default is None))
    present = [column for column in columns if column.name in table]
    values = {column.name: _read_column(table, schema[column.name]) for column in present}
    return pd.DataFrame(values).assign(**missing_defaults(columns, values)), table


def _read_column(table: UserTable, column: FileColumn) -> Floats | Ints:
    if column.quantity.form == "user":
        return table.users(column)
    if column.quantity.form == "whole number":
        return table.integers(column)
    if column.empty:  # netfl writes NaN where there is no value
        return table.numbers(column, empty=math.nan)
    return table.numbers(column)
