"""Users whose towers are given by a file of windows, such as the passes of satellites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.files.cells import Origin, TimeScale
from netfl.files.schema import NAME, TIME, USER, FileColumn, FileSchema
from netfl.files.tables import UserTable, limit_faults, read_table
from netfl.network.association import Association, TowerChoice
from netfl.network.layout import Stays
from netfl.network.periods import after_rounding
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Bools, Floats, Ints, ScenarioFacts

SCHEMA = FileSchema(
    "association `windows`",
    FileColumn("user", USER),
    FileColumn("tower", NAME, fix_empty="name the tower, or remove the row"),
    FileColumn("start", TIME, other_names=("start_s",)),
    FileColumn("end", TIME, other_names=("end_s",), empty="the window never ends"),
)
_MAX_LISTED = 8
"""Users that a message lists."""


class Windows(Association):
    """Each user has a tower in the windows of a file, one row for each window [start, end).

    In CSV::

        user,tower,start,end
        0,tower:0,0,600
        0,tower:1,540,1200
        1,tower:1,30 min,

    Where windows of a user overlap, it holds the one that it has until that ends; then it takes the one of those that
    are open that began first, and of several the longest.  It moves as the window before ends: a frame on the air
    ends where it began, and an update of which a part is sent goes there as a whole.  In all times without a window the
    user is **away**: it neither sends nor receives, as under the outage ``availability``.

    In Parquet the columns have the same names; ``start_s`` and ``end_s`` mean the same as ``start`` and ``end``.  Times
    are in seconds from time 0: numbers, quantities or, with an ``origin``, dates.  An empty end is never.

    Example::

        kind: windows
        file: scenarios/files/passes.csv
    """

    moves: Literal["any_time"] = "any_time"
    """Windows move users at any time."""
    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""
    origin: Origin | None = None
    """The date of time 0, in ISO 8601, if the file has dates; with a time zone if they have one."""

    @property
    def has_absences(self) -> bool:
        return True

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        rows, faults = self._content
        if faults:
            yield from faults
            return
        yield from limit_faults([*rows.unknown_users(facts.users)])
        absent = np.setdiff1d(np.arange(facts.users), rows.users)
        if absent.size:
            listed = ", ".join(map(str, absent[:_MAX_LISTED].tolist()))
            more = f" and {absent.size - _MAX_LISTED} more" if absent.size > _MAX_LISTED else ""
            problem = f"{self.file.name} has no window of {absent.size} users, who would always be away: {listed}{more}"
            yield Fault("file", problem, None, "add a row for each of them, or set a smaller number of users")

    @property
    def stays(self) -> Stays:
        held = self._held
        return Stays(held.users, held.starts_s, held.ends_s)

    def open(self, links: TowerLinks) -> TowerChoice:
        rows = self._content.rows
        index_of = {name: index for index, name in enumerate(links.towers)}
        unknown = [row for row, name in enumerate(rows.towers.tolist()) if name not in index_of]
        if unknown:
            faults = []
            for row in unknown:
                name = rows.towers[row]
                faults.append(Fault("file", f"{rows.place(row)}: no such tower", name, suggest(name, links.towers)))
            raise ScenarioError(limit_faults(faults))
        held = self._held
        towers = np.array([index_of[name] for name in held.towers.tolist()], np.int64)
        return _Windows(links.users, held, towers)

    def has_times_within(self, end_s: float) -> bool:
        return bool((self._held.starts_s <= end_s).any())

    @cached_property
    def _content(self) -> _Content:
        return _read(self.file, TimeScale(self.origin))

    @cached_property
    def _held(self) -> _Rows:
        """The parts of windows in which users hold them, by user and time."""
        return self._content.rows.held()


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Windows, or parts of them, ``[n]`` each."""

    users: Ints
    towers: NDArray[Any]
    starts_s: Floats
    ends_s: Floats
    lines: Ints
    file: str

    def place(self, row: int) -> str:
        """Return the file and the line of a row, for messages."""
        return f"{self.file}:{self.lines[row]}"

    def unknown_users(self, users: int) -> Iterator[Fault]:
        """Yield the errors of rows of users that the scenario does not have."""
        for row in np.flatnonzero(self.users >= users).tolist():
            yield Fault("file", f"{self.place(row)}: no such user", int(self.users[row]), _numbers(users))

    def held(self) -> _Rows:
        """Return what each user holds of its windows: one begins no sooner than the one before has ended."""
        order = np.lexsort((-self.ends_s, self.starts_s, self.users))
        kept = []
        begins_s = []
        user = -1
        free_s = 0.0
        columns = (self.users[order].tolist(), self.starts_s[order].tolist(), self.ends_s[order].tolist())
        for row, next_user, start_s, end_s in zip(order.tolist(), *columns, strict=True):
            if next_user != user:
                user = next_user
                free_s = 0.0
            if end_s <= free_s:  # another one has been held for all of its time
                continue
            kept.append(row)
            begins_s.append(max(start_s, free_s))
            free_s = end_s
        rows = np.array(kept, np.int64)
        return _Rows(
            self.users[rows],
            self.towers[rows],
            np.array(begins_s, float),
            self.ends_s[rows],
            self.lines[rows],
            self.file,
        )


class _Content(NamedTuple):
    """Windows of a file, and its errors; the keys are ``file``."""

    rows: _Rows
    faults: list[Fault]


class _Windows(TowerChoice):
    """The windows that users hold.

    Args:
        users: number of users.
        held: parts of windows, by user and time.
        towers: tower of each of them.
    """

    def __init__(self, users: int, held: _Rows, towers: Ints) -> None:
        moves_s = held.starts_s.copy()  # an absence is spent at the tower of the next window, to be there as it begins
        follows = held.users[1:] == held.users[:-1]
        moves_s[1:][follows] = held.ends_s[:-1][follows]
        by_begin = np.argsort(moves_s, kind="stable")
        self._begins_s = moves_s[by_begin]
        self._users = held.users[by_begin]
        self._towers = towers[by_begin]
        self._first = np.zeros(users, np.int64)  # the tower of each user's first window
        self._first[self._users[::-1]] = self._towers[::-1]

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        # the tower of the window that each user began last; before its first one the tower of that
        begun = np.searchsorted(self._begins_s, after_rounding(time_s), side="right")
        last = self._first.copy()
        last[self._users[:begun]] = self._towers[:begun]  # later windows replace earlier ones
        return last[users]

    def next_s(self, time_s: float) -> float:
        begun = np.searchsorted(self._begins_s, after_rounding(time_s), side="right")
        return float(self._begins_s[begun]) if begun < len(self._begins_s) else np.inf

    def visitors(self, tower: int) -> Ints:
        return np.unique(self._users[self._towers == tower])


def _read(path: Path, scale: TimeScale) -> _Content:
    empty = np.empty(0)
    nothing = _Rows(empty.astype(np.int64), empty.astype(object), empty, empty, empty.astype(np.int64), path.name)
    try:
        with prefix_faults("file"):
            table = read_table(path)
            table.check_headings(SCHEMA)
            rows = _rows_of(table, scale)
    except ScenarioError as error:
        return _Content(nothing, [*error.faults])
    if not len(table):
        remedy = "give a row for each window: user,tower,start,end"
        return _Content(nothing, [Fault("file", f"{path.name} has no windows", None, remedy)])
    return _Content(rows, [fault.under("file") for fault in table.faults])


def _rows_of(table: UserTable, scale: TimeScale) -> _Rows:
    """Return the windows of a table, in which wrong rows are marked."""
    users = table.users(SCHEMA["user"])
    towers = table.names(SCHEMA["tower"])
    spans_s = table.intervals(SCHEMA["start"], SCHEMA["end"], scale)
    starts_s, ends_s = spans_s.T
    is_over: Bools = ends_s <= 0.0

    def describe(row: int) -> Fault:
        span = f"{starts_s[row]:.12g} to {ends_s[row]:.12g}"
        return Fault("", "it never opens, as it ends before time 0", span, "remove its row, or correct the origin")

    table.refuse(is_over, describe)
    return _Rows(users, towers, starts_s, ends_s, table.lines, table.path.name)


def _numbers(users: int) -> str:
    return f"users are numbered 0 to {users - 1}"
