"""Files of availability: the times at which users are present.

A file has one of two forms.  **Changes** are one row for each user: its number, whether it is present at time 0, and
the increasing times at which this changes.  In CSV, with or without the heading::

    user,start,times
    0,on,3600,7200.5
    1,off,120
    2,on

In JSON::

    [{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}]

In Parquet, the columns ``user``, ``start`` and ``times``, a list for each row.  This is the fastest format.  A start is
``on`` or ``off``, ``true`` or ``false``, 1 or 0.

**Intervals** are one row for each interval [start, end) in which a user is present.  In CSV the heading is needed::

    user,start,end
    0,0,3600
    0,2 h,3 h
    1,2024-03-01T08:00,
    2,,

In JSON the keys are ``user``, ``start`` and ``end``, in Parquet the columns; ``start_s`` and ``end_s`` mean the same.
An empty end is never, and a row with neither start nor end states that the user is never present.  Intervals of a user
may touch or overlap.  Other columns are ignored, but for ``tower``, which is an error: `windows` has times by tower.

Users are numbers, or all of them are names, such as those of devices: in ascending order, or as they are listed, they
become users 0, 1 and so on.

Times are in seconds from time 0: numbers, quantities, durations of Parquet or, with an ``origin``, dates; or numbers
of rounds, where the model that reads the file says so (`netfl.files.cells.TimeScale`).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator, Field

from netfl import files
from netfl.core.formats import with_stamp
from netfl.core.spec import Spec
from netfl.core.spec_errors import invalid
from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.files.cells import Origin, TimeScale, as_text, cell_value, is_text, parse_numbers
from netfl.files.json_documents import RepeatedKeyError, parse_json
from netfl.files.schema import CHANGES, STATE, TIME, USER, FileColumn, FileSchema
from netfl.files.tables import UserTable, read_csv, read_table
from netfl.network.outage._schedule import UserSchedule, merge_intervals
from netfl.types import Bools, Floats

_NAMED_USER = FileColumn(
    "user", replace(USER, remedy="users are numbered 0, 1, 2, …, or all of them are names; the key names lists names")
)
CHANGES_SCHEMA = FileSchema(
    "`availability`, changes",
    _NAMED_USER,
    FileColumn("start", STATE),
    FileColumn("times", CHANGES, is_needed=False),
    others="refused",
    fix_others="write user,start,times or user,start,end",
)
INTERVALS_SCHEMA = FileSchema(
    "`availability`, intervals",
    _NAMED_USER,
    FileColumn("start", TIME, other_names=("start_s",), empty="with an empty end: the user is never present"),
    FileColumn("end", TIME, other_names=("end_s",), empty="the interval never ends"),
)
_STATES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_JSON_EXAMPLE = '[{"user": 0, "start": 0, "end": 3600}, …], one for each interval in which a user is present'
_FORMS = (("user", "start"), ("user", "start", "times"), ("user", "start", "end"))
"""Keys of an entry of JSON; without changes the times may be left out."""
_SECONDS = TimeScale()
_MAX_NAMES = 8
"""Names that a message lists."""
_COLUMNS = pa.schema({"user": pa.int64(), "start": pa.bool_(), "times": pa.list_(pa.float64())})
"""Columns of a Parquet file that this module writes."""


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name, count in Counter(names).items():
        if count > 1:
            raise invalid(f"the name '{name}' occurs {count} times", "give each name once")
    return names


class AvailabilityFile(Spec):
    """The keys of a model that reads an availability file."""

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV, JSON or Parquet file; a relative path starts at the current directory."""
    columns: dict[Literal["user", "start", "times", "end"], str] = Field(default_factory=dict)
    """Headings, or keys of JSON, in place of these names, such as ``{user: device, start: from, end: to}``."""
    origin: Origin | None = None
    """The date of time 0, in ISO 8601, if the file has dates; with a time zone if they have one."""
    names: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_check_names)] | None = None
    """Names in the file of users 0, 1, …, such as those of devices; other names are no users.  By default all names in
    ascending order; users that are numbers keep them."""

    @property
    def scale(self) -> TimeScale:
        """Meaning of the times in the file."""
        return TimeScale(self.origin)

    @property
    @abstractmethod
    def period(self) -> float:
        """Period after which the file repeats, in the unit of its times; infinity if it does not."""

    @cached_property
    def content(self) -> AvailabilityContent:
        """The content of the file."""
        return read_availability(self.file, self.scale, dict(self.columns.items()), self.period, self.names)

    def name_notes(self) -> Iterator[str]:
        """Yield which users the names in the file are, if the scenario does not say so."""
        names = self.content.names
        if self.names is not None or not names:
            return
        shown = ", ".join(f"{number} is {name}" for number, name in enumerate(names[:_MAX_NAMES]))
        if len(names) > _MAX_NAMES:
            shown = f"{shown}, …"
        yield f"{self.file.name} has names, in ascending order: user {shown}; for another order, list them in names"


class AvailabilityContent(NamedTuple):
    """Content of a file.

    Args:
        rows: the valid rows.
        faults: the errors of the others, or of the file; the keys are ``file`` and ``names``.
        names: names of users 0, 1, …; none if the file has numbers.
    """

    rows: list[UserSchedule]
    faults: list[Fault]
    names: tuple[str, ...] = ()


def read_availability(
    path: Path,
    scale: TimeScale = _SECONDS,
    names: Mapping[str, str] = MappingProxyType({}),
    period: float = np.inf,
    user_names: Sequence[str] | None = None,
) -> AvailabilityContent:
    """Read a file.

    ``.json`` is JSON, ``.parquet`` is Parquet, and all else is CSV.

    Args:
        path: the file.
        scale: meaning of its times.
        names: headings in the file in place of ``user``, ``start``, ``times`` and ``end``.
        period: the period of a file that repeats; an interval that ends with it continues into the next.
        user_names: names of users 0, 1, … in the file; by default all that it has, in ascending order.
    """
    numbered: tuple[str, ...] = ()
    try:
        with prefix_faults("file"):
            table = _read_table(path, names)
            _refuse_towers(table)
            table, numbered = _number_names(table, user_names)
            if table.has(INTERVALS_SCHEMA["end"]):
                schedules = _read_intervals(table, scale, period)
            else:
                schedules = _read_changes(table, scale)
    except ScenarioError as error:
        return AvailabilityContent([], [*error.faults])
    if not len(table):
        remedy = "give a row for each user: user,start,times or user,start,end"
        return AvailabilityContent([], [Fault("file", f"{path.name} has no users", None, remedy)])
    return AvailabilityContent(schedules, [fault.under("file") for fault in table.faults], numbered)


def _refuse_towers(table: UserTable) -> None:
    """Check that the times of a user are not those of several towers.

    Raises:
        ScenarioError: they are; the key is empty.
    """
    if "tower" in table:
        problem = f"{table.path.name} has the column tower, but these times are those of a user, wherever it is"
        remedy = "for times at each tower, take association: {kind: windows, file: …}; or remove the column"
        raise ScenarioError([Fault("", problem, None, remedy)])


def _number_names(table: UserTable, listed: Sequence[str] | None) -> tuple[UserTable, tuple[str, ...]]:
    """Return a table with the numbers of users in place of their names, and the names; none if it has numbers.

    Raises:
        ScenarioError: a name that is *listed* is not in the file; the key is empty.
    """
    if "user" not in table:
        return table, ()
    cells = table.columns["user"]
    if listed is None and not is_text(cells):
        return table, ()
    texts = as_text(cells)
    present = {*texts.to_pylist()} - {""}
    if listed is None:
        has_numbers = bool(np.isfinite(parse_numbers(texts)).any()) or not present.isdisjoint(_STATES)
        if has_numbers:  # of which some are wrong
            return table, ()
        names = tuple(sorted(present))
    else:
        names = tuple(listed)
        unknown = [name for name in names if name not in present]
        if unknown:
            problem = f"{table.path.name} has no user {unknown[0]}, which is listed in names"
            raise ScenarioError([Fault("", problem, None, suggest(unknown[0], sorted(present)[:_MAX_NAMES]))])
        is_listed = pc.is_in(texts, pa.array(["", *names]))  # an empty cell is an error of its row
        table = table.take(np.asarray(is_listed))
        texts = texts.filter(is_listed)
    table.columns["user"] = pc.index_in(texts, pa.array(names, pa.string()))
    return table, names


def _read_table(path: Path, names: Mapping[str, str]) -> UserTable:
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _read_json(path, names)
    if suffix == ".parquet":
        return read_table(path, names)
    return read_csv(path, names, default=("user", "start", "times"), tail="times")


def _read_json(path: Path, names: Mapping[str, str]) -> UserTable:
    """Read entries with the keys of one form as a table of text."""
    keys = {name: names.get(name, name) for name in ("user", "start", "times", "end")}
    try:
        text = files.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        files.raise_unreadable(path, error, "name a CSV, JSON or Parquet file")
    try:
        entries = _json_entries(text, keys)
    except RepeatedKeyError as error:
        files.raise_unreadable(path, error, "give each key once: one entry for each user, or for each of its intervals")
    except ValueError as error:
        files.raise_unreadable(path, error, f"list entries such as {_JSON_EXAMPLE}")

    def texts_of(name: str) -> pa.Array:
        return pa.array([_to_text(entry.get(keys[name])) for entry in entries], pa.string())

    columns = {"user": texts_of("user"), "start": texts_of("start")}
    lists = [entry.get(keys["times"], []) for entry in entries]
    is_list = [isinstance(times, list) for times in lists]
    if any(keys["end"] in entry for entry in entries):  # intervals
        columns["end"] = texts_of("end")
    else:
        texts = [[*map(_to_text, times)] if isinstance(times, list) else [] for times in lists]
        columns["times"] = pa.array(texts, pa.list_(pa.string()))
    table = UserTable(path, columns, np.arange(1, len(entries) + 1))
    table.refuse(
        ~np.array(is_list, bool),
        lambda row: Fault("", "not a list of times", lists[row], "write numbers, such as [3600]"),
    )
    return table


def _json_entries(text: str, keys: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the entries of a document, one or a list; all of one form.

    Raises:
        ValueError: it is something else.
    """
    content = parse_json(text)
    if isinstance(content, dict) and content and all(isinstance(entry, dict) for entry in content.values()):
        columns = ", ".join(dict.fromkeys(key for entry in content.values() for key in entry))
        raise ValueError(f"it is an object with a key for each of {len(content)} users, each with {columns}")
    entries = content if isinstance(content, list) else [content]
    forms = [{keys[name] for name in form} for form in _FORMS]
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, dict) and {*entry} in forms:
            continue
        expected = " or ".join(", ".join(keys[name] for name in form) for form in _FORMS[1:])
        problem = f"entry {number} has keys other than {expected}"
        if isinstance(entry, dict):
            others = [key for key in entry if key not in {*keys.values()}]
            if others:
                problem = f"{problem}: {', '.join(others)}"
        raise ValueError(problem)
    return entries


def _to_text(value: object) -> str | None:
    """Return a value of JSON as the cell of a table."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _read_changes(table: UserTable, scale: TimeScale) -> list[UserSchedule]:
    """Return the schedules in rows of a user, its state at time 0 and the times at which this changes."""
    table.check_headings(CHANGES_SCHEMA)
    users = table.users(CHANGES_SCHEMA["user"])
    table.refuse_repeated(("user",), (users,))
    starts = table.columns["start"]
    states: list[bool | None] = [None] * len(table)
    if not pa.types.is_temporal(starts.type):
        states = [_STATES.get(str(cell).strip().lower()) for cell in starts.to_pylist()]
    table.refuse_cells(
        "start",
        np.array([state is None for state in states], bool),
        lambda cell: Fault("", "not a valid initial state", cell, "write on or off, true or false, 1 or 0"),
    )
    times = _split_times(table, scale)
    return [
        UserSchedule(int(users[row]), bool(states[row]), times[row], table.place(row))
        for row in np.flatnonzero(~table.is_wrong).tolist()
    ]


def _split_times(table: UserTable, scale: TimeScale) -> list[Floats]:
    """Return the increasing times above 0 of each row."""
    lists = table.columns.get("times")
    if lists is None:
        return [np.empty(0)] * len(table)
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        remedy = "write numbers, such as [3600]"
        table.refuse_cells(
            "times", np.ones(len(table), bool), lambda cell: Fault("", "not a list of times", cell, remedy)
        )
        return [np.empty(0)] * len(table)

    # all times in one array: the row of each, and the time before it in that row
    counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    cells = pc.list_flatten(lists)
    row_of = np.repeat(np.arange(len(table)), counts)
    times = scale.parse(cells)
    before = np.concatenate([[0.0], times[:-1]])[: len(times)]
    is_first = np.diff(row_of, prepend=-1) > 0
    before[is_first] = 0.0  # the first time of a row comes after time 0

    def refuse(is_wrong: Bools, describe: Callable[[int], Fault]) -> None:
        """Refuse rows for the first wrong one of their times; *describe* returns the error of a time."""
        wrong = np.flatnonzero(is_wrong)
        rows, first = np.unique(row_of[wrong], return_index=True)
        wrong_time = dict(zip(rows.tolist(), wrong[first].tolist(), strict=True))
        table.refuse(np.isin(np.arange(len(table)), rows), lambda row: describe(wrong_time[row]))

    def describe_order(index: int) -> Fault:
        problem = f"times are not ascending: {times[index]:g} follows {before[index]:g}"
        return Fault("", problem, None, "write finite times above 0 in order, each once")

    refuse(np.isnan(times), lambda index: scale.fault(cell_value(cells, index)))
    refuse(~(times > before), describe_order)
    return np.split(times, np.cumsum(counts)[:-1])


def _read_intervals(table: UserTable, scale: TimeScale, period: float) -> list[UserSchedule]:
    """Return the schedules in rows of a user, and the start and end of one of its intervals."""
    table.check_headings(INTERVALS_SCHEMA)
    if "times" in table:
        problem = f"{table.path.name} has both end and times"
        raise ScenarioError([Fault("", problem, None, "write user,start,times or user,start,end")])
    users = table.users(INTERVALS_SCHEMA["user"])
    spans = table.intervals(INTERVALS_SCHEMA["start"], INTERVALS_SCHEMA["end"], scale, can_be_empty=True)
    valid = np.flatnonzero(~table.is_wrong)
    starts, ends = spans[valid].T.tolist()
    merged = merge_intervals(zip(users[valid].tolist(), starts, ends, strict=True))
    _, first = np.unique(users[valid], return_index=True)  # the first row of each user, for messages
    schedules = []
    for row, (user, times) in zip(valid[first].tolist(), merged.items(), strict=True):
        schedules.append(UserSchedule.from_intervals(user, times, period, table.place(row)))
    return schedules


def schedule_faults(
    rows: Iterable[UserSchedule], users: int, period: float, names: Sequence[str] = ()
) -> Iterator[Fault]:
    """Yield errors for rows of unknown users, and for changes that come after a repeated file starts over.

    Args:
        rows: the rows of the file.
        users: number of users of the scenario.
        period: time after which the file repeats.
        names: names of users 0, 1, … in the file; none if it has numbers.
    """
    if len(names) > users:
        problem = f"there are {len(names)} names of users, of which {names[users]} and the later ones are no users"
        yield Fault("file", problem, None, f"set users: {len(names)}, or list the names of the {users} users in names")
    for row in rows:
        if row.user >= users and not names:
            yield Fault("file", f"{row.place}: no such user", row.user, f"users are numbered 0 to {users - 1}")
        if len(row.times) and row.times[-1] >= period:
            problem = f"{row.place}: a change at {row.times[-1]:g} is after the end of the period of {period:g}"
            yield Fault("file", problem, None, "remove it, or make repeat longer")


def changes_within(rows: Sequence[UserSchedule], end: float) -> bool:
    """Return whether a change in *rows*, if there is any, is at *end* or earlier."""
    times = np.concatenate([np.empty(0), *(row.times[:1] for row in rows)])
    return not times.size or bool((times <= end).any())


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
