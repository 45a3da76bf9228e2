"""The user's own table, in a CSV or Parquet file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from netfl.learning.data._user_files import ColumnSpec, UserFileData, raise_fault

_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}


class Table(UserFileData):
    """Examples in a CSV or Parquet file, a row each: columns of numbers, one of labels and, perhaps, one of users.

    The column ``user`` says whose each example is, for ``partition: natural``; users may be numbers or names, and in
    rising order they become users 0, 1 and so on.

    Example::

        kind: table
        file: mine.csv
        features: [height, weight]
        label: kind
        labels: 3
        user: user
    """

    features: Annotated[int, Field(ge=1)] | Annotated[tuple[str, ...], Field(min_length=1)]
    """The columns that are the features, in this order; or how many there are, where all other columns are features."""
    label: str = "label"
    """The column of the labels."""
    user: str | None = None
    """The column of the users; none by default."""

    @field_validator("features")
    @classmethod
    def _once(cls, features: int | tuple[str, ...]) -> int | tuple[str, ...]:
        """Refuse a column that is named twice."""
        if isinstance(features, tuple) and len(set(features)) < len(features):
            raise ValueError("a column is named twice")
        return features

    @model_validator(mode="after")
    def _apart(self) -> Table:
        """Refuse features that tell the label, or whose an example is."""
        if self.label == self.user:
            raise ValueError(f"the column '{self.label}' cannot be both label and user")
        named = self.features if isinstance(self.features, tuple) else ()
        for what, column in (("label", self.label), ("user", self.user)):
            if column in named:
                raise ValueError(f"the {what}'s column '{column}' is among the features, which would give it away")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each column."""
        return (self.features if isinstance(self.features, int) else len(self.features),)

    def read(self, path: Path) -> ColumnSpec:
        """The columns of a file."""
        if path.suffix not in _READERS:
            raise_fault("", "is neither CSV nor Parquet by its name", str(path), "call it .csv or .parquet")
        rows = _READERS[path.suffix](path)
        others = [self.label, *([] if self.user is None else [self.user])]
        features = [*rows.columns.drop(others, errors="ignore")] if isinstance(self.features, int) else self.features
        missing = [name for name in (*features, *others) if name not in rows.columns]
        if missing:
            there = ", ".join(map(str, rows.columns[:20]))
            raise_fault("", f"has no column {', '.join(missing)}", str(path), f"its columns: {there}")
        for told, wrong in (
            ("has empty fields", rows[[*features, *others]].isna().any()),
            ("has something other than numbers", rows[[*features]].dtypes.map(lambda one: one.kind not in "fiub")),
        ):
            if len(rows) and wrong.any():
                named = ", ".join(map(str, wrong.index[wrong]))
                raise_fault("", f"{told} in column {named}", str(path), "mend them, or leave their rows out")
        user = None if self.user is None else rows[self.user].to_numpy()
        return ColumnSpec(rows[[*features]].to_numpy(float), np.asarray(rows[self.label]), user)
