"""Availability files: the times at which users are present, for direct accesses and for outages.

A file has one row for each user: its number, whether it is present at time 0, and the increasing times at which this
changes.  In CSV, with or without the heading::

    user,start,times
    0,on,3600,7200.5
    1,off,120
    2,on

In JSON, a list or a mapping::

    [{"user": 0, "start": "on", "times": [3600, 7200.5]}, {"user": 1, "start": "off", "times": [120]}]
    {"0": {"start": true, "times": [3600, 7200.5]}, "1": {"start": false, "times": [120]}}

In Parquet, the columns ``user``, ``start`` and ``times``, a list of numbers for each row.  This is the fastest format.

A start is ``on`` or ``off``, ``true`` or ``false``, 1 or 0.  Times are numbers above 0, in seconds or rounds, as the
model that reads the file defines.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network import files
from netfl.network.files import absolute_path, open_parquet, with_format
from netfl.network.outage import Floats
from netfl.network.outage._schedule import UserSchedule

_STATES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_SPLIT = re.compile(r"\s*[,;]\s*|\s+")
_BETWEEN = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_MAX_USERS = 2**32
_MAX_VALUES = 50_000_000
"""Values of one Parquet file.  The limit protects the memory: shared times compress to almost nothing."""
_MAX_FAULTS = 10
"""Errors of one file that are reported one by one."""

COLUMNS = pa.schema({"user": pa.int64(), "start": pa.bool_(), "times": pa.list_(pa.float64())})
"""Columns of a Parquet file that this module writes."""
_RawRow = tuple[int, object, object, Sequence[object] | Floats]
"""Line, user, start and times of a row, not yet parsed."""


def read_availability(path: Path) -> tuple[list[UserSchedule], list[Fault]]:
    """Return the valid rows of a file, and the errors of the others, or of the file.

    ``.json`` is JSON, ``.parquet`` is Parquet with rows in place of lines, and all else is CSV.
    """
    rows: list[UserSchedule] = []
    faults: list[Fault] = []
    try:
        for line, user, start, times in _raw_rows(path):
            place = f"{path.name}:{line}"
            try:
                rows.append(UserSchedule(_parse_user(user), _parse_state(start), _parse_times(times), place))
            except ValueError as error:
                faults.append(Fault("file", f"{place}: {error.args[0]}", *error.args[1:]))
    except json.JSONDecodeError as error:
        remedy = 'write [{"user": 0, "start": "on", "times": [5, 9]}, …]'
        return [], [Fault("file", f"{path.name}:{error.lineno}: no JSON of the kind: {error.msg}", None, remedy)]
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Fault("file", f"cannot be read: {reason}", str(path), "name a CSV, JSON or Parquet file")]
    except MachineError as error:
        return [], [Fault("file", str(error), None, "is it whole, and Parquet?")]
    faults += _duplicate_faults(rows)
    if not rows and not faults:
        faults.append(Fault("file", f"{path.name} tells of no user", None, "give a row for each: user,start,times"))
    return rows, faults


def _raw_rows(path: Path) -> Iterator[_RawRow]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return parse_parquet(path)
    return (parse_json if suffix == ".json" else parse_csv)(files.read_text(path))


def parse_csv(text: str) -> Iterator[_RawRow]:
    """Yield the rows of a CSV file; times may be in brackets, in one cell or in many, and the last cells empty."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    has_begun = False
    for cells in lines:
        is_heading = not has_begun and bool(cells) and cells[0].strip().lower() == "user"
        has_begun = has_begun or bool(cells)
        if is_heading or not any(cell.strip() for cell in cells):
            continue
        times = ",".join(cells[2:]).strip(" ,[]")
        user, start = (*cells, "")[:2]
        yield lines.line_num, user.strip(), start.strip(), _SPLIT.split(times) if times else []


def parse_json(text: str) -> Iterator[_RawRow]:
    """Yield the entries of a JSON list or mapping, each with its line, which the decoder does not report."""
    decoder = json.JSONDecoder()
    position = len(text) - len(text.lstrip())
    if text[position : position + 1] not in {"[", "{"}:
        raise json.JSONDecodeError("neither a list nor a mapping", text, position)
    closing = "]" if text[position] == "[" else "}"
    json.loads(text)  # checks commas, brackets and the end of the text
    line, counted, position = 1, 0, position + 1
    while True:
        position = _end_of_match(_BETWEEN, text, position)
        if text[position] == closing:
            return
        line, counted = line + text.count("\n", counted, position), position
        user = None
        if closing == "}":
            user, position = decoder.raw_decode(text, position)
            position = _end_of_match(_COLON, text, position)
        entry, position = decoder.raw_decode(text, position)
        wanted = {"start", "times"} if user is not None else {"user", "start", "times"}
        if not isinstance(entry, dict) or not wanted - {"times"} <= set(entry) <= wanted:
            raise json.JSONDecodeError(f"an entry holds {', '.join(sorted(wanted))}", text, counted)
        times = entry.get("times", [])
        if not isinstance(times, list):
            raise json.JSONDecodeError("times are a list", text, counted)
        yield line, entry.get("user", user), entry["start"], times


def _end_of_match(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def parse_parquet(path: Path) -> Iterator[_RawRow]:
    """Yield the rows of a Parquet file, counted from 1.

    Raises:
        ValueError: it has other columns, or too many values.
        MachineError: it cannot be read.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        problem = _column_problem(schema) or _size_problem(file)
        names = [name for name in COLUMNS.names if name in schema.names]
        table = None if problem else file.read(columns=names).combine_chunks()
    if table is None:
        raise ValueError(problem)
    users, starts = table["user"].to_pylist(), table["start"].to_pylist()
    times = [np.empty(0)] * len(users)
    if "times" in names and len(users):
        column = table["times"].chunk(0)
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(float)  # an empty place becomes NaN
        ends = np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))
        times = np.split(flat, ends[:-1])
    yield from zip(range(1, len(users) + 1), users, starts, times, strict=True)


def _column_problem(schema: pa.Schema) -> str:
    """Return why columns like these hold no availability; empty if they do."""
    if missing := [name for name in ("user", "start") if name not in schema.names]:
        return f"it has no column {' and '.join(missing)}, but {', '.join(schema.names) or 'none'}"
    kind = schema.field("times").type if "times" in schema.names else COLUMNS.field("times").type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        return ""
    return f"times are lists of numbers, and not {kind}"


def _size_problem(file: pq.ParquetFile) -> str:
    """Return by how much a file exceeds the limit, in words; empty if it does not."""
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
    return f"it holds {values} values, and {_MAX_VALUES} are possible" if values > _MAX_VALUES else ""


def _parse_user(value: object) -> int:
    text = "" if isinstance(value, bool | float) else str(value)
    if not (text.isascii() and text.isdecimal()) or int(text) >= _MAX_USERS:
        raise ValueError("no number of a user", value, "users are numbered 0, 1, 2, …")
    return int(text)


def _parse_state(value: object) -> bool:
    state = _STATES.get(str(value).strip().lower()) if isinstance(value, str | bool | int) else None
    if state is None:
        raise ValueError("no state to start from", value, "write on or off, true or false, 1 or 0")
    return state


def _parse_times(values: Sequence[object] | Floats) -> Floats:
    """Return increasing times."""
    if isinstance(values, np.ndarray) or all(type(value) in {str, float, int} for value in values):
        try:
            times = np.array(values, float)
        except (ValueError, OverflowError):
            times = np.array([np.nan])
        if np.isfinite(times).all() and (np.diff(times, prepend=0.0) > 0.0).all():
            return times
    parsed: list[float] = []
    for value in values:  # find the error
        parsed.append(_parse_time(value, parsed[-1] if parsed else 0.0))
    return np.array(parsed)


def _parse_time(value: object, last: float) -> float:
    """Return a time after the *last* one."""
    try:
        time = np.nan if isinstance(value, bool | None) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError("no time", value, "write numbers, such as 3600") from None
    if not np.isfinite(time):
        raise ValueError("no finite time", value, "leave out a change that never comes")
    if time <= 0.0:
        raise ValueError("a change that is not after time 0", value, "say by the start how it begins")
    if time <= last:
        problem = f"times do not rise: {time:g} comes after {last:g}"
        raise ValueError(problem, None, "put them in order, each once")
    return time


def _duplicate_faults(rows: Sequence[UserSchedule]) -> Iterator[Fault]:
    seen: dict[int, UserSchedule] = {}
    for row in rows:
        if row.user in seen:
            yield Fault("file", f"{row.place}: a second row for user {row.user}", None, f"see {seen[row.user].place}")
        seen.setdefault(row.user, row)


def unknown_user_faults(rows: Iterable[UserSchedule], users: int) -> Iterator[Fault]:
    """Yield errors for rows of unknown users."""
    for row in rows:
        if row.user >= users:
            remedy = f"users are numbered 0 to {users - 1}"
            yield Fault("file", f"{row.place}: no such user", row.user, remedy)


def past_period_faults(rows: Iterable[UserSchedule], period: float) -> Iterator[Fault]:
    """Yield errors for changes that come after a repeated file starts over."""
    for row in rows:
        if len(row.times) and row.times[-1] >= period:
            problem = f"{row.place}: a change at {row.times[-1]:g} is never reached: all begins anew at {period:g}"
            yield Fault("file", problem, None, "leave it out, or make repeat longer")


def limit_faults(faults: Sequence[Fault]) -> list[Fault]:
    """Return the first errors, and the number of the others."""
    more = len(faults) - _MAX_FAULTS
    rest = [Fault("file", f"and {more} more like these", None, "mend these first")] if more > 0 else []
    return [*faults[:_MAX_FAULTS], *rest]


def write_availability(path: Path, rows: Iterable[UserSchedule]) -> None:
    """Write a file that `read_availability` reads back exactly: CSV, JSON or Parquet, by its extension.

    Raises:
        ScenarioError: it has another extension.
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


def _to_parquet(rows: Iterable[UserSchedule]) -> pa.Table:
    listed = [*rows]
    columns = [[row.user for row in listed], [row.start for row in listed], [row.times for row in listed]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)]
    return with_format(pa.Table.from_arrays(arrays, schema=COLUMNS))


def _to_csv(rows: Iterable[UserSchedule]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "start", "times"])
    writer.writerows([row.user, "on" if row.start else "off", *row.times.tolist()] for row in rows)
    return text.getvalue()


def _to_json(rows: Iterable[UserSchedule]) -> str:
    entries = ({"user": row.user, "start": "on" if row.start else "off", "times": row.times.tolist()} for row in rows)
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"
