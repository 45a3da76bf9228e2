"""Known outages: intervals in which nodes are down, read from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network import files
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._schedule import AvailabilitySchedule, ScheduledAvailability, UserSchedule
from netfl.network.outage._targets import node_number, suggest_node
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import to_si

_MAX_FAULTS = 10
"""Errors of one file that are reported one by one."""


def _check_date(value: Any) -> Any:
    if isinstance(value, int | float):
        raise PydanticCustomError("date", "no date", {"remedy": "write a date such as 2024-03-01T00:00"})
    return value


class Calendar(Outage):
    """Nodes are down in the intervals [start, end) of a CSV file; overlapping intervals of a node are merged.

    The file's first line names its columns, in any order: ``node``, a user's number or a name such as ``tower:0`` or
    ``tower:0-server``; ``start_s`` and ``end_s`` in seconds from time 0, or ``start`` and ``end`` as seconds,
    quantities (``90 min``) or, with an ``origin``, ISO 8601 dates (``2024-03-01T08:00``).  An empty end is never.
    Times before 0 are in the past.  Other columns, such as reasons, are ignored.

    Example::

        kind: calendar
        file: scenarios/files/outages.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV file; a relative path starts at the current directory."""
    origin: Annotated[datetime, BeforeValidator(_check_date)] | None = None
    """The date of time 0, in ISO 8601, with a time zone if the dates in the file have one."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of the file, line by line, and unknown users."""
        rows, faults = _read_rows(self.file, self.origin)
        faults += [
            row.fault("no such user", row.node, f"users are numbered 0 to {facts.users - 1}")
            for row in rows
            if row.node.isdecimal() and int(row.node) >= facts.users
        ]
        yield from _shorten(faults)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Read the intervals.

        Raises:
            ScenarioError: the file has errors, or names unknown nodes.
        """
        rows, faults = _read_rows(self.file, self.origin)
        intervals: list[tuple[int, float, float]] = []
        for row in rows:
            node = _node_of(row, layout)
            if node is None:
                faults.append(row.fault("no such node", row.node, suggest_node(row.node, layout)))
            else:
                intervals.append((node, row.start_s, row.end_s))
        if faults:
            raise ScenarioError(_shorten(faults))
        return schedule_intervals(intervals, layout.nodes)

    def laws(self) -> tuple[Law, ...]:
        """Claim that nothing is drawn."""
        return (Law.none("all is written down: nothing is drawn"),)


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
    rows = [
        UserSchedule(node, True, np.array(times_s if times_s[-1] < np.inf else times_s[:-1]))
        for node, times_s in changes_s.items()
    ]
    return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, nodes), np.inf)


@dataclass(frozen=True, slots=True)
class _CalendarRow:
    """One interval of one node, from a line of a file."""

    file: str
    line: int
    node: str
    start_s: float
    end_s: float

    def fault(self, problem: str, value: object, remedy: str) -> Fault:
        return _fault(self.file, self.line, problem, value, remedy)


def _read_rows(path: Path, origin: datetime | None) -> tuple[list[_CalendarRow], list[Fault]]:
    """Return the valid rows of a file, and the errors of the others, or of the file."""
    try:
        with io.StringIO(files.read_text(path), newline="") as file:
            lines = csv.DictReader(file, strict=True, skipinitialspace=True)
            columns = [name.strip() for name in lines.fieldnames or ()]
            lines.fieldnames = columns
            faults = _column_faults(path.name, columns)
            if faults:
                return [], faults
            return _parse_lines(path.name, [(lines.line_num, line) for line in lines], origin)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Fault("file", f"cannot be read: {reason}", str(path), "name a CSV file")]


def _column_faults(file: str, columns: list[str]) -> list[Fault]:
    """Return errors for missing and duplicate columns."""
    faults = []
    for aliases in (("node",), ("start_s", "start"), ("end_s", "end")):
        present = [name for name in aliases if name in columns]
        if len(present) > 1:
            faults.append(_fault(file, 1, f"two columns for one time: {' and '.join(present)}", None, "keep one"))
        if not present:
            hints = [suggest(name, columns) for name in aliases]
            hint = next((hint for hint in hints if hint.startswith("did you")), f"columns: {', '.join(columns)}")
            faults.append(_fault(file, 1, f"no column {' or '.join(aliases)}", None, hint))
    return faults


def _parse_lines(
    file: str, lines: list[tuple[int, dict[str, str]]], origin: datetime | None
) -> tuple[list[_CalendarRow], list[Fault]]:
    rows, faults = [], []
    for number, line in lines:
        if None in line or None in line.values():
            remedy = "put a text that holds commas in quotes"
            faults.append(_fault(file, number, "not as many entries as there are columns", None, remedy))
            continue
        try:
            start_s, end_s = (_parse_time_s(line, name, origin) for name in ("start", "end"))
        except ValueError as error:
            problem, value, remedy = error.args
            faults.append(_fault(file, number, problem, value, remedy))
            continue
        row = _CalendarRow(file, number, line["node"].strip(), start_s, end_s)
        if end_s <= start_s:
            faults.append(row.fault("it ends before it starts", f"{start_s:g} s to {end_s:g} s", "turn them round"))
        else:
            rows.append(row)
    return rows, faults


def _parse_time_s(line: dict[str, str], name: str, origin: datetime | None) -> float:
    """Return the start or the end of a line's interval.

    Raises:
        ValueError: the text is no time; has the problem, the value and the remedy.
    """
    text = line.get(f"{name}_s", line.get(name, "")).strip()
    if not text and name == "end":
        return math.inf
    try:
        time_s = float(text)
    except ValueError:
        if f"{name}_s" in line:
            raise ValueError(f"{name}_s is no number", text, f"write seconds, or call the column {name}") from None
        time_s = _parse_quantity_s(text, name, origin)
    if not math.isfinite(time_s):
        raise ValueError(f"{name} is no finite time", text, "leave an end that never comes empty")
    return time_s


def _parse_quantity_s(text: str, name: str, origin: datetime | None) -> float:
    """Return a time with a unit, or a date, in s."""
    remedy = "write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00"
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        try:
            return to_si(text, "s")
        except ValueError as error:
            raise ValueError(f"{name} is no time: {error}", text, remedy) from None
    if origin is None:
        raise ValueError(f"{name} is a date, and the calendar has no origin", text, "give origin, the date of time 0")
    try:
        return (date - origin).total_seconds()
    except TypeError:
        raise ValueError(f"{name} or origin has a time zone, and the other none", text, "give both one") from None


def _node_of(row: _CalendarRow, layout: Layout) -> int | None:
    if row.node.isdecimal():
        return int(row.node) if int(row.node) < layout.users else None
    return node_number(row.node, layout)


def _fault(file: str, line: int, problem: str, value: object, remedy: str) -> Fault:
    return Fault("file", f"{file}:{line}: {problem}", value, remedy)


def _shorten(faults: list[Fault]) -> list[Fault]:
    """Return the first errors, and the number of the others."""
    more = len(faults) - _MAX_FAULTS
    rest = [Fault("file", f"and {more} more lines like these", None, "mend these first")] if more > 0 else []
    return faults[:_MAX_FAULTS] + rest
