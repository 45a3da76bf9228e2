"""Availability files: who is there from when to when, for direct accesses and for outages; read and written.

A file has one row for each user: its number, whether it is there at time 0, and the rising times at which that changes
from then on.  In CSV, with or without the heading::

    user,start,times
    0,on,3600,7200.5
    1,off,120
    2,on

In JSON, a list or a mapping::

    [{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}]
    {"0": {"start": true, "times": [3600, 7200.5]}, "1": {"start": false, "times": [120]}}

In Parquet, the columns ``user``, ``start`` and ``times``, a list of numbers for each row.  It is the quickest to read.

A start is ``on`` or ``off``, ``true`` or ``false``, 1 or 0.  Times are numbers above 0; what they count, seconds or
rounds, is for the reader to say.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network import files
from netfl.network.files import absolute_path, open_parquet, with_format

# What an availability file says, row by row: CSV, JSON and Parquet taken apart, and numbers, states and times read.


_STATES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_SPLIT = re.compile(r"\s*[,;]\s*|\s+")
_BETWEEN = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_MOST = 2**32
"""Users are numbered below this."""

COLUMNS = pa.schema({"user": pa.int64(), "start": pa.bool_(), "times": pa.list_(pa.float64())})
"""The columns of a Parquet file as it is written."""
_MOST_VALUES = 50_000_000
"""Values of one Parquet file.  The limit protects the memory: shared times compress to almost nothing."""
Told = tuple[int, object, object, Sequence[object] | NDArray[np.float64]]
"""The line of a row, and what it says of the user, its start and its times, unread."""


def parse_csv(text: str) -> Iterator[Told]:
    """The rows of a CSV file; times may be in brackets, in one cell or in many, and the last cells empty."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    begun = False
    for cells in lines:
        heading = not begun and bool(cells) and cells[0].strip().lower() == "user"
        begun = begun or bool(cells)
        if heading or not any(cell.strip() for cell in cells):
            continue
        times = ",".join(cells[2:]).strip(" ,[]")
        user, start = (*cells, "")[:2]
        yield lines.line_num, user.strip(), start.strip(), _SPLIT.split(times) if times else []


def parse_json(text: str) -> Iterator[Told]:
    """The entries of a JSON list or mapping, each with its line; the decoder itself keeps none."""
    decoder = json.JSONDecoder()
    at = len(text) - len(text.lstrip())
    if text[at : at + 1] not in {"[", "{"}:
        raise json.JSONDecodeError("neither a list nor a mapping", text, at)
    closing = "]" if text[at] == "[" else "}"
    json.loads(text)  # commas, brackets, and what comes after: the decoder judges these better
    line, seen, at = 1, 0, at + 1
    while True:
        at = _end(_BETWEEN, text, at)
        if text[at] == closing:
            return
        line, seen = line + text.count("\n", seen, at), at
        user = None
        if closing == "}":
            user, at = decoder.raw_decode(text, at)
            at = _end(_COLON, text, at)
        entry, at = decoder.raw_decode(text, at)
        yield _entry(text, seen, line, user, entry)


def of_parquet(path: Path) -> Iterator[Told]:
    """The rows of a Parquet file, counted from 1.

    Raises:
        ValueError: its columns are others, or it holds too many values.
        MachineError: it cannot be read.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        problem = _unusable(schema) or _too_many(file)
        names = [name for name in COLUMNS.names if name in schema.names]
        table = None if problem else file.read(columns=names).combine_chunks()
    if table is None:
        raise ValueError(problem)
    listed = "times" in names
    users, starts = table["user"].to_pylist(), table["start"].to_pylist()
    nothing = np.empty(0)
    changes = [nothing] * len(users)
    if listed and len(users):
        column = table["times"].chunk(0)
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(float)  # an empty place is no number
        ends = np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))
        changes = np.split(flat, ends[:-1])
    yield from zip(range(1, len(users) + 1), users, starts, changes, strict=True)


def _unusable(schema: pa.Schema) -> str:
    """Return why columns like these hold no availability; empty if they do."""
    if missing := [name for name in ("user", "start") if name not in schema.names]:
        return f"it has no column {' and '.join(missing)}, but {', '.join(schema.names) or 'none'}"
    kind = schema.field("times").type if "times" in schema.names else COLUMNS.field("times").type
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_number(kind.value_type):
        return ""
    return f"times are lists of numbers, and not {kind}"


def _too_many(file: pq.ParquetFile) -> str:
    """Return the excess of a file's values over the limit, in words; empty if there is none."""
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    values = sum(group.column(at).num_values for group in groups for at in range(group.num_columns))
    return f"it holds {values} values, and {_MOST_VALUES} are possible" if values > _MOST_VALUES else ""


def _is_number(kind: pa.DataType) -> bool:
    """Whether a column holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what *pattern* matches from *at* on ends."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _entry(text: str, at: int, line: int, user: object, entry: Any) -> Told:
    """What an entry says; *user* is its key in a mapping."""
    wanted = {"start", "times"} if user is not None else {"user", "start", "times"}
    if not isinstance(entry, dict) or not wanted - {"times"} <= set(entry) <= wanted:
        raise json.JSONDecodeError(f"an entry holds {', '.join(sorted(wanted))}", text, at)
    times = entry.get("times", [])
    if not isinstance(times, list):
        raise json.JSONDecodeError("times are a list", text, at)
    return line, entry.get("user", user), entry["start"], times


def user(told: object) -> int:
    """The number of a user."""
    text = "" if isinstance(told, bool | float) else str(told)
    if not (text.isascii() and text.isdecimal()) or int(text) >= _MOST:
        raise ValueError("no number of a user", told, "users are numbered 0, 1, 2, …")
    return int(text)


def state(told: object) -> bool:
    """A state."""
    known = _STATES.get(str(told).strip().lower()) if isinstance(told, str | bool | int) else None
    if known is None:
        raise ValueError("no state to start from", told, "write on or off, true or false, 1 or 0")
    return known


def times(told: Sequence[object] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Rising times."""
    if isinstance(told, np.ndarray) or all(type(one) in {str, float, int} for one in told):
        try:
            made = np.array(told, float)
        except (ValueError, OverflowError):
            made = np.array([np.nan])
        if np.isfinite(made).all() and (np.diff(made, prepend=0.0) > 0.0).all():
            return made
    read: list[float] = []
    for one in told:  # what is wrong?
        read.append(_time(one, read[-1] if read else 0.0))
    return np.array(read)


def _time(told: object, last: float) -> float:
    """A time after the *last* one."""
    try:
        time = np.nan if isinstance(told, bool | None) else float(told)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError("no time", told, "write numbers, such as 3600") from None
    if not np.isfinite(time):
        raise ValueError("no finite time", told, "leave out a change that never comes")
    if time <= 0.0:
        raise ValueError("a change that is not after time 0", told, "say by the start how it begins")
    if time <= last:
        problem = f"times do not rise: {time:g} comes after {last:g}"
        raise ValueError(problem, None, "put them in order, each once")
    return time


_TOLD = 10
"""Faults of one file that are told one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One user's presence.

    Args:
        user: its number, from 0.
        start: whether it is there at time 0.
        times: when that changes, rising, ``[n]``; at the instant of a change the new state holds.
        place: the file and line that say so, for messages.
    """

    user: int
    start: bool
    times: NDArray[np.float64]
    place: str = ""

    def __eq__(self, other: object) -> bool:
        """Compare all fields; those of a dataclass would ask an array for one truth value."""
        if not isinstance(other, Row):
            return NotImplemented
        same = (self.user, self.start, self.place) == (other.user, other.start, other.place)
        return same and np.array_equal(self.times, other.times)

    __hash__ = None  # type: ignore[assignment]  # an array has none


@dataclass(frozen=True, slots=True)
class AvailabilitySchedule:
    """The presence of all users, in flat arrays; of those without a row, that they are always there.

    Args:
        start: whether each is there at time 0, ``[users]``.
        first: where each user's times begin, ``[users + 1]``.
        times: when that changes, user by user.
    """

    start: NDArray[np.bool_]
    first: NDArray[np.int64]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Iterable[Row], users: int) -> AvailabilitySchedule:
        """The presence of *users* that *rows* tell of."""
        own = {row.user: row for row in rows}
        counts = np.array([len(own[user].times) if user in own else 0 for user in range(users)], np.int64)
        return cls(
            np.array([user not in own or own[user].start for user in range(users)], bool),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([np.empty(0), *(own[user].times for user in range(users) if user in own)]),
        )


def read_availability(path: Path) -> tuple[list[Row], list[Fault]]:
    """The good rows of a file, and what is wrong with the others, or with the file.

    ``.json`` is JSON, ``.parquet`` is Parquet, where a row stands for a line, and all else is CSV.
    """
    rows: list[Row] = []
    faults: list[Fault] = []
    try:
        for line, who, start, changes in _told(path):
            place = f"{path.name}:{line}"
            try:
                rows.append(Row(user(who), state(start), times(changes), place))
            except ValueError as error:
                faults.append(Fault("file", f"{place}: {error.args[0]}", *error.args[1:]))
    except json.JSONDecodeError as error:
        remedy = 'write [{"user": 0, "start": "on", "times": [5, 9]}, …]'
        return [], [Fault("file", f"{path.name}:{error.lineno}: no JSON of the kind: {error.msg}", None, remedy)]
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Fault("file", f"cannot be read: {why}", str(path), "name a CSV, JSON or Parquet file")]
    except MachineError as error:
        return [], [Fault("file", str(error), None, "is it whole, and Parquet?")]
    faults += _repeated(rows)
    if not rows and not faults:
        faults.append(Fault("file", f"{path.name} tells of no user", None, "give a row for each: user,start,times"))
    return rows, faults


def _told(path: Path) -> Iterator[Told]:
    """What each row of a file says, unread."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return of_parquet(path)
    return (parse_json if suffix == ".json" else parse_csv)(files.read_text(path))


def limit_faults(faults: Sequence[Fault]) -> list[Fault]:
    """The first faults of many, and how many more there are."""
    more = len(faults) - _TOLD
    rest = [Fault("file", f"and {more} more like these", None, "mend these first")] if more > 0 else []
    return [*faults[:_TOLD], *rest]


def unknown_user_faults(rows: Iterable[Row], users: int) -> Iterator[Fault]:
    """The faults of rows of users that there are not."""
    for row in rows:
        if row.user >= users:
            remedy = f"users are numbered 0 to {users - 1}"
            yield Fault("file", f"{row.place}: no such user", row.user, remedy)


def past_period_faults(rows: Iterable[Row], period: float) -> Iterator[Fault]:
    """The faults of rows that tell of changes after a file that is to be repeated begins anew."""
    for row in rows:
        if len(row.times) and row.times[-1] >= period:
            problem = f"{row.place}: a change at {row.times[-1]:g} is never reached: all begins anew at {period:g}"
            yield Fault("file", problem, None, "leave it out, or make repeat longer")


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write a file that `read` gives back exactly: CSV, JSON or Parquet, as its ending says.

    Raises:
        ScenarioError: it has another ending.
        MachineError: it cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in {".csv", ".json", ".parquet"}:
        problem = "none of .csv, .json and .parquet"
        raise ScenarioError([Fault("", problem, str(path), "call it so, as the ending says which")])
    try:
        if suffix == ".parquet":
            pq.write_table(_to_parquet(rows), absolute_path(path))
            return
        path.write_text((_to_json if suffix == ".json" else _to_csv)(rows), encoding="utf-8")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error


def _to_parquet(rows: Iterable[Row]) -> pa.Table:
    """The rows as a table."""
    told = [*rows]
    columns = [[row.user for row in told], [row.start for row in told], [row.times for row in told]]
    return with_format(
        pa.Table.from_arrays([pa.array(one, of.type) for one, of in zip(columns, COLUMNS, strict=True)], schema=COLUMNS)
    )


def _to_csv(rows: Iterable[Row]) -> str:
    """The rows as lines."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(["user", "start", "times"])
    writer.writerows([row.user, "on" if row.start else "off", *row.times.tolist()] for row in rows)
    return made.getvalue()


def _to_json(rows: Iterable[Row]) -> str:
    """The rows as a list, one on a line."""
    each = ({"user": row.user, "start": "on" if row.start else "off", "times": row.times.tolist()} for row in rows)
    return "[\n" + ",\n".join(map(json.dumps, each)) + "\n]\n"


def _repeated(rows: Sequence[Row]) -> Iterator[Fault]:
    """The faults of users who have several rows."""
    seen: dict[int, Row] = {}
    for row in rows:
        if row.user in seen:
            yield Fault("file", f"{row.place}: a second row for user {row.user}", None, f"see {seen[row.user].place}")
        seen.setdefault(row.user, row)
