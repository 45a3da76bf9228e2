"""Outages that are known: a list of who is down from when to when, read from a CSV file."""

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
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network import files
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._targets import node_number, suggest_node
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import to_si

# The rows of a calendar of outages, as a CSV file has them.


_NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Row:
    """One span of one node; *line* of *file* says so."""

    file: str
    line: int
    node: str
    start_s: float
    end_s: float

    def fault(self, problem: str, value: object, remedy: str) -> Fault:
        """What is wrong with it."""
        return _fault(self.file, self.line, problem, value, remedy)


def read(path: Path, origin: datetime | None) -> tuple[list[Row], list[Fault]]:
    """The good rows of a file, and what is wrong with the others, or with the file."""
    try:
        with io.StringIO(files.read_text(path), newline="") as file:
            lines = csv.DictReader(file, strict=True, skipinitialspace=True)
            columns = [name.strip() for name in lines.fieldnames or ()]
            lines.fieldnames = columns
            faults = _missing(path.name, columns)
            if faults:
                return [], faults
            return _rows(path.name, [(lines.line_num, line) for line in lines], origin)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Fault("file", f"cannot be read: {told}", str(path), "name a CSV file")]


def _missing(file: str, columns: list[str]) -> list[Fault]:
    """Columns that a calendar needs and that are not there, or are there twice."""
    faults = []
    for wanted in (("node",), ("start_s", "start"), ("end_s", "end")):
        found = [name for name in wanted if name in columns]
        if len(found) > 1:
            faults.append(_fault(file, 1, f"two columns for one time: {' and '.join(found)}", None, "keep one"))
        if not found:
            hints = [suggest(name, columns) for name in wanted]
            near = next((hint for hint in hints if hint.startswith("did you")), f"columns: {', '.join(columns)}")
            faults.append(_fault(file, 1, f"no column {' or '.join(wanted)}", None, near))
    return faults


def _rows(file: str, lines: list[tuple[int, dict[str, str]]], origin: datetime | None) -> tuple[list[Row], list[Fault]]:
    """The rows of the lines, and what is wrong with the others."""
    rows, faults = [], []
    for number, line in lines:
        if None in line or None in line.values():
            remedy = "put a text that holds commas in quotes"
            faults.append(_fault(file, number, "not as many entries as there are columns", None, remedy))
            continue
        try:
            start_s, end_s = (_time_s(line, name, origin) for name in ("start", "end"))
        except ValueError as error:
            problem, value, remedy = error.args
            faults.append(_fault(file, number, problem, value, remedy))
            continue
        row = Row(file, number, line["node"].strip(), start_s, end_s)
        if end_s <= start_s:
            faults.append(row.fault("it ends before it starts", f"{start_s:g} s to {end_s:g} s", "turn them round"))
        else:
            rows.append(row)
    return rows, faults


def _time_s(line: dict[str, str], name: str, origin: datetime | None) -> float:
    """The start or the end of a line's span.

    Raises:
        ValueError: there is none; holds the problem, the value and the remedy.
    """
    text = line.get(f"{name}_s", line.get(name, "")).strip()
    if not text and name == "end":
        return _NEVER
    try:
        time_s = float(text)
    except ValueError:
        if f"{name}_s" in line:
            raise ValueError(f"{name}_s is no number", text, f"write seconds, or call the column {name}") from None
        time_s = _quantity_s(text, name, origin)
    if not math.isfinite(time_s):
        raise ValueError(f"{name} is no finite time", text, "leave an end that never comes empty")
    return time_s


def _quantity_s(text: str, name: str, origin: datetime | None) -> float:
    """A time with a unit, or a date."""
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


def _fault(file: str, line: int, problem: str, value: object, remedy: str) -> Fault:
    """A fault with its place."""
    return Fault("file", f"{file}:{line}: {problem}", value, remedy)


# Nodes that are down for given spans of time.


class DownIntervals(NodeAvailability):
    """A timeline written down in advance.

    Args:
        spans: (node, start, end) of each span, in seconds, half-open; an end may be infinity.  Spans of a node that
            touch or overlap are one.
        nodes: how many nodes there are.
    """

    def __init__(self, spans: Iterable[tuple[int, float, float]], nodes: int) -> None:
        changes = sorted(_merged(spans))
        node = np.array([one for one, _ in changes], np.int64)
        self._change_s = np.array([*(when for _, when in changes), np.inf])
        self._first = np.searchsorted(node, np.arange(nodes + 1))
        # a change's place among all instants makes one sorted key of node and time
        self._instants_s = np.unique(self._change_s[:-1])
        self._keys = self._key(node, self._change_s[:-1])

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether an even number of changes is past."""
        return np.asarray((self._passed(nodes, time_s) - self._first[nodes]) % 2 == 0)

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The first that is not."""
        passed = self._passed(nodes, time_s)
        return np.where(passed < self._first[nodes + 1], self._change_s[passed], np.inf)

    def _passed(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.int64]:
        """The place after each node's last change up to *time_s*, ``[n]``."""
        return np.searchsorted(self._keys, self._key(nodes, np.asarray(time_s, float)), side="right")

    def _key(self, nodes: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """A number that grows with the node, then with the number of instants that are past."""
        passed = np.searchsorted(self._instants_s, time_s, side="right")
        return np.asarray(nodes * (len(self._instants_s) + 1) + passed)


def _merged(spans: Iterable[tuple[int, float, float]]) -> Iterable[tuple[int, float]]:
    """The finite changes (node, time) that the spans make together; two for each span that is left."""
    last: tuple[int, float, float] | None = None
    for node, start_s, end_s in sorted(spans):
        if last is not None and last[0] == node and start_s <= last[2]:
            last = (node, last[1], max(last[2], end_s))
            continue
        yield from _ends(last)
        last = (node, start_s, end_s)
    yield from _ends(last)


def _ends(span: tuple[int, float, float] | None) -> Iterable[tuple[int, float]]:
    """The start and the end of a span, if it has one."""
    if span is not None:
        node, *instants_s = span
        yield from ((node, when) for when in instants_s if when < np.inf)


_TOLD = 10
"""Faults of one file that are told one by one."""


def _date(value: Any) -> Any:
    """*value* unless it is a number, which is no date."""
    if isinstance(value, int | float):
        raise PydanticCustomError("date", "no date", {"remedy": "write a date such as 2024-03-01T00:00"})
    return value


class Calendar(Outage):
    """Nodes are down in the spans [start, end) that a CSV file lists; spans of a node that overlap are one.

    The file's first line names its columns, in any order: ``node``, a user's number or a name such as ``tower:0`` or
    ``tower:0-server``; ``start_s`` and ``end_s`` in seconds from time 0, or ``start`` and ``end`` as seconds,
    quantities (``90 min``) or, with an ``origin``, ISO 8601 dates (``2024-03-01T08:00``).  An empty end is never.  What
    lies before time 0 is past.  Other columns, such as reasons, are left alone.

    Example::

        kind: calendar
        file: scenarios/files/outages.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV file; a relative path starts at the current directory."""
    origin: Annotated[datetime, BeforeValidator(_date)] | None = None
    """The date of time 0, in ISO 8601, with a time zone if the dates in the file have one."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is wrong with the file, line by line; users that there are not."""
        rows, faults = read(self.file, self.origin)
        faults += [
            row.fault("no such user", row.node, f"users are numbered 0 to {facts.users - 1}")
            for row in rows
            if row.node.isdecimal() and int(row.node) >= facts.users
        ]
        yield from _shortened(faults)

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """The spans.

        Raises:
            ScenarioError: what is wrong with the file; nodes that there are not.
        """
        rows, faults = read(self.file, self.origin)
        spans: list[tuple[int, float, float]] = []
        for row in rows:
            node = _number(row, sites)
            if node is None:
                faults.append(row.fault("no such node", row.node, suggest_node(row.node, sites)))
            else:
                spans.append((node, row.start_s, row.end_s))
        if faults:
            raise ScenarioError(_shortened(faults))
        return DownIntervals(spans, sites.nodes)

    def laws(self) -> tuple[Law, ...]:
        """There are none."""
        return (Law.none("all is written down: nothing is drawn"),)


def _number(row: Row, sites: Layout) -> int | None:
    """The number of the node that a row names; ``None`` if there is no such node."""
    if row.node.isdecimal():
        return int(row.node) if int(row.node) < sites.users else None
    return node_number(row.node, sites)


def _shortened(faults: list[Fault]) -> list[Fault]:
    """The first faults of many, and how many more there are."""
    more = len(faults) - _TOLD
    rest = [Fault("file", f"and {more} more lines like these", None, "mend these first")] if more > 0 else []
    return faults[:_TOLD] + rest
