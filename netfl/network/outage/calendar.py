"""Known outages: intervals in which nodes are down, read from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator

from netfl import files
from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._availability_file import (
    AvailabilitySchedule,
    ScheduledAvailability,
    UserSchedule,
    limit_faults,
)
from netfl.network.outage._targets import node_number, suggest_node
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import to_si


class Calendar(Outage):
    """Nodes are down in the intervals [start, end) of a CSV file; overlapping intervals of a node are merged.

    The file's first line names its columns, in any order: ``node``, a user's number or a name such as ``tower:0`` or
    ``tower:0-server``; ``start`` and ``end`` (or ``start_s`` and ``end_s``), from time 0, in seconds, as quantities
    (``90 min``) or, with an ``origin``, as ISO 8601 dates (``2024-03-01T08:00``).  An empty end is never.  Times before
    0 are in the past.  Other columns, such as reasons, are ignored.

    Example::

        kind: calendar
        file: scenarios/files/outages.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV file; a relative path starts at the current directory."""
    origin: datetime | None = None
    """The date of time 0, in ISO 8601, with a time zone if the dates in the file have one."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        rows, faults = _read_rows(self.file, self.origin)
        faults += [
            Fault("file", f"{row.place}: no such user", row.node, f"users are numbered 0 to {facts.users - 1}")
            for row in rows
            if row.node.isdecimal() and int(row.node) >= facts.users
        ]
        yield from limit_faults(faults)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        rows, faults = _read_rows(self.file, self.origin)
        intervals: list[tuple[int, float, float]] = []
        for row in rows:
            if row.node.isdecimal() and int(row.node) < layout.users:
                node: int | None = int(row.node)
            else:
                node = node_number(row.node, layout)
            if node is None:
                hint = suggest_node(row.node, layout)
                faults.append(Fault("file", f"{row.place}: no such node", row.node, hint))
            else:
                intervals.append((node, row.start_s, row.end_s))
        if faults:
            raise ScenarioError(limit_faults(faults))
        return schedule_intervals(intervals, layout.nodes)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: nothing is drawn"),)


def schedule_intervals(intervals: Iterable[tuple[int, float, float]], nodes: int) -> ScheduledAvailability:
    """Return the states of *nodes* that are down in given intervals.

    Args:
        intervals: (node, start, end) of each, in s, half-open; an end may be infinity.  Intervals of a node that touch
            or overlap are merged.
        nodes: number of nodes.
    """
    changes_s: dict[int, list[float]] = {}
    for node, start_s, end_s in sorted(intervals):
        times_s = changes_s.setdefault(node, [])
        if times_s and start_s <= times_s[-1]:
            times_s[-1] = max(times_s[-1], end_s)
        else:
            times_s += [start_s, end_s]
    rows = []
    for node, times_s in changes_s.items():
        if times_s[-1] == np.inf:  # an outage that never ends is no change
            times_s.pop()
        rows.append(UserSchedule(node, True, np.array(times_s)))
    return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, nodes), np.inf)


class _CalendarRow(NamedTuple):
    """One interval; *place* is its file and line, for messages, and *node* a number or name."""

    place: str
    node: str
    start_s: float
    end_s: float


def _read_rows(path: Path, origin: datetime | None) -> tuple[list[_CalendarRow], list[Fault]]:
    """Return the valid rows of a file, and the errors of the others, or of the file."""
    rows: list[_CalendarRow] = []
    faults: list[Fault] = []
    try:
        lines = csv.DictReader(io.StringIO(files.read_text(path), newline=""), strict=True, skipinitialspace=True)
        columns = [name.strip().removesuffix("_s") for name in lines.fieldnames or ()]
        lines.fieldnames = columns
        missing = [name for name in ("node", "start", "end") if name not in columns]
        if missing:
            problem = f"{path.name}:1: no column {' and '.join(missing)}"
            return [], [Fault("file", problem, None, suggest(missing[0], columns))]
        for line in lines:
            place = f"{path.name}:{lines.line_num}"
            try:
                rows.append(_parse_row(place, line, origin))
            except ValueError as error:
                problem, value, remedy = error.args
                faults.append(Fault("file", f"{place}: {problem}", value, remedy))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)  # without the path, which follows
        return [], [Fault("file", f"cannot be read: {reason}", str(path), "name a CSV file")]
    return rows, faults


def _parse_row(place: str, line: dict[str, str], origin: datetime | None) -> _CalendarRow:
    """Return the interval of a line.

    Raises:
        ValueError: there is none; has the problem, the value and the remedy.
    """
    if None in line or None in line.values():
        problem = "the number of entries differs from the number of columns"
        raise ValueError(problem, None, "put text with commas in quotes")
    start_s = _parse_time_s(line["start"].strip(), origin)
    end_s = _parse_time_s(line["end"].strip() or "inf", origin)
    if not math.isfinite(start_s) or not end_s > start_s:
        raise ValueError("it ends before it starts", f"{start_s:g} s to {end_s:g} s", "swap them")
    return _CalendarRow(place, line["node"].strip(), start_s, end_s)


def _parse_time_s(text: str, origin: datetime | None) -> float:
    """Return a number, a time with a unit, or a date, in s."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        try:
            return to_si(text, "s")
        except ValueError as error:
            remedy = "write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00"
            raise ValueError(f"not a time: {error}", text, remedy) from None
    if origin is None:
        raise ValueError("a date, but the calendar has no origin", text, "give origin, the date of time 0")
    try:
        return (date - origin).total_seconds()
    except TypeError:
        raise ValueError("only one of date and origin has a time zone", text, "give both a time zone") from None
