"""Tables of the user: CSV and Parquet files, whose columns become arrays, or errors that name line and column."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.files import cells as parsing
from netfl.files import open_text, raise_unreadable
from netfl.files.cells import TimeScale
from netfl.files.parquet import open_parquet
from netfl.files.schema import FileColumn, FileSchema
from netfl.types import Bools, Floats, Ints

MAX_FAULTS = 10
"""Errors of one file that are reported one by one."""
_MAX_COLUMNS = 20
"""Columns of a file that a message lists."""
_CHUNK_CELLS = 1_000_000
"""Cells of a CSV file that are held as objects of Python at a time."""
_REMEDY = "name a CSV file in UTF-8, or a Parquet file"
_WHOLE = re.compile(r"[0-9]+\.0*")
"""A whole number with a decimal point, as programs write that have no whole numbers with empty cells."""


class UserTable:
    """Rows of a table, and the errors found in them so far.

    A method that converts a column marks the rows in which it cannot, and returns some value there.  `check` raises
    the errors of all marked rows, one for each row.

    Args:
        path: the file.
        columns: cells by column, ``[rows]``: text in a CSV file, typed in a Parquet file.
        lines: line of each row in a CSV file, ``[rows]``; in a Parquet file the number of the row, from 1.

    Attributes:
        is_wrong: rows with an error, ``[rows]``.
    """

    def __init__(self, path: Path, columns: Mapping[str, pa.Array], lines: Ints) -> None:
        self.path = path
        self.columns = dict(columns)
        self.lines = lines
        self.is_wrong = np.zeros(len(lines), bool)
        self._faults: dict[int, Fault] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Return the file and the line of a row, for messages."""
        return f"{self.path.name}:{self.lines[row]}"

    def require(self, *names: str) -> None:
        """Check that the table has the columns *names*.

        Raises:
            ScenarioError: it has not.
        """
        missing = [name for name in names if name not in self]
        if missing:
            problem = f"{self.path.name} has no column {' and '.join(missing)}"
            present = [*self.columns][:_MAX_COLUMNS]
            if len(self.columns) > _MAX_COLUMNS:
                present.append(f"and {len(self.columns) - _MAX_COLUMNS} more")
            remedy = f"its columns: {', '.join(present) or 'none'}; needed: {', '.join(names)}"
            raise ScenarioError([Fault("", problem, None, remedy)])

    def choose(self, *names: str) -> str:
        """Return the one of some headings, which mean the same, that the table has; the first if it has none.

        Raises:
            ScenarioError: it has several.
        """
        present = [name for name in names if name in self]
        if len(present) > 1:
            problem = f"{self.path.name} has the columns {' and '.join(present)}, which mean the same"
            raise ScenarioError([Fault("", problem, None, "leave all but one out")])
        return present[0] if present else names[0]

    def refuse(self, is_wrong: Bools, describe: Callable[[int], Fault]) -> None:
        """Mark rows as wrong; *describe* returns the error of a row, without its place."""
        is_new = is_wrong & ~self.is_wrong
        for row in np.flatnonzero(is_new)[:MAX_FAULTS].tolist():
            fault = describe(row)
            self._faults[row] = replace(fault, problem=f"{self.place(row)}: {fault.problem}")
        self.is_wrong |= is_wrong

    def refuse_repeated(self, names: Sequence[str], keys: Sequence[Ints | Floats]) -> None:
        """Refuse rows whose *keys*, the values of the columns *names*, are those of an earlier row."""
        values = np.column_stack(keys)
        _, first, group = np.unique(values, axis=0, return_index=True, return_inverse=True)
        earlier = first[group.ravel()]

        def describe(row: int) -> Fault:
            entry = ", ".join(f"{name} {value:g}" for name, value in zip(names, values[row], strict=True))
            problem = f"{entry} occurs twice, first in {self.place(earlier[row])}"
            return Fault("", problem, None, "leave one of them out")

        self.refuse(earlier != np.arange(len(values)), describe)

    @property
    def faults(self) -> list[Fault]:
        """The errors of the first wrong rows, and the number of the others."""
        return limit_faults([self._faults[row] for row in sorted(self._faults)], int(self.is_wrong.sum()))

    def check(self) -> None:
        """Raise the errors found so far.

        Raises:
            ScenarioError: a row is wrong.
        """
        if self.is_wrong.any():
            raise ScenarioError(self.faults)

    def check_headings(self, schema: FileSchema, likely: Sequence[str] = ()) -> None:
        """Check that the table has the needed columns of *schema* and, if others are refused, no other.

        *likely* are headings that another column probably means; by default all that the table does not have.

        Raises:
            ScenarioError: it has not; the key is empty.
        """
        for column in schema:
            self.heading(column)
        self.require(*(self.heading(column) for column in schema if column.is_needed))
        if schema.others == "ignored":
            return
        unknown = [name for name in self.columns if name not in schema.names]
        if unknown:
            problem = f"{self.path.name} has the column {unknown[0]}, which is not read"
            absent = likely or [name for name in schema.names if name not in self]
            remedy = schema.fix_others or f"rename or remove it; {suggest(unknown[0], absent or schema.names)}"
            raise ScenarioError([Fault("", problem, None, remedy)])

    def heading(self, column: FileColumn) -> str:
        """Return the one of the headings of *column* that the table has; the first if it has none.

        Raises:
            ScenarioError: it has several.
        """
        return self.choose(column.name, *column.other_names)

    def has(self, column: FileColumn) -> bool:
        """Return whether the table has *column*, under any of its headings."""
        return self.heading(column) in self

    def numbers(self, column: FileColumn, *, empty: float | None = None, missing: Sequence[float] = ()) -> Floats:
        """Return a column of finite numbers within the range of *column*, ``[rows]``.

        *empty* is the value of an empty cell, by default an error, and of a cell that holds one of *missing*.
        """
        name = self.heading(column)
        cells = self.columns[name]
        values = parsing.parse_numbers(cells, takes_durations=column.quantity.takes_durations)
        describe = parsing.number_fault
        if column.quantity.form == "time":
            describe = parsing.seconds_fault
        return self._checked(column, values, describe, empty, missing)

    def is_missing(self, column: FileColumn, missing: Sequence[float]) -> Bools:
        """Return which rows hold one of the values *missing*, ``[rows]``."""
        cells = self.columns[self.heading(column)]
        values = parsing.parse_numbers(cells, takes_durations=column.quantity.takes_durations)
        return parsing.hold_any(cells, values, missing)

    def take(self, is_kept: Bools) -> UserTable:
        """Return a table of some rows, ``[rows]``, which keep their lines; call it before errors are marked."""
        columns = {name: cells.filter(pa.array(is_kept)) for name, cells in self.columns.items()}
        return UserTable(self.path, columns, self.lines[is_kept])

    def integers(self, column: FileColumn) -> Ints:
        """Return a column of whole numbers within the range of *column*, ``[rows]``."""
        values = self.numbers(column)
        name = self.heading(column)
        is_wrong = (values != np.floor(values)) | (values >= 2.0**53)
        self.refuse(is_wrong, lambda row: self._outside_fault(column, name, float(values[row]), row))
        return np.where(self.is_wrong, column.quantity.lowest, values).astype(np.int64)

    def users(self, column: FileColumn, count: int | None = None) -> Ints:
        """Return a column of numbers of users, ``[rows]``, below *count* if it is given."""
        name = self.heading(column)
        values = parsing.parse_users(self.columns[name])
        remedy = column.quantity.remedy

        def describe(cell: object) -> Fault:
            if parsing.has_no_value(cell):
                return Fault("", "not the number of a user", cell, column.fix_empty)
            if isinstance(cell, float | Decimal) or _WHOLE.fullmatch(str(cell)):
                return Fault(
                    "", "not the number of a user", str(cell), f"{remedy}, as whole numbers such as 0, not 0.0"
                )
            return Fault("", "not the number of a user", cell, remedy)

        self.refuse_cells(name, values < 0, describe)
        if count is not None:
            remedy = f"users are numbered 0 to {count - 1}"
            self.refuse(values >= count, lambda row: Fault("", "no such user", int(values[row]), remedy))
        return values

    def times(self, column: FileColumn, scale: TimeScale, *, empty: float | None = None) -> Floats:
        """Return a column of times, ``[rows]``; *empty* is the value of an empty cell, by default an error."""
        values = scale.parse(self.columns[self.heading(column)])
        return self._checked(column, values, scale.fault, empty)

    def _checked(
        self,
        column: FileColumn,
        values: Floats,
        describe: Callable[[object], Fault],
        empty: float | None,
        missing: Sequence[float] = (),
    ) -> Floats:
        """Return *values* of a column, in which NaN marks wrong cells, with the errors of the rows marked."""
        name = self.heading(column)
        cells = self.columns[name]
        is_wrong = np.isnan(values)
        is_outside = column.quantity.is_outside(values)
        if empty is not None:
            is_empty = parsing.is_empty(cells)
            if column.takes_infinity:
                is_empty |= parsing.is_nothing(cells)
            is_empty |= parsing.hold_any(cells, values, missing)
            values[is_empty] = empty
            is_wrong &= ~is_empty
            is_outside &= ~is_empty

        def describe_cell(cell: object) -> Fault:
            fault = describe(cell)
            if column.empty and (parsing.has_no_value(cell) or parsing.is_infinite(cell)):
                return replace(fault, remedy=f"leave the cell empty ({column.empty})")
            if parsing.has_no_value(cell):
                return replace(fault, remedy=column.fix_empty)
            return fault

        self.refuse_cells(name, is_wrong, describe_cell)
        outside = values[is_outside]
        row_of = np.cumsum(is_outside) - 1

        def describe_outside(row: int) -> Fault:
            return self._outside_fault(column, name, float(outside[row_of[row]]), row)

        self.refuse(is_outside, describe_outside)
        values[is_outside] = 0.0  # a value with which readers can calculate
        return values

    def _outside_fault(self, column: FileColumn, name: str, value: float, row: int) -> Fault:
        fault = column.outside_fault(value, parsing.cell_value(self.columns[name], row))
        return replace(fault, problem=f"column {name}: {fault.problem}")

    def intervals(self, start: FileColumn, end: FileColumn, scale: TimeScale, *, can_be_empty: bool = False) -> Floats:
        """Return the intervals in two columns, ``[rows, 2]``; an empty end is infinity.

        If a row *can_be_empty*, it has infinity twice.
        """
        starts = self.times(start, scale, empty=np.inf if can_be_empty else None)
        ends = self.times(end, scale, empty=np.inf)
        is_empty = np.isinf(starts) & np.isinf(ends)

        def refuse_interval(is_wrong: Bools, problem: str, remedy: str) -> None:
            self.refuse(
                is_wrong & ~is_empty,
                lambda row: Fault("", problem, f"{starts[row]:.12g} to {ends[row]:.12g}", remedy),
            )

        refuse_interval(np.isinf(starts), "it has an end and no start", "fill in the start")
        refuse_interval(ends == starts, "it is empty, as it ends when it starts", "remove its row, or end it later")
        refuse_interval(~(ends > starts), "it ends before it starts", "swap them, or leave an end empty that is never")
        return np.column_stack([starts, ends])

    def names(self, column: FileColumn) -> NDArray[Any]:
        """Return a column of any type as it is, ``[rows]``, without empty cells."""
        name = self.heading(column)
        cells = self.columns[name]
        fault = Fault("", "an empty cell", None, column.fix_empty)
        self.refuse_cells(name, parsing.is_empty(cells), lambda _: fault)
        return np.asarray(cells.to_numpy(zero_copy_only=False))

    def refuse_cells(self, name: str, is_wrong: Bools, describe: Callable[[object], Fault]) -> None:
        """Refuse rows for their cells in a column; *describe* returns the error of a cell."""
        cells = self.columns[name]

        def located(row: int) -> Fault:
            fault = describe(parsing.cell_value(cells, row))
            return replace(fault, problem=f"column {name}: {fault.problem}")

        self.refuse(is_wrong, located)


def limit_faults(faults: Sequence[Fault], count: int = 0) -> list[Fault]:
    """Return the first of the *faults*, and the number of the others; there are *count* in all, or as many as given."""
    more = max(count, len(faults)) - MAX_FAULTS
    if more <= 0:
        return [*faults]
    key = faults[0].key
    return [*faults[:MAX_FAULTS], Fault(key, f"and {more} more errors of this kind", None, "fix these first")]


def read_table(path: Path, names: Mapping[str, str] | None = None, *, is_limited: bool = True) -> UserTable:
    """Read a table: Parquet by its suffix, all else as CSV with a heading.

    Args:
        path: the file.
        names: headings in the file, by the name that the column has here; by default each has its own.
        is_limited: whether a CSV file is limited in size.

    Raises:
        ScenarioError: the file cannot be read, a column occurs twice or has no name, or a row has more or fewer cells
            than the heading; the keys are empty.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(path, names or {})
    return read_csv(path, names, is_limited=is_limited)


def read_csv(
    path: Path,
    names: Mapping[str, str] | None = None,
    *,
    separators: str = ",",
    default: Sequence[str] = (),
    tail: str = "",
    is_limited: bool = True,
) -> UserTable:
    """Read a CSV file; see `read_table`.

    Args:
        path: the file.
        names: headings in the file, by the name that the column has here.
        separators: characters that may separate cells; the most frequent one in the heading does.
        default: heading of a file whose first row does not have the first of these names.
        tail: the last column, if it takes all further cells of a row as a list.
        is_limited: whether the file is limited in size.

    Raises:
        ScenarioError: see `read_table`.
    """
    try:
        with open_text(path, is_limited=is_limited) as text:
            first = text.readline()
            text.seek(0)
            separator = max(separators, key=first.count)
            reader = csv.reader(text, strict=True, skipinitialspace=True, delimiter=separator)
            rows = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
            return _read_rows(path, rows, names or {}, default, tail)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise_unreadable(path, error, _REMEDY)


def _read_rows(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: Mapping[str, str], default: Sequence[str], tail: str
) -> UserTable:
    line, first = next(rows, (1, []))
    heading = [cell.strip() for cell in first]
    _check_first_line(path, heading)
    if default and names.get(default[0], default[0]) not in heading:  # no heading: the first row is data
        heading = [names.get(name, name) for name in default]
        if first:
            rows = chain([(line, first)], rows)
    heading = _rename(path, heading, names)
    width = len(heading)
    has_tail = heading[-1:] == [tail]
    types = [pa.list_(pa.string()) if name == tail else pa.string() for name in heading]
    columns: list[list[pa.Array]] = [[] for _ in heading]
    lines: list[int] = []
    blank: list[Any] = [None] * width
    uneven: dict[int, int] = {}
    """Numbers of cells of rows that have more or fewer than the heading, by row."""
    while chunk := [*islice(rows, max(1, _CHUNK_CELLS // max(width, 1)))]:
        for row, (_, cells) in enumerate(chunk, start=len(lines)):
            if has_tail:
                _collect_tail(cells, width - 1)
            if len(cells) != width:
                uneven[row] = len(cells)
                cells[:] = blank
        lines += [line for line, _ in chunk]
        cells_by_column = zip(*(cells for _, cells in chunk), strict=True)
        for parts, kind, column in zip(columns, types, cells_by_column, strict=True):
            parts.append(pa.array(column, kind))
    combined = {}
    for name, parts, kind in zip(heading, columns, types, strict=True):
        if name:
            combined[name] = pa.chunked_array(parts, kind).combine_chunks()
    table = UserTable(path, combined, np.array(lines, np.int64))
    is_uneven = np.zeros(len(table), bool)
    is_uneven[[*uneven]] = True
    remedy = "put text with commas in quotes, and write numbers with a decimal point"
    table.refuse(is_uneven, lambda row: Fault("", f"number of cells: {uneven[row]} instead of {width}", None, remedy))
    return table


def _check_first_line(path: Path, heading: Sequence[str]) -> None:
    """Check that cells are separated by commas, and that the first line is no comment.

    Raises:
        ScenarioError: they are not, or it is one.
    """
    problem = ""
    remedy = ""
    for separator, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
        if len(heading) == 1 and separator in heading[0]:
            problem = f"cells are separated by {word}"
            remedy = "separate them by commas, with decimal points"
    if heading and heading[0].startswith("#"):
        problem = f"the first line is a comment, {heading[0][:40]}"
        remedy = "remove it, or its # if it is the heading, as with comments='' of numpy.savetxt"
    elif heading and heading[0].startswith("sep="):
        problem = "the first line states a separator"
        remedy = "remove it"
    if problem:
        raise ScenarioError([Fault("", f"{path.name}: {problem}", None, remedy)])


def _collect_tail(cells: list[Any], place: int) -> None:
    """Replace the cells from *place* on, without empty ones at the end, by one list."""
    tail = cells[place:]
    while tail and not tail[-1].strip():
        tail.pop()
    if len(cells) >= place:
        cells[place:] = [tail]


def _rename(path: Path, heading: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Return the names of the columns of a *heading*; empty for a column whose name belongs to another.

    Raises:
        ScenarioError: a column has no name, or two columns have the same.
    """
    problems = [
        (f"column {number} has no heading", "remove the column, as with index=False in pandas")
        for number, name in enumerate(heading, start=1)
        if not name
    ]
    for name, count in Counter(heading).items():
        if name and count > 1:
            problems.append((f"column {name} occurs {count} times", "rename all but one, or remove them"))
    for name, written in names.items():
        if written not in heading:
            problems.append((f"no column {written} for {name}", suggest(written, heading)))
    if problems:
        raise ScenarioError([Fault("", f"{path.name}: {problem}", None, remedy) for problem, remedy in problems])
    renamed = {written: name for name, written in names.items()}
    result = []
    for written in heading:
        if written in renamed:
            result.append(renamed[written])
        elif written in names:  # another column has this name now
            result.append("")
        else:
            result.append(written)
    return result


def _read_parquet(path: Path, names: Mapping[str, str]) -> UserTable:
    try:
        with open_parquet(path) as file:
            heading = _rename(path, file.schema_arrow.names, names)
            columns = [_plain_column(column.combine_chunks()) for column in file.read().columns]
    except (MachineError, OSError, NotImplementedError, pa.ArrowException) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise_unreadable(path, cause, _REMEDY)
    rows = len(columns[0]) if columns else 0
    named = {name: column for name, column in zip(heading, columns, strict=True) if name}
    return UserTable(path, named, np.arange(1, rows + 1))


def _plain_column(column: pa.Array) -> pa.Array:
    """Return a column in the plain form of its type: of text, and of values that were stored by number or by run."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    column.validate(full=True)  # text is UTF-8
    return column
