"""Known outages: intervals in which nodes are down, read from a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.cells import Origin, TimeScale, parse_users
from netfl.files.schema import NAME, TIME, FileColumn, FileSchema
from netfl.files.tables import UserTable, read_table
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._schedule import (
    AvailabilitySchedule,
    ScheduledAvailability,
    UserSchedule,
    merge_intervals,
)
from netfl.network.outage._targets import node_number, suggest_node
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts

SCHEMA = FileSchema(
    "outage `calendar`",
    FileColumn("node", NAME),
    FileColumn("start", TIME, other_names=("start_s",)),
    FileColumn("end", TIME, other_names=("end_s",), empty="the outage never ends"),
)


class Calendar(Outage):
    """Nodes are down in the intervals [start, end) of a CSV or Parquet file; overlapping ones of a node are merged.

    The file's first line names its columns, in any order: ``node``, a user's number or a name such as ``tower:0`` or
    ``tower:0-server``; ``start`` and ``end`` (or ``start_s`` and ``end_s``), from time 0, in seconds, as quantities
    (``90 min``) or, with an ``origin``, as ISO 8601 dates (``2024-03-01T08:00`` or ``20240301``).  An empty end is
    never.  Times before 0 are in the past.  Other columns, such as reasons, are ignored.

    Example::

        kind: calendar
        file: scenarios/files/outages.csv
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""
    origin: Origin | None = None
    """The date of time 0, in ISO 8601, with a time zone if the dates in the file have one."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            table, nodes, _ = self._read()
            is_user = parse_users(table.columns["node"])
            remedy = f"users are numbered 0 to {facts.users - 1}"
            table.refuse(is_user >= facts.users, lambda row: Fault("", "no such user", nodes[row], remedy))
            with prefix_faults("file"):
                table.check()
        except ScenarioError as error:
            yield from error.faults

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        table, names, spans_s = self._read()
        nodes = np.array([_node_number(name, layout) for name in names], np.int64)

        def describe(row: int) -> Fault:
            name = names[row]
            remedy = suggest_node(name, layout)
            if name.startswith("user") or not name[:1].isalpha():  # meant as a user, written as 0.0 or user:0
                remedy = f"users are numbered 0 to {layout.users - 1}"
            return Fault("", "no such node", name, remedy)

        table.refuse(nodes < 0, describe)
        with prefix_faults("file"):
            table.check()
        starts_s, ends_s = spans_s.T.tolist()
        return schedule_intervals(zip(nodes.tolist(), starts_s, ends_s, strict=True), layout.nodes)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: nothing is drawn"),)

    def has_times_within(self, end_s: float) -> bool:
        _, _, spans_s = self._read()
        starts_s, ends_s = spans_s.T
        return bool(((starts_s <= end_s) & (ends_s > 0.0)).any())

    def _read(self) -> tuple[UserTable, list[str], Floats]:
        """Return the file, the name of each row's node, and its interval, ``[rows, 2]``; errors are in the table."""
        with prefix_faults("file"):
            table = read_table(self.file)
            table.check_headings(SCHEMA)
            names = [str(name).strip() for name in table.names(SCHEMA["node"])]
            spans_s = table.intervals(SCHEMA["start"], SCHEMA["end"], TimeScale(self.origin))
        return table, names, spans_s


def _node_number(name: str, layout: Layout) -> int:
    """Return the number of a user or of another node; -1 if there is none."""
    user = int(parse_users(pa.array([name]))[0])
    if 0 <= user < layout.users:
        return user
    number = node_number(name, layout)
    if number is None:
        return -1
    return number


def schedule_intervals(intervals: Iterable[tuple[int, float, float]], nodes: int) -> ScheduledAvailability:
    """Return the states of *nodes* that are down in given intervals.

    Args:
        intervals: (node, start, end) of each, in s, half-open; an end may be infinity.  Intervals of a node that touch
            or overlap are merged.
        nodes: number of nodes.
    """
    rows = []
    for node, times_s in merge_intervals(intervals).items():
        changes_s = times_s[times_s < np.inf]  # the end of an outage that never ends is no change
        rows.append(UserSchedule(node, start=True, times=changes_s))
    return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, nodes), np.inf)
