"""User-provided table in a CSV or Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import ByForm
from netfl.files.schema import NAME, NUMBER, FileColumn, FileSchema
from netfl.files.tables import UserTable, read_table
from netfl.learning.data._user_files import FileColumns, UserFileData, check_label_columns, raise_fault
from netfl.types import Floats

SCHEMA = FileSchema(
    "data `table`",
    FileColumn("features", NUMBER),
    FileColumn("label", NUMBER),
    FileColumn("user", NAME, is_needed=False),
    memory="its cells",
)
"""Declared columns, whose headings the keys of the same names give."""


class Table(UserFileData):
    """Examples in the rows of a CSV or Parquet file: numeric columns, one of labels and, optionally, one of users.

    With ``targets`` in place of ``labels``, the column ``label``, or each of a list of columns, is predicted.  The
    column ``user`` gives the user of each example, for ``partition: natural``.  Users may be whole numbers or names; in
    ascending order they become users 0, 1 and so on.  In text they are numbers only if all are integers such as 12;
    else they are names, such as 007, 1.10 or NA.

    Example::

        kind: table
        file: mine.csv
        features: [height, weight]
        label: kind
        labels: 3
        user: user
    """

    features: Annotated[Annotated[int, Field(ge=1)] | Annotated[tuple[str, ...], Field(min_length=1)], ByForm()]
    """The columns that are the features, in this order; or their number, if all other columns are features."""
    label: Annotated[Annotated[str, Field()] | Annotated[tuple[str, ...], Field(min_length=1)], ByForm()] = "label"
    """The column of the labels; in a regression the column, or columns, of the targets."""
    user: str | None = None
    """The column of the users; none by default."""

    @model_validator(mode="after")
    def _check_columns(self) -> Table:
        if self.user in self._labels:
            raise ValueError(f"the column '{self.user}' cannot be both label and user; use another column")
        check_label_columns(self.label, self.targets)
        named = self.features if isinstance(self.features, tuple) else ()
        others = [*(("label", name) for name in self._labels), ("user", self.user)]
        for role, column in others:
            if column in named:
                raise ValueError(f"the {role}'s column '{column}' is among the features; leave it out of them")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        if isinstance(self.features, int):
            return (self.features,)
        return (len(self.features),)

    def read(self, path: Path) -> FileColumns:
        if path.suffix not in {".csv", ".parquet"}:
            raise_fault("", "has neither the suffix .csv nor .parquet", str(path), "rename it to .csv or .parquet")
        table = read_table(path, is_limited=False)
        others = [*self._labels]
        if self.user is not None:
            others.append(self.user)
        if isinstance(self.features, int):
            features = [name for name in table.columns if name not in others]
        else:
            features = [*self.features]
        table.require(*features, *others)
        x = np.empty((len(table), 0))
        if features:
            x = np.column_stack([_numbers(table, "features", name) for name in features])
        y = np.column_stack([_numbers(table, "label", name) for name in self._labels])
        if isinstance(self.label, str):
            y = y[:, 0]
        user = None
        if self.user is not None:
            user = table.names(SCHEMA["user"].named(self.user))
        table.check()
        return FileColumns(x, y, user)

    @property
    def _labels(self) -> tuple[str, ...]:
        return (self.label,) if isinstance(self.label, str) else self.label


def _numbers(table: UserTable, role: str, name: str) -> Floats:
    """Return the column with the heading *name*, which has one of the roles in `SCHEMA`."""
    return table.numbers(SCHEMA[role].named(name))
