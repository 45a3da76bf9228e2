"""Availability: the times at which users are present, known in advance, and the files that hold them.

A file has one row for each user: its number, whether it is present at time 0, and the increasing times at which this
changes.  In CSV, with or without the heading::

    user,start,times
    0,on,3600,7200.5
    1,off,120
    2,on

In JSON::

    [{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}]

In Parquet, the columns ``user``, ``start`` and ``times``, a list of numbers for each row.  This is the fastest format.

A start is ``on`` or ``off``, ``true`` or ``false``, 1 or 0.  Times are numbers above 0, in seconds or rounds, as the
model that reads the file defines.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from netfl import files
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.formats import with_stamp
from netfl.network.outage import NodeAvailability
from netfl.network.outage._daily import surrounding_instants
from netfl.types import Bools, Floats, Ints

_STATES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_MAX_FAULTS = 10
"""Errors of one file that are reported one by one."""
_COLUMNS = pa.schema({"user": pa.int64(), "start": pa.bool_(), "times": pa.list_(pa.float64())})
"""Columns of a Parquet file that this module writes."""
_RawRow = tuple[int, object, object, Any]
"""Number of a row, or its line in CSV; user, start and times, not yet parsed."""


@dataclass(frozen=True, slots=True, eq=False)
class UserSchedule:
    """The availability of one user.

    Args:
        user: number of the user, from 0.
        start: whether it is present at time 0.
        times: increasing times at which this changes, ``[n]``; at the instant of a change the new state holds.
        place: file and row, for messages.
    """

    user: int
    start: bool
    times: Floats
    place: str = ""


@dataclass(frozen=True, slots=True)
class AvailabilitySchedule:
    """The availability of all users, in flat arrays; users without a row are always present.

    Args:
        start: whether each is present at time 0, ``[users]``.
        first: index of each user's first time, ``[users + 1]``.
        times: times of the changes, user by user.
    """

    start: Bools
    first: Ints
    times: Floats

    @classmethod
    def from_rows(cls, rows: Iterable[UserSchedule], users: int) -> AvailabilitySchedule:
        """Combine the rows of *users*."""
        in_order = sorted(rows, key=lambda row: row.user)
        start = np.ones(users, bool)
        counts = np.zeros(users + 1, np.int64)
        for row in in_order:
            start[row.user] = row.start
            counts[row.user + 1] = len(row.times)
        times = np.concatenate([np.empty(0), *(row.times for row in in_order)])
        return cls(start, first=np.cumsum(counts), times=times)


class ScheduledAvailability(NodeAvailability):
    """States that follow a schedule, once or in every period.

    Args:
        schedule: the schedule of all nodes in one period.
        period_s: length of a period; infinity without repetition.
    """

    def __init__(self, schedule: AvailabilitySchedule, period_s: float) -> None:
        self._schedule = schedule
        self._period_s = period_s
        self._count = np.diff(schedule.first)
        self._times_s = np.append(schedule.times, np.inf)  # the last stands for none

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        began_s, _ = self._surrounding_periods_s(nodes, time_s)
        passed = self._passed(nodes, began_s, time_s)
        return np.asarray(self._schedule.start[nodes] ^ (passed % 2 == 1))

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        began_s, next_s = self._surrounding_periods_s(nodes, time_s)
        passed = self._passed(nodes, began_s, time_s)
        count = self._count[nodes]
        first = self._schedule.first[nodes]
        is_within = passed < count
        in_period_s = began_s + self._times_s[np.where(is_within, first + passed, -1)]
        # after an odd number of changes the state differs from that at the start, so the next period begins with one
        first_s = self._times_s[np.where(count > 0, first, -1)]
        in_next_s = next_s + np.where(count % 2 == 1, 0.0, first_s)
        return np.where(is_within, in_period_s, in_next_s)

    def _surrounding_periods_s(self, nodes: Ints, time_s: ArrayLike) -> tuple[Floats, Floats]:
        """Return the begins of the period of *time_s* and of the next, ``[n]``."""
        time = np.broadcast_to(np.asarray(time_s, float), np.shape(nodes))
        if np.isinf(self._period_s):
            return np.zeros(time.shape), np.full(time.shape, np.inf)
        return surrounding_instants(np.zeros(time.shape), self._period_s, time)

    def _passed(self, nodes: Ints, began_s: Floats, time_s: ArrayLike) -> Ints:
        """Return the number of each node's changes in this period up to *time_s*, by bisection."""
        first = self._schedule.first[nodes]
        low = np.zeros(np.shape(nodes), np.int64)
        high = self._count[nodes]
        is_open = low < high
        while is_open.any():
            middle = (low + high) // 2
            is_past = is_open & (began_s + self._times_s[first + middle] <= time_s)
            low = np.where(is_past, middle + 1, low)
            high = np.where(is_open & ~is_past, middle, high)
            is_open = low < high
        return low


def read_availability(path: Path) -> tuple[list[UserSchedule], list[Fault]]:
    """Return the valid rows of a file, and the errors of the others, or of the file.

    ``.json`` is JSON, ``.parquet`` is Parquet, and all else is CSV.
    """
    schedules: dict[int, UserSchedule] = {}
    faults: list[Fault] = []
    try:
        for number, user, start, times in _read_rows(path):
            place = f"{path.name}:{number}"
            try:
                schedule = UserSchedule(_parse_user(user), _parse_state(start), _parse_times(times), place)
            except ValueError as error:
                faults.append(Fault("file", f"{place}: {error.args[0]}", *error.args[1:]))
                continue
            first = schedules.setdefault(schedule.user, schedule)
            if first is not schedule:
                faults.append(Fault("file", f"{place}: a second row for user {first.user}", None, f"see {first.place}"))
    except (OSError, ValueError, csv.Error, MachineError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)  # without the path, which follows
        return [], [Fault("file", f"cannot be read: {reason}", str(path), "name a CSV, JSON or Parquet file")]
    if not schedules and not faults:
        faults.append(Fault("file", f"{path.name} has no users", None, "give a row for each user: user,start,times"))
    return [*schedules.values()], faults


def _read_rows(path: Path) -> Iterator[_RawRow]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet_rows(path)
    text = files.read_text(path)
    if suffix == ".json":
        return _json_rows(text)
    return _csv_rows(text)


def _csv_rows(text: str) -> Iterator[_RawRow]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    for cells in lines:
        if any(cells) and cells[0].strip().lower() != "user":
            user, start, *times = *cells, ""  # a line of a number alone has no start
            yield lines.line_num, user, start, [time for time in times if time.strip()]


def _json_rows(text: str) -> Iterator[_RawRow]:
    entries = json.loads(text)
    if not isinstance(entries, list):  # one user
        entries = [entries]
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not {"user", "start"} <= set(entry) <= {"user", "start", "times"}:
            raise ValueError(f"entry {number} has keys other than user, start and times")
        yield number, entry["user"], entry["start"], entry.get("times", [])


def _parquet_rows(path: Path) -> Iterator[_RawRow]:
    table = files.read_frame(path)
    missing = [name for name in ("user", "start") if name not in table]
    if missing:
        raise ValueError(f"it has no column {' and '.join(missing)}, but {', '.join(table.columns) or 'none'}")
    times = table["times"] if "times" in table else [None] * len(table)
    yield from zip(range(1, len(table) + 1), table["user"], table["start"], times, strict=True)


def _parse_user(value: object) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("not the number of a user", value, "users are numbered 0, 1, 2, …")
    return int(text)


def _parse_state(value: object) -> bool:
    state = _STATES.get(str(value).strip().lower())
    if state is None:
        raise ValueError("not a valid initial state", value, "write on or off, true or false, 1 or 0")
    return state


def _parse_times(values: Any) -> Floats:
    try:
        times = np.array([] if values is None else values, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"not a list of times: {error}", None, "write numbers, such as 3600") from None
    if times.ndim != 1:
        raise ValueError("not a list of times", values, "write numbers, such as [3600]")
    steps = np.diff(times, prepend=0.0)
    wrong = np.flatnonzero(~(np.isfinite(steps) & (steps > 0.0)))
    if wrong.size:
        last, time = np.concatenate([[0.0], times])[wrong[0] : wrong[0] + 2]
        problem = f"times are not ascending: {time:g} follows {last:g}"
        raise ValueError(problem, None, "write finite times above 0 in order, each once")
    return times


def schedule_faults(rows: Iterable[UserSchedule], users: int, period: float) -> Iterator[Fault]:
    """Yield errors for rows of unknown users, and for changes that come after a repeated file starts over."""
    for row in rows:
        if row.user >= users:
            yield Fault("file", f"{row.place}: no such user", row.user, f"users are numbered 0 to {users - 1}")
        if len(row.times) and row.times[-1] >= period:
            problem = f"{row.place}: a change at {row.times[-1]:g} is after the end of the period of {period:g}"
            yield Fault("file", problem, None, "remove it, or make repeat longer")


def limit_faults(faults: Sequence[Fault]) -> list[Fault]:
    """Return the first errors, and the number of the others."""
    more = len(faults) - _MAX_FAULTS
    if more <= 0:
        return [*faults]
    return [*faults[:_MAX_FAULTS], Fault("file", f"and {more} more errors of this kind", None, "fix these first")]


def write_availability(path: Path, rows: Iterable[UserSchedule]) -> None:
    """Write a file that `read_availability` reads back exactly: CSV, JSON or Parquet, by its extension.

    Raises:
        ScenarioError: it has another extension.
        OSError: it cannot be written.
    """
    rows = [*rows]
    suffix = path.suffix.lower()
    entries = [(row.user, "on" if row.start else "off", row.times.tolist()) for row in rows]
    if suffix == ".parquet":
        columns = {name: [getattr(row, name) for row in rows] for name in _COLUMNS.names}
        pq.write_table(with_stamp(pa.table(columns, _COLUMNS)), files.absolute_path(path))
    elif suffix == ".json":
        lines = (json.dumps(dict(zip(_COLUMNS.names, entry, strict=True))) for entry in entries)
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    elif suffix == ".csv":
        lines = (",".join(map(str, [user, start, *times])) for user, start, times in entries)
        path.write_text("\n".join(["user,start,times", *lines]) + "\n", encoding="utf-8")
    else:
        problem = "the suffix is not .csv, .json or .parquet"
        raise ScenarioError([Fault("", problem, str(path), "use one of these suffixes; it determines the format")])
