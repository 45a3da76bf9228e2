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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl import inputs
from netfl.availability._forms import COLUMNS, Told, of_csv, of_json, of_parquet, state, times, user
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.parquet import local, stamped

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
class Timetable:
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
    def of(cls, rows: Iterable[Row], users: int) -> Timetable:
        """The presence of *users* that *rows* tell of."""
        own = {row.user: row for row in rows}
        counts = np.array([len(own[user].times) if user in own else 0 for user in range(users)], np.int64)
        return cls(
            np.array([user not in own or own[user].start for user in range(users)], bool),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([np.empty(0), *(own[user].times for user in range(users) if user in own)]),
        )


def read(path: Path) -> tuple[list[Row], list[Fault]]:
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
    return (of_json if suffix == ".json" else of_csv)(inputs.text(path))


def shortened(faults: Sequence[Fault]) -> list[Fault]:
    """The first faults of many, and how many more there are."""
    more = len(faults) - _TOLD
    rest = [Fault("file", f"and {more} more like these", None, "mend these first")] if more > 0 else []
    return [*faults[:_TOLD], *rest]


def strangers(rows: Iterable[Row], users: int) -> Iterator[Fault]:
    """The faults of rows of users that there are not."""
    for row in rows:
        if row.user >= users:
            remedy = f"users are numbered 0 to {users - 1}"
            yield Fault("file", f"{row.place}: no such user", row.user, remedy)


def beyond(rows: Iterable[Row], period: float) -> Iterator[Fault]:
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
            pq.write_table(_to_parquet(rows), local(path))
            return
        path.write_text((_to_json if suffix == ".json" else _to_csv)(rows), encoding="utf-8")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error


def _to_parquet(rows: Iterable[Row]) -> pa.Table:
    """The rows as a table."""
    told = [*rows]
    columns = [[row.user for row in told], [row.start for row in told], [row.times for row in told]]
    return stamped(
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
