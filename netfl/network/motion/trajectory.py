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
from netfl.network._tracks import (
    MAX_SPEED_M_S,
    Absence,
    Points,
    SpeedLimit,
    Stretches,
    Tracks,
    absence_warnings,
    find_trips,
    list_users,
    refuse_fast,
    refuse_other_start,
    stays_of,
)
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
_CRAWLING_M_S = 0.05
"""A speed that none of several users exceeds only if times are in milliseconds, or positions in km or degrees."""
_MIN_SAMPLED = 3
"""Stretches of one time step for each longer one, from which the lines of a user look like time steps."""


class Trajectory(Motion):
    """Motion along the points of a CSV or Parquet file with the columns ``user``, ``time_s``, ``x_m`` and ``y_m``.

    Between two points a user moves straight at one speed; before the first and after the last it does not move, as do
    users without a line.  Lines may come in any order.  At time 0 a user must be at its position in the topology
    (within a centimetre): ``placement: {kind: table, file: …}`` places users by the first line of each in the same
    file; or, with ``relative``, positions are relative to that of the topology.

    With ``absent`` the times of the file are time steps, each of which has all users that are there, as in SUMO's
    files (``sumo_fcd``): a user that has no line at a time is absent from then on until its next line, to which it
    does not move.

    Example::

        kind: trajectory
        file: walks.csv
        relative: true
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""
    relative: bool = False
    """Whether positions are relative to the user's position at time 0."""
    absent: Absence | None = None
    """State of a user that has no line at a time of the file: ``away``, as in an outage, or ``rest``, up and at rest;
    ``null``: lines are points of a way, which need not be those of other users, and nobody is absent."""
    max_speed: SpeedLimit = MAX_SPEED_M_S
    """Speed above which motion between two points is an error of the file."""

    @property
    def has_absences(self) -> bool:
        return self.absent == "away"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self._checked_points(facts.users)
        except ScenarioError as error:
            yield from error.faults

    def open(self, layout: Layout, streams: Streams) -> Trajectories:
        points = self._checked_points(layout.users)
        stays = None
        if self.has_absences:
            stays = stays_of(points, np.unique(points.times_s), layout.users)
        paths = Tracks(points, layout.user_xy_m, relative=self.relative, stays=stays)
        remedy = "start at 0, 0, set relative: true, or use the same file in placement: {kind: table}"
        refuse_other_start(paths, layout, self.file, remedy)
        return paths

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def warnings(self, users: int, end_s: float) -> Iterator[str]:
        points = self._read(users)
        yield from _slow_warnings(points)
        if self.absent is None:
            yield from self._sample_warnings(points, users)
        if self.has_absences and self.has_times_within(end_s):
            stays = stays_of(points, np.unique(points.times_s), users)
            yield from absence_warnings(stays, users, end_s, _name_user)

    def has_times_within(self, end_s: float) -> bool:
        times_s = self._read(None).times_s
        return bool(((times_s >= 0.0) & (times_s <= end_s)).any())

    def _checked_points(self, users: int) -> Points:
        """Return the points of *users* users.

        Raises:
            ScenarioError: the file cannot be used, or a user is faster than ``max_speed``; keys are relative to the
                model.
        """
        points = self._read(users)
        refuse_fast(points, self.max_speed, self.file, _name_user)
        return points

    def _read(self, users: int | None) -> Points:
        with prefix_faults("file"):
            table = read_table(self.file)
            table.check_headings(SCHEMA)
            point_users = table.users(SCHEMA["user"], users)
            times_s = table.numbers(SCHEMA["time_s"])
            xy_m = np.column_stack([table.numbers(SCHEMA["x_m"]), table.numbers(SCHEMA["y_m"])])
            table.refuse_repeated(("user", "time_s"), (point_users, times_s))
            table.check()
        stretches = Stretches.of(point_users, times_s, xy_m)
        steps_s = np.unique(times_s)
        if self.absent is None:  # no user need have a point at the times of others
            steps_s = steps_s[:0]
        begins_trip = find_trips(stretches, times_s, steps_s)
        return Points(point_users, times_s, xy_m, begins_trip, np.zeros(len(table), bool), table.lines)

    def _sample_warnings(self, points: Points, users: int) -> Iterator[str]:
        """Yield a warning about users that have lines at most times of the file in turn, but lack some between."""
        stretches = Stretches.of(points.users, points.times_s, points.xy_m)
        step = np.searchsorted(np.unique(points.times_s), points.times_s)
        span = step[stretches.ends] - step[stretches.starts]  # in time steps
        mover = points.users[stretches.ends]
        short = np.bincount(mover[span == 1], minlength=users)
        long = np.bincount(mover[span > 1], minlength=users)
        lacking = np.flatnonzero((long > 0) & (short >= _MIN_SAMPLED * long))
        if not lacking.size:
            return
        yield (
            f"{len(lacking)} of {users} users lack lines at times of the file between others, and move straight there: "
            f"{list_users(lacking, _name_user)}; if the times are time steps at which they are absent, set absent: away"
            " or absent: rest"
        )


def _slow_warnings(points: Points) -> Iterator[str]:
    """Yield a warning about a file in which users move, but none at the speed of anything that sends."""
    stretches = Stretches.of(points.users, points.times_s, points.xy_m)
    fastest_m_s = float(stretches.speed_m_s.max(initial=0.0))
    if 0.0 < fastest_m_s < _CRAWLING_M_S:
        yield (
            f"no user moves faster than {fastest_m_s:.2g} m/s, which is unusual; check that positions are in metres, "
            "not in km or degrees, and times in seconds, not in milliseconds"
        )


def _name_user(user: int) -> str:
    return f"user {user}"
