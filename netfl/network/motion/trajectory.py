"""Users that move along the points of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.schema import POSITION, TIME, USER, FileColumn, FileSchema
from netfl.files.tables import read_table
from netfl.network._tracks import Points, Tracks, refuse_other_start
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion import Motion
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts

SCHEMA = FileSchema(
    "motion `trajectory`",
    FileColumn("user", USER),
    FileColumn("time_s", TIME),
    FileColumn("x_m", POSITION),
    FileColumn("y_m", POSITION),
)


class Trajectory(Motion):
    """Motion along the points of a CSV or Parquet file with the columns ``user``, ``time_s``, ``x_m`` and ``y_m``.

    Between two points a user moves straight at one speed; before the first and after the last it does not move, as do
    users without a line.  Lines may come in any order.  At time 0 a user must be at its position in the topology
    (within a centimetre): ``placement: {kind: table, file: …}`` places users by the first line of each in the same
    file; or, with ``relative``, positions are relative to that of the topology.

    Example::

        kind: trajectory
        file: walks.csv
        relative: true
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""
    relative: bool = False
    """Whether positions are relative to the user's position at time 0."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self._read(facts.users)
        except ScenarioError as error:
            yield from error.faults

    def open(self, layout: Layout, streams: Streams) -> Trajectories:
        paths = Tracks(self._read(layout.users), layout.user_xy_m, relative=self.relative)
        remedy = "start at 0, 0, set relative: true, or use the same file in placement: {kind: table}"
        refuse_other_start(paths, layout, self.file, remedy)
        return paths

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def has_times_within(self, end_s: float) -> bool:
        times_s = self._read(None).times_s
        return bool(((times_s >= 0.0) & (times_s <= end_s)).any())

    def _read(self, users: int | None) -> Points:
        with prefix_faults("file"):
            table = read_table(self.file)
            table.check_headings(SCHEMA)
            points = Points(
                table.users(SCHEMA["user"], users),
                table.numbers(SCHEMA["time_s"]),
                np.column_stack([table.numbers(SCHEMA["x_m"]), table.numbers(SCHEMA["y_m"])]),
            )
            table.refuse_repeated(("user", "time_s"), (points.users, points.times_s))
            table.check()
        return points
