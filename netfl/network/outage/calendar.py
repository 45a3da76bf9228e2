"""Outages that are known: a list of who is down from when to when, read from a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError
from netfl.network.outage import Outage, Timeline
from netfl.network.outage._nodes import nearest, number
from netfl.network.outage._rows import Row, read
from netfl.network.outage._spans import Spans
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.types import Facts, Law

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

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """What is wrong with the file, line by line; users that there are not."""
        rows, faults = read(self.file, self.origin)
        faults += [
            row.fault("no such user", row.node, f"users are numbered 0 to {facts.users - 1}")
            for row in rows
            if row.node.isdecimal() and int(row.node) >= facts.users
        ]
        yield from _shortened(faults)

    def open(self, sites: Sites, streams: Streams) -> Timeline:
        """The spans.

        Raises:
            ScenarioError: what is wrong with the file; nodes that there are not.
        """
        rows, faults = read(self.file, self.origin)
        spans: list[tuple[int, float, float]] = []
        for row in rows:
            node = _number(row, sites)
            if node is None:
                faults.append(row.fault("no such node", row.node, nearest(row.node, sites)))
            else:
                spans.append((node, row.start_s, row.end_s))
        if faults:
            raise ScenarioError(_shortened(faults))
        return Spans(spans, sites.nodes)

    def laws(self) -> tuple[Law, ...]:
        """There are none."""
        return (Law.none("all is written down: nothing is drawn"),)


def _number(row: Row, sites: Sites) -> int | None:
    """The number of the node that a row names; ``None`` if there is no such node."""
    if row.node.isdecimal():
        return int(row.node) if int(row.node) < sites.users else None
    return number(row.node, sites)


def _shortened(faults: list[Fault]) -> list[Fault]:
    """The first faults of many, and how many more there are."""
    more = len(faults) - _TOLD
    rest = [Fault("file", f"and {more} more lines like these", None, "mend these first")] if more > 0 else []
    return faults[:_TOLD] + rest
