"""Motion along points that a file gives, and absence from a file with time steps.

A file with **time steps** states at each of its steps which users are there.  A user that has no point at a step is
absent from this step on, until its next point.  Its points before and after are two trips, and it does not move from
one to the other.  A step that is merely longer than others is no absence, as no step lies within it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network._series import last_not_after
from netfl.network.layout import Layout, Stays, Trajectories
from netfl.types import Bools, Floats, Ints
from netfl.units import Speed

_NEAR_M = 0.01
"""Distance between the first point and the placement that counts as rounding of the file."""
_MAX_LISTED = 3
"""Users that a warning lists."""

Absence = Literal["away", "rest"]
"""Treatment of a user while it is not in a file with time steps: ``away``, down as in an outage, or ``rest``, up where
it was last seen and, before its first point, where it first appears."""
SpeedLimit = Annotated[Speed, Field(gt=0)]
"""A speed above which the points of a file are taken for an error."""
MAX_SPEED_M_S = 100.0
"""Speed that no vehicle on roads or rails exceeds, apart from records: 360 km/h."""
MAX_DEGREES = np.array([180.0, 90.0])
"""Largest longitude and latitude, which x and y are in a file in degrees."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a file, in any order.

    Args:
        users: user of each, ``[n]``.
        times_s: time of each in the run, ``[n]``.
        xy_m: position of each, ``[n, 2]``.
        begins_trip: whether the user was absent before, ``[n]``.
        is_jump: whether the user gets there from its last point without moving, ``[n]``.
        lines: line of each in the file, ``[n]``.
    """

    users: Ints
    times_s: Floats
    xy_m: Floats
    begins_trip: Bools
    is_jump: Bools
    lines: Ints

    @property
    def is_reached(self) -> Bools:
        """Points to which their user moves from its last one, ``[n]``."""
        return ~(self.begins_trip | self.is_jump)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """The stretches between two points of one user that follow each other.

    Args:
        starts: index of the first point of each, ``[n]``.
        ends: index of the second point of each, ``[n]``.
        length_m: distance of both, ``[n]``.
        span_s: time between both, ``[n]``.
    """

    starts: Ints
    ends: Ints
    length_m: Floats
    span_s: Floats

    @classmethod
    def of(cls, users: Ints, times_s: Floats, xy_m: Floats) -> Stretches:
        """Return the stretches of points; the arguments are as of `Points`."""
        order = np.lexsort((times_s, users))
        follows = users[order[1:]] == users[order[:-1]]
        starts = order[:-1][follows]
        ends = order[1:][follows]
        length_m = np.hypot(*(xy_m[ends] - xy_m[starts]).T)
        return cls(starts, ends, length_m, times_s[ends] - times_s[starts])

    def where(self, is_chosen: Bools) -> Stretches:
        """Return the stretches that *is_chosen* marks, ``[n]``."""
        return Stretches(self.starts[is_chosen], self.ends[is_chosen], self.length_m[is_chosen], self.span_s[is_chosen])

    @property
    def speed_m_s(self) -> Floats:
        """Speed of straight motion, ``[n]``."""
        return np.asarray(self.length_m / self.span_s)


def find_trips(stretches: Stretches, times_s: Floats, steps_s: Floats) -> Bools:
    """Return which points begin a trip: the first of each user, and those after an absence, ``[points]``.

    Args:
        stretches: the stretches of the points.
        times_s: the times of the points.
        steps_s: the time steps of the file, ascending, each once; the times of the points are among them.
    """
    begins_trip = np.ones(len(times_s), bool)
    step = np.searchsorted(steps_s, times_s)
    begins_trip[stretches.ends] = step[stretches.ends] - step[stretches.starts] > 1
    return begins_trip


def stays_of(points: Points, steps_s: Floats, users: int) -> Stays:
    """Return the stays of *users* users: from the first point of a trip to the first time step without the user.

    The last time step of the file lasts as long as the one before it, or for ever if it is the only one.

    Args:
        points: the points.
        steps_s: the time steps of the file, ascending, as times in the run.
        users: number of users; one without a point is always away.
    """
    last_s = steps_s[-1:] + np.diff(steps_s)[-1:] if len(steps_s) > 1 else np.array([np.inf])
    next_steps_s = np.append(steps_s[1:], last_s)
    order = np.lexsort((points.times_s, points.users))
    trip_starts = np.flatnonzero(points.begins_trip[order])
    trip_ends = np.append(trip_starts[1:], len(order)) - 1
    last_step = np.searchsorted(steps_s, points.times_s[order][trip_ends])
    absent_users = np.setdiff1d(np.arange(users), points.users)
    never_s = np.full(len(absent_users), np.inf)
    return Stays(
        users=np.concatenate([points.users[order][trip_starts], absent_users]),
        starts_s=np.concatenate([points.times_s[order][trip_starts], never_s]),
        ends_s=np.concatenate([next_steps_s[last_step], never_s]),
    )


class Tracks(Trajectories):
    """Motion along points: straight at one speed between two, at rest before the first and after the last.

    Where a user was absent, or jumps, it rests at its last point until the time of the next.

    Args:
        points: the points of all users; a user without a point rests at its position at time 0.
        placed_m: the positions of all users at time 0, ``[users, 2]``.
        relative: whether points are relative to these positions.
        stays: the times in which users are in the network; ``None`` if they always are.
    """

    def __init__(self, points: Points, placed_m: Floats, *, relative: bool = False, stays: Stays | None = None) -> None:
        points_m = points.xy_m
        if relative:
            points_m = points_m + placed_m[points.users]
        still_users = np.setdiff1d(np.arange(len(placed_m)), points.users)
        users = np.concatenate([points.users, still_users])
        times_s = np.concatenate([points.times_s, np.zeros(len(still_users))])
        is_reached = np.concatenate([points.is_reached, np.zeros(len(still_users), bool)])
        order = np.lexsort((times_s, users))
        self._stays = stays
        self._is_reached = is_reached[order]  # by motion from the point before; else by a jump at its time
        self._owner = users[order]  # user of each point
        self._times_s = times_s[order]
        self._points_m = np.concatenate([points_m, placed_m[still_users]])[order]
        self._first = np.searchsorted(self._owner, np.arange(len(placed_m) + 1))  # place of each user's first point

    @property
    def stays(self) -> Stays | None:
        return self._stays

    def speeds_m_s(self, users: Ints) -> tuple[Floats, Floats]:
        """Return the speeds of the slowest and the fastest stretch in which each user moves."""
        # stretches between two points of one user, on which it moves
        length_m = np.hypot(*np.diff(self._points_m, axis=0).T)
        is_moving = (self._owner[1:] == self._owner[:-1]) & self._is_reached[1:] & (length_m > 0.0)
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
        share = np.divide(elapsed_s, span_s, out=np.zeros(len(users)), where=self._is_reached[after] & (span_s > 0.0))
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
        if span_s > 0.0 and self._is_reached.item(after):
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


def refuse_fast(points: Points, limit_m_s: float, file: Path, name_user: Callable[[int], str]) -> None:
    """Refuse motion between two points that is faster than *limit_m_s*.

    Args:
        points: the points of a file.
        limit_m_s: the speed limit.
        file: the file.
        name_user: returns the name of a user in a message.

    Raises:
        ScenarioError: a user is faster; the key is ``file``.
    """
    stretches = Stretches.of(points.users, points.times_s, points.xy_m)
    is_fast = points.is_reached[stretches.ends] & (stretches.speed_m_s > limit_m_s)
    if not is_fast.any():
        return
    index = int(np.argmax(is_fast))
    end = int(stretches.ends[index])
    more = int(is_fast.sum()) - 1
    problem = (
        f"{file.name}:{points.lines[end]}: {name_user(int(points.users[end]))} moves "
        f"{stretches.length_m[index]:.6g} m in {stretches.span_s[index]:.6g} s, at {stretches.speed_m_s[index]:.6g} "
        f"m/s, faster than max_speed, {limit_m_s:.6g} m/s"
    )
    if more:
        problem += f"; and {more} more stretches"
    fastest_m_s = float(stretches.speed_m_s[is_fast].max())
    remedy = (
        "check the units of positions and times, and whether lines are missing; if users are so fast, set max_speed: "
        f"{math.ceil(fastest_m_s)} m/s"
    )
    raise ScenarioError([Fault("file", problem, None, remedy)])


def absence_warnings(stays: Stays, users: int, end_s: float, name_user: Callable[[int], str]) -> Iterator[str]:
    """Yield warnings about users that are away for all of a run, or from some time on.

    Args:
        stays: the stays of the users.
        users: number of users.
        end_s: end of the run; infinity if that is open.
        name_user: returns the name of a user in a message.
    """
    is_within = (stays.starts_s < end_s) & (stays.ends_s > 0.0)
    never = np.setdiff1d(np.arange(users), stays.users[is_within])
    if never.size:
        yield (
            f"{len(never)} of {users} users are away for the whole run, as no time step of it has them: "
            f"{list_users(never, name_user)}; choose others, another begin, or set absent: rest"
        )
    last_s = float(stays.ends_s[np.isfinite(stays.ends_s)].max(initial=0.0))
    if 0.0 < last_s < end_s and not np.isposinf(stays.ends_s[is_within]).any():
        yield (
            f"all users are away from {last_s:.6g} s on, where its file ends, and the run can last longer; give a "
            "longer file or fewer rounds, or set absent: rest"
        )


def gap_warnings(points: Points, users: int, end_s: float, name_user: Callable[[int], str]) -> Iterator[str]:
    """Yield a warning about users that a file leaves out at time steps between two of their points, in a run."""
    stretches = Stretches.of(points.users, points.times_s, points.xy_m)
    is_within = (points.times_s[stretches.ends] > 0.0) & (points.times_s[stretches.starts] < end_s)
    is_gap = points.begins_trip[stretches.ends] & is_within
    if not is_gap.any():
        return
    missing = np.unique(points.users[stretches.ends[is_gap]])
    index = int(np.argmax(is_gap))
    start, end = int(stretches.starts[index]), int(stretches.ends[index])
    yield (
        f"{len(missing)} of {users} users lack time steps between others, in which they are away as in an outage, and "
        f"then begin another trip: {name_user(int(points.users[end]))} has no point between {points.times_s[start]:.6g}"
        f" s and {points.times_s[end]:.6g} s, and is then {stretches.length_m[index]:.6g} m away; set absent: rest to "
        "let users stand there"
    )


def list_users(users: Ints, name_user: Callable[[int], str]) -> str:
    """Return the names of the first *users*, and the number of the others."""
    text = ", ".join(name_user(user) for user in users[:_MAX_LISTED].tolist())
    if len(users) > _MAX_LISTED:
        text += f" and {len(users) - _MAX_LISTED} more"
    return text
