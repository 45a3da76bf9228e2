"""Motion along points that a file gives."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from netfl.errors import Fault, ScenarioError
from netfl.network._series import last_not_after
from netfl.network.layout import Layout, Trajectories
from netfl.types import Floats, Ints

_NEAR_M = 0.01
"""Distance between the first point and the placement that counts as rounding of the file."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a file: user, time and position of each, in any order, ``[n]``, ``[n]`` and ``[n, 2]``."""

    users: Ints
    times_s: Floats
    xy_m: Floats


class Tracks(Trajectories):
    """Motion along points: straight at one speed between two, at rest before the first and after the last.

    Args:
        points: the points of all users; a user without a point rests at its position at time 0.
        placed_m: the positions of all users at time 0, ``[users, 2]``.
        relative: whether points are relative to these positions.
    """

    def __init__(self, points: Points, placed_m: Floats, *, relative: bool) -> None:
        points_m = points.xy_m
        if relative:
            points_m = points_m + placed_m[points.users]
        still_users = np.setdiff1d(np.arange(len(placed_m)), points.users)
        users = np.concatenate([points.users, still_users])
        times_s = np.concatenate([points.times_s, np.zeros(len(still_users))])
        order = np.lexsort((times_s, users))
        self._owner = users[order]  # user of each point
        self._times_s = times_s[order]
        self._points_m = np.concatenate([points_m, placed_m[still_users]])[order]
        self._first = np.searchsorted(self._owner, np.arange(len(placed_m) + 1))  # place of each user's first point

    def speeds_m_s(self, users: Ints) -> tuple[Floats, Floats]:
        """Return the speeds of the slowest and the fastest stretch in which each user moves."""
        # stretches between two points of one user, on which it moves
        length_m = np.hypot(*np.diff(self._points_m, axis=0).T)
        is_moving = (self._owner[1:] == self._owner[:-1]) & (length_m > 0.0)
        mover = self._owner[1:][is_moving]
        speed_m_s = length_m[is_moving] / np.diff(self._times_s)[is_moving]

        count = len(self._first) - 1
        low_m_s = np.full(count, np.inf)
        high_m_s = np.zeros(count)
        np.minimum.at(low_m_s, mover, speed_m_s)
        np.maximum.at(high_m_s, mover, speed_m_s)
        return np.minimum(low_m_s, high_m_s)[users], high_m_s[users]

    def waypoints(self, users: Ints, end_s: float) -> tuple[Ints, Floats, Floats]:
        """Return the points of each user within the time, and its positions at time 0 and at *end_s*."""
        is_within = (self._times_s > 0.0) & (self._times_s < end_s)
        is_asked = np.isin(self._owner, users) & is_within
        all_users = np.concatenate([users, self._owner[is_asked], users])
        times_s = np.concatenate([np.zeros(len(users)), self._times_s[is_asked], np.full(len(users), end_s)])
        return all_users, times_s, self.xy_m(all_users, times_s)

    def xy_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Interpolate between the last point that is not after *time_s* and the next, found by bisection."""
        users = np.asarray(users)
        if len(users) == 1 and isinstance(time_s, float):
            return self._of_one(int(users[0]), time_s)
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        before = last_not_after(self._times_s, self._first, users, time)
        after = np.minimum(before + 1, self._first[users + 1] - 1)
        span_s = self._times_s[after] - self._times_s[before]
        elapsed_s = time - self._times_s[before]
        share = np.divide(elapsed_s, span_s, out=np.zeros(len(users)), where=span_s > 0.0)
        share = np.clip(share, 0.0, 1.0)  # at rest before the first point
        before_m = self._points_m[before]
        return np.asarray(before_m + share[:, None] * (self._points_m[after] - before_m))

    def _of_one(self, user: int, time_s: float) -> Floats:
        """Return the position of one user, ``[1, 2]``, faster than for an array of users."""
        first = self._first.item(user)
        last = self._first.item(user + 1) - 1
        before = max(bisect_right(self._times_s, time_s, first, last + 1) - 1, first)
        after = min(before + 1, last)
        before_s = self._times_s.item(before)
        span_s = self._times_s.item(after) - before_s
        share = 0.0
        if span_s > 0.0:
            share = min(max((time_s - before_s) / span_s, 0.0), 1.0)
        before_m = self._points_m[before]
        return np.asarray([before_m + share * (self._points_m[after] - before_m)])


def refuse_other_start(paths: Trajectories, layout: Layout, file: Path, remedy: str) -> None:
    """Refuse paths that do not start at the users' positions in the topology.

    Raises:
        ScenarioError: a user's do not; the key is ``file``.
    """
    start_m = paths.xy_m(np.arange(layout.users), 0.0)
    is_away = np.hypot(*(start_m - layout.user_xy_m).T) > _NEAR_M
    if not is_away.any():
        return
    user = int(np.argmax(is_away))
    x, y = start_m[user]
    placed_x, placed_y = layout.user_xy_m[user]
    problem = f"user {user} is at ({x:g}, {y:g}) m at time 0, but is placed at ({placed_x:g}, {placed_y:g}) m"
    raise ScenarioError([Fault("file", problem, str(file), remedy)])
