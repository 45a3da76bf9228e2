"""Columns of tables, each declared once: at the field of a dataclass whose objects are the rows of a table.

Tables, batches of rounds, the replay of a recording and the reference read these declarations.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

_TYPES = {int: "int64", float: "double"}
"""Arrow type of a field's column, by the type of the field."""


@dataclass(frozen=True, slots=True)
class ColumnHint:
    """Annotation of a field whose column differs from the field: ``index: Annotated[int, ColumnHint(name="round")]``.

    Args:
        name: name of the column; by default that of the field.
        arrow_type: type of the column in Arrow; by default that of the field's type, with 64 bits.
        meaning: content of the column; by default that of the field.
        convert: function from the value of the field to that in the column.
    """

    name: str = ""
    arrow_type: str = ""
    meaning: str = ""
    convert: Callable[[Any], Any] | None = None


Int32 = Annotated[int, ColumnHint(arrow_type="int32")]
"""A whole number in a column of 32 bits."""

Word = Annotated[str, ColumnHint(arrow_type="word")]
"""One of a few words."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Args:
        name: its name.
        arrow_type: its Arrow type: ``int32``, ``int64``, ``double``, or ``word``, which is one of a few words.
        meaning: its content, for the documentation.
        default: its value in a file without the column, NaN for no number; ``None`` if a file must have the column.
        field: the field of a row that it holds.
        convert: function from the value of the field to that in the column.
    """

    name: str
    arrow_type: str
    meaning: str
    default: float | str | None = None
    field: str = ""
    convert: Callable[[Any], Any] | None = None

    @property
    def can_be_empty(self) -> bool:
        """True if rows may have no value, as the default is NaN."""
        return isinstance(self.default, float) and math.isnan(self.default)

    @property
    def dtype(self) -> type[np.generic]:
        """Type of its NumPy arrays."""
        return np.float64 if self.arrow_type == "double" else np.int64


REPLICA = Column("replica", "int32", "number of the replica")
ROUND = Column("round", "int64", "number of the round")
USER = Column("user", "int64", "number of the user")
"""Columns that several tables begin with."""
PLACE_OF_MERGE = Column("place", "int32", "place of the merge in the round, from 0, in the order of time")
"""Column of the table ``merges`` that is no field of a merge."""


@cache
def columns_of(rows: type) -> tuple[Column, ...]:
    """Return the columns that the fields of the dataclass *rows* declare, in their order.

    A field that is a number is a column; a field of another type is one if it has a `ColumnHint`.  The meaning of a
    column is that of its field below ``Args:``, and its default that of its field.
    """
    types = get_type_hints(rows, include_extras=True)
    meanings = _argument_texts(rows)
    columns = []
    for field in fields(rows):
        annotation = types[field.name]
        hints = [entry for entry in getattr(annotation, "__metadata__", ()) if isinstance(entry, ColumnHint)]
        hint = hints[0] if hints else ColumnHint()
        arrow_type = hint.arrow_type or _TYPES.get(getattr(annotation, "__origin__", annotation))
        if arrow_type is None:
            continue  # not a number, and nothing states how it becomes one
        columns.append(
            Column(
                name=hint.name or field.name,
                arrow_type=arrow_type,
                meaning=hint.meaning or meanings.get(field.name, "").rstrip("."),
                default=_default_of(field, hint.convert),
                field=field.name,
                convert=hint.convert,
            )
        )
    return tuple(columns)


def to_arrays(rows: type, values: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return *values*, objects of the dataclass *rows*, as arrays by column, ``[values]`` each."""
    columns = columns_of(rows)
    if not values:
        return {column.name: np.array((), column.dtype) for column in columns}
    read_fields = attrgetter(*(column.field for column in columns))
    values_by_field = zip(*map(read_fields, values), strict=True)
    arrays = {}
    for column, entries in zip(columns, values_by_field, strict=True):
        converted = entries if column.convert is None else [*map(column.convert, entries)]
        arrays[column.name] = np.array(converted, column.dtype)
    return arrays


def complete_columns(rows: type, size: int, given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return arrays ``[size]`` of all columns of *rows*: a *given* array or number, and defaults for all others.

    Raises:
        KeyError: a column without a default is not given.
    """
    arrays = {}
    for column in columns_of(rows):
        if column.default is None:
            value = given[column.name]
        else:
            value = given.get(column.name, column.default)
        arrays[column.name] = np.broadcast_to(np.asarray(value, column.dtype), size)
    return arrays


def missing_defaults(columns: Iterable[Column], present: Collection[str]) -> dict[str, float | str]:
    """Return the defaults of the *columns* that a file with the columns *present* does not have, by name."""
    defaults = {}
    for column in columns:
        if column.default is not None and column.name not in present:
            defaults[column.name] = column.default
    return defaults


def _default_of(field: Field[Any], convert: Callable[[Any], Any] | None) -> float | str | None:
    """Return the default of a field, from which *convert* makes the value of its column, where ``None`` is NaN."""
    if field.default is MISSING:
        return None
    if field.default is None:
        return math.nan
    value: float | str = field.default
    if convert is not None:
        value = convert(field.default)
    return value


def _argument_texts(rows: type) -> dict[str, str]:
    """Return the texts below ``Args:`` in the docstring of *rows*, by argument."""
    lines = (inspect.getdoc(rows) or "").partition("\nArgs:\n")[2].splitlines()
    texts: dict[str, str] = {}
    name = ""
    for line in lines:
        if not line.startswith("    "):
            break  # the next section
        if not line.startswith("     "):
            name, _, text = line.strip().partition(": ")
            texts[name] = text
        else:
            texts[name] += f" {line.strip()}"
    return texts
