"""Tables of the user: CSV and Parquet files, whose columns become arrays, or errors that name line and column."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.files import cells as parsing
from netfl.files import open_parquet, open_text, raise_unreadable
from netfl.files.cells import TimeScale
from netfl.types import Bools, Floats, Ints

MAX_FAULTS = 10
"""Errors of one file that are reported one by one."""
_CHUNK_CELLS = 1_000_000
"""Cells of a CSV file that are held as objects of Python at a time."""
_REMEDY = "name a CSV file in UTF-8, or a Parquet file"


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
            remedy = f"its columns: {', '.join(self.columns) or 'none'}; needed: {', '.join(names)}"
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

    def numbers(self, name: str, *, empty: float | None = None) -> Floats:
        """Return a column of finite numbers, ``[rows]``; durations are in seconds.

        *empty* is the value of an empty cell, by default an error.
        """
        return self._converted(name, parsing.parse_numbers, parsing.number_fault, empty)

    def integers(self, name: str, *, lowest: int = 0) -> Ints:
        """Return a column of whole numbers from *lowest* on, ``[rows]``."""
        values = self.numbers(name)
        is_wrong = ~((values == np.floor(values)) & (values >= lowest) & (values < 2.0**53))
        remedy = f"write a whole number from {lowest} on"
        self.refuse_cells(name, is_wrong, lambda cell: Fault("", "no such number", cell, remedy))
        return np.where(is_wrong, lowest, values).astype(np.int64)

    def users(self, name: str = "user", count: int | None = None) -> Ints:
        """Return a column of numbers of users, ``[rows]``, below *count* if it is given."""
        values = parsing.parse_users(self.columns[name])
        remedy = parsing.USER_REMEDY
        self.refuse_cells(name, values < 0, lambda cell: Fault("", "not the number of a user", cell, remedy))
        if count is not None:
            remedy = f"users are numbered 0 to {count - 1}"
            self.refuse(values >= count, lambda row: Fault("", "no such user", int(values[row]), remedy))
        return values

    def times(self, name: str, scale: TimeScale, *, empty: float | None = None) -> Floats:
        """Return a column of times, ``[rows]``; *empty* is the value of an empty cell, by default an error."""
        return self._converted(name, scale.parse, scale.fault, empty)

    def _converted(
        self,
        name: str,
        convert: Callable[[pa.Array], Floats],
        describe: Callable[[object], Fault],
        empty: float | None,
    ) -> Floats:
        """Return a column by a function that marks wrong cells by NaN."""
        cells = self.columns[name]
        values = convert(cells)
        is_wrong = np.isnan(values)
        if empty is not None:
            is_empty = parsing.is_empty(cells)
            values[is_empty] = empty
            is_wrong &= ~is_empty
        self.refuse_cells(name, is_wrong, describe)
        return values

    def intervals(self, start: str, end: str, scale: TimeScale, *, can_be_empty: bool = False) -> Floats:
        """Return the intervals in two columns, ``[rows, 2]``; an empty end is infinity.

        If a row *can_be_empty*, it has infinity twice.
        """
        starts = self.times(start, scale, empty=np.inf if can_be_empty else None)
        ends = self.times(end, scale, empty=np.inf)
        is_empty = np.isinf(starts) & np.isinf(ends)
        self.refuse(
            ~(ends > starts) & ~is_empty,
            lambda row: Fault("", "it ends before it starts", f"{starts[row]:g} to {ends[row]:g}", "swap them"),
        )
        return np.column_stack([starts, ends])

    def names(self, name: str) -> NDArray[Any]:
        """Return a column of any type as it is, ``[rows]``, without empty cells."""
        cells = self.columns[name]
        remedy = "fill it in, or remove its row"
        self.refuse_cells(name, parsing.is_empty(cells), lambda _: Fault("", "an empty cell", None, remedy))
        return np.asarray(cells.to_numpy(zero_copy_only=False))

    def refuse_cells(self, name: str, is_wrong: Bools, describe: Callable[[object], Fault]) -> None:
        """Refuse rows for their cells in a column; *describe* returns the error of a cell."""
        cells = self.columns[name]

        def located(row: int) -> Fault:
            fault = describe(cells[row].as_py())
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
    if default and names.get(default[0], default[0]) not in heading:  # no heading: the first row is data
        heading = [names.get(name, name) for name in default]
        rows = chain([(line, first)] if first else [], rows)
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
        for parts, kind, column in zip(columns, types, zip(*(cells for _, cells in chunk), strict=True), strict=True):
            parts.append(pa.array(column, kind))
    combined = {
        name: pa.chunked_array(parts, kind).combine_chunks()
        for name, parts, kind in zip(heading, columns, types, strict=True)
        if name
    }
    table = UserTable(path, combined, np.array(lines, np.int64))
    is_uneven = np.zeros(len(table), bool)
    is_uneven[[*uneven]] = True
    remedy = "put text with commas in quotes, and write numbers with a decimal point"
    table.refuse(is_uneven, lambda row: Fault("", f"number of cells: {uneven[row]} instead of {width}", None, remedy))
    return table


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
        (f"column {number} has no heading", "give it one, or remove the column")
        for number, name in enumerate(heading, start=1)
        if not name
    ]
    for name, count in Counter(heading).items():
        if name and count > 1:
            problems.append((f"column {name} occurs {count} times", "rename all but one, or remove them"))
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(heading) == 1 and separator in heading[0]:
            problems.append((f"cells are separated by {word}", "separate them by commas, with decimal points"))
    for name, written in names.items():
        if written not in heading:
            problems.append((f"no column {written} for {name}", suggest(written, heading)))
    if problems:
        raise ScenarioError([Fault("", f"{path.name}: {problem}", None, remedy) for problem, remedy in problems])
    renamed = {written: name for name, written in names.items()}
    return [renamed.get(name, "" if name in names else name) for name in heading]


def _read_parquet(path: Path, names: Mapping[str, str]) -> UserTable:
    try:
        with open_parquet(path) as file:
            heading = _rename(path, file.schema_arrow.names, names)
            columns = [column.combine_chunks() for column in file.read().columns]
    except (MachineError, OSError, NotImplementedError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise_unreadable(path, cause, _REMEDY)
    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in columns]
    rows = len(columns[0]) if columns else 0
    named = {name: column for name, column in zip(heading, columns, strict=True) if name}
    return UserTable(path, named, np.arange(1, rows + 1))
