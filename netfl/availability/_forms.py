"""What an availability file says, row by row: CSV, JSON and Parquet taken apart, and numbers, states and times read."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.parquet import opened

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


def of_csv(text: str) -> Iterator[Told]:
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


def of_json(text: str) -> Iterator[Told]:
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
    with opened(path) as file:
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
