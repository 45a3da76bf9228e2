"""Users that move along the points of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.tables import read_table
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion import Motion
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts

_NEAR_M = 0.01
"""Distance between the first point and the placement that counts as rounding of the file."""


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
        paths = _Tracks(self._read(layout.users), layout.user_xy_m, relative=self.relative)
        start_m = paths.xy_m(np.arange(layout.users), 0.0)
        is_away = np.hypot(*(start_m - layout.user_xy_m).T) > _NEAR_M
        if is_away.any():
            user = int(np.argmax(is_away))
            x, y = start_m[user]
            placed_x, placed_y = layout.user_xy_m[user]
            problem = f"user {user} is at ({x:g}, {y:g}) m at time 0, but is placed at ({placed_x:g}, {placed_y:g}) m"
            remedy = "start at 0, 0, set relative: true, or use the same file in placement: {kind: table}"
            raise ScenarioError([Fault("file", problem, str(self.file), remedy)])
        return paths

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def has_times_within(self, end_s: float) -> bool:
        times_s = self._read(None).times_s
        return bool(((times_s >= 0.0) & (times_s <= end_s)).any())

    def _read(self, users: int | None) -> _Points:
        with prefix_faults("file"):
            table = read_table(self.file)
            table.require("user", "time_s", "x_m", "y_m")
            points = _Points(
                table.users(count=users),
                table.numbers("time_s"),
                np.column_stack([table.numbers("x_m"), table.numbers("y_m")]),
            )
            table.refuse_repeated(("user", "time_s"), (points.users, points.times_s))
            table.check()
        return points


@dataclass(frozen=True, slots=True)
class _Points:
    """The rows of a file: user, time and position of each."""

    users: Ints
    times_s: Floats
    xy_m: Floats


class _Tracks(Trajectories):
    """Points of all users in one table, sorted by user and time; a user without a line has one point."""

    def __init__(self, points: _Points, placed_m: Floats, *, relative: bool) -> None:
        points_m = points.xy_m
        if relative:
            points_m = points_m + placed_m[points.users]
        still_users = np.setdiff1d(np.arange(len(placed_m)), points.users)
        users = np.concatenate([points.users, still_users])
        times_s = np.concatenate([points.times_s, np.zeros(len(still_users))])
        order = np.lexsort((times_s, users))
        self._times_s = times_s[order]
        self._points_m = np.concatenate([points_m, placed_m[still_users]])[order]
        self._first = np.searchsorted(users[order], np.arange(len(placed_m) + 1))  # place of each user's first point

    def speeds_m_s(self, users: Ints) -> tuple[Floats, Floats]:
        """Return the speeds of the slowest and the fastest stretch in which each user moves."""
        count = len(self._first) - 1
        owner = np.repeat(np.arange(count), np.diff(self._first))
        is_within = owner[1:] == owner[:-1]  # two points of one user
        way_m = np.hypot(*np.diff(self._points_m, axis=0).T)
        span_s = np.diff(self._times_s)
        is_moving = is_within & (way_m > 0.0)
        speed_m_s = way_m[is_moving] / span_s[is_moving]
        low_m_s = np.full(count, np.inf)
        high_m_s = np.zeros(count)
        np.minimum.at(low_m_s, owner[1:][is_moving], speed_m_s)
        np.maximum.at(high_m_s, owner[1:][is_moving], speed_m_s)
        return np.minimum(low_m_s, high_m_s)[users], high_m_s[users]

    def xy_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Interpolate between the last point that is not after *time_s* and the next, found by bisection."""
        users = np.asarray(users)
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        low = self._first[users]
        last = self._first[users + 1] - 1
        high = last
        while (low < high).any():  # the last point that is not after the time lies between both
            middle = (low + high + 1) // 2
            is_passed = self._times_s[middle] <= time
            low = np.where(is_passed, middle, low)
            high = np.where(is_passed, high, middle - 1)
        before = low
        after = np.minimum(before + 1, last)
        span_s = self._times_s[after] - self._times_s[before]
        elapsed_s = time - self._times_s[before]
        share = np.divide(elapsed_s, span_s, out=np.zeros(len(users)), where=span_s > 0.0)
        share = np.clip(share, 0.0, 1.0)  # at rest before the first point
        return np.asarray(self._points_m[before] + share[:, None] * (self._points_m[after] - self._points_m[before]))
