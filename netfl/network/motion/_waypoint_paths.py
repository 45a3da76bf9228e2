"""Trajectories of the random waypoint model, computed leg by leg and in any order of time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import Trajectories
from netfl.network.motion._area import Area, Floats
from netfl.streams import Streams

_STRIDE = 64
"""Legs between two instants that are kept."""
_UNSET = -np.inf


@dataclass(frozen=True, slots=True)
class WaypointModel:
    """Parameters of the random waypoint model.

    Args:
        area: the area, as if its centre were the origin.
        centre_m: its centre [x, y].
        speed_m_s: [min, max] of a leg's speed.
        pause_s: [min, max] of the time between two legs.
        is_stationary: users begin in the stationary state, given their positions; else each begins a leg.
    """

    area: Area
    centre_m: tuple[float, float]
    speed_m_s: tuple[float, float]
    pause_s: tuple[float, float]
    is_stationary: bool

    @property
    def mean_inverse_speed(self) -> float:
        """E[1/V] in s/m."""
        slow, fast = self.speed_m_s
        return 1.0 / slow if fast == slow else math.log(fast / slow) / (fast - slow)

    @property
    def pause_share(self) -> float:
        """Share of time spent pausing, E[P] / (E[P] + E[L] E[1/V])."""
        pause_s = sum(self.pause_s) / 2.0
        return pause_s / (pause_s + self.area.mean_leg_m * self.mean_inverse_speed)


@dataclass(frozen=True, slots=True)
class WaypointLegs:
    """One leg of each of some users: a straight line at one speed, and a pause at its end.

    Args:
        origin_m: begin of the leg, ``[n, 2]``.
        target_m: end of the leg, ``[n, 2]``.
        travel_s: duration of the motion, ``[n]``.
        pause_s: duration of the pause at the end, ``[n]``.
    """

    origin_m: Floats
    target_m: Floats
    travel_s: Floats
    pause_s: Floats


class WaypointPaths(Trajectories):
    """Trajectories made of legs; leg k of user u is drawn by the key (u, k).

    The current leg of each user is kept, and the instant at which every 64th leg begins, from which an earlier time is
    found again.  Instants are sums in the order of the legs, so that answers do not depend on the order of the calls.

    Args:
        model: the parameters.
        xy_m: positions at time 0, ``[users, 2]``.
        streams: random streams of the motion.
    """

    def __init__(self, model: WaypointModel, xy_m: Floats, streams: Streams) -> None:
        users = len(xy_m)
        self._model, self._start_m = model, xy_m
        self._waypoint, self._speed, self._pause = map(streams.field, ("waypoint", "speed", "pause"))
        self._pausing: NDArray[np.bool_] | None = None
        self._first_target_m = xy_m
        if model.is_stationary:
            self._pausing, target_m = _draw_stationary_start(model, xy_m - model.centre_m, streams)
            self._first_target_m = np.where(self._pausing[:, None], xy_m, target_m + model.centre_m)
        self._number = np.zeros(users, np.int64)
        self._begin_s, self._travel_s, self._end_s = np.zeros(users), np.zeros(users), np.full(users, _UNSET)
        self._origin_m, self._target_m = np.zeros((users, 2)), np.zeros((users, 2))
        self._marks_s = np.zeros((users, 1))  # in column j, the begin of leg j * _STRIDE; infinity if unknown

    def legs(self, users: NDArray[np.int64], number: NDArray[np.int64]) -> WaypointLegs:
        """Return the leg of each user with that number, from 0; leg 0 begins at time 0."""
        is_first = number == 0
        origin_m = np.where(is_first[:, None], self._start_m[users], self._targets(users, np.maximum(number - 1, 0)))
        target_m = self._targets(users, number)
        unit, rest = self._speed.uniform(users, number), self._pause.uniform(users, number)
        (slow, fast), (short, long) = self._model.speed_m_s, self._model.pause_s
        speed_m_s, pause_s = slow + unit * (fast - slow), short + rest * (long - short)
        if self._pausing is not None and is_first.any():
            # slow legs and long pauses are under way more often
            speed_m_s = np.where(is_first, slow * (fast / slow) ** unit, speed_m_s)
            rest_s = np.sqrt(short**2 + rest * (long**2 - short**2)) * self._pause.uniform(users, number, draw=1)
            pause_s = np.where(is_first & self._pausing[users], rest_s, pause_s)
        return WaypointLegs(origin_m, target_m, np.hypot(*(target_m - origin_m).T) / speed_m_s, pause_s)

    def _targets(self, users: NDArray[np.int64], number: NDArray[np.int64]) -> Floats:
        east, north = (self._waypoint.uniform(users, number, draw=draw) for draw in (0, 1))
        target_m = self._model.area.place(east, north) + self._model.centre_m
        if self._pausing is None:
            return target_m
        return np.where((number == 0)[:, None], self._first_target_m[users], target_m)

    def xy_m(self, users: NDArray[np.int64], time_s: ArrayLike) -> Floats:
        """Return the position of each user."""
        users = np.asarray(users)
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        is_outside = (time < self._begin_s[users]) | (time >= self._end_s[users])
        if not is_outside.any():
            return self._along(users, time)
        if len(np.unique(users)) == len(users):
            self._find(users[is_outside], time[is_outside])
            return self._along(users, time)
        positions = np.empty((len(users), 2))  # a user at several instants: one instant after another
        turn = _occurrences(users)
        for index in range(int(turn.max()) + 1):
            now = turn == index
            positions[now] = self.xy_m(users[now], time[now])
        return positions

    def _along(self, users: NDArray[np.int64], time_s: Floats) -> Floats:
        """Return positions on the current legs."""
        travel_s, origin_m = self._travel_s[users], self._origin_m[users]
        elapsed_s = np.minimum(time_s - self._begin_s[users], travel_s)
        share = np.divide(elapsed_s, travel_s, out=np.ones(len(users)), where=travel_s > 0.0)
        return origin_m + share[:, None] * (self._target_m[users] - origin_m)

    def _find(self, users: NDArray[np.int64], time_s: Floats) -> None:
        """Make the leg at *time_s* the current one."""
        mark = np.maximum((self._marks_s[users] <= time_s[:, None]).sum(axis=1) - 1, 0)
        is_unset = self._end_s[users] == _UNSET
        jump = is_unset | (time_s < self._begin_s[users]) | (mark * _STRIDE > self._number[users])
        self._take(users[jump], mark[jump] * _STRIDE, self._marks_s[users[jump], mark[jump]])
        todo = time_s >= self._end_s[users]
        while todo.any():
            users, time_s = users[todo], time_s[todo]
            self._take(users, self._number[users] + 1, self._end_s[users])
            todo = time_s >= self._end_s[users]

    def _take(self, users: NDArray[np.int64], number: NDArray[np.int64], begin_s: Floats) -> None:
        """Make the legs with these numbers, which begin at *begin_s*, the current ones."""
        legs = self.legs(users, number)
        self._number[users], self._begin_s[users], self._travel_s[users] = number, begin_s, legs.travel_s
        self._end_s[users] = begin_s + (legs.travel_s + legs.pause_s)
        self._origin_m[users], self._target_m[users] = legs.origin_m, legs.target_m
        is_marked = number % _STRIDE == 0
        if is_marked.any():
            column = number[is_marked] // _STRIDE
            missing = int(column.max()) + 1 - self._marks_s.shape[1]
            if missing > 0:
                self._marks_s = np.pad(self._marks_s, ((0, 0), (0, missing)), constant_values=np.inf)
            self._marks_s[users[is_marked], column] = begin_s[is_marked]


def _occurrences(users: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each entry, the number of earlier entries of the same user."""
    order = np.argsort(users, kind="stable")
    _, first, count = np.unique(users[order], return_index=True, return_counts=True)
    turn = np.empty(len(users), np.int64)
    turn[order] = np.arange(len(users)) - np.repeat(first, count)
    return turn


def _draw_stationary_start(model: WaypointModel, xy_m: Floats, streams: Streams) -> tuple[NDArray[np.bool_], Floats]:
    """Draw whether users at *xy_m* pause, ``[n]``, and the ends of their legs, ``[n, 2]``, as at any late instant.

    A moving user is, at any instant, on a leg between two places of density 1/A² each, drawn in proportion to
    its length l, uniformly along it.  Let behind and ahead be the distances back to the leg's begin and on to its end,
    and φ the direction.  The density over place, φ, behind and ahead is (behind + ahead) / A²E[l].
    So the density of the place and of φ is b a (b + a) / 2A²E[l], where b and a are the distances to the area's edge;
    and that of ahead, given these, is proportional to b/2 + ahead.  A pausing user is uniform in the area.  The state
    is drawn by rejection from a bound on these densities, from the pause with weight share / A and from the directions.

    Args:
        model: the parameters.
        xy_m: positions relative to the centre, ``[n, 2]``.
        streams: random streams of the motion.
    """
    area, pause_share = model.area, model.pause_share
    inner = area.inward(xy_m)
    pausing, target = np.ones(len(xy_m), bool), xy_m.copy()
    field = streams.field("start")
    moving_weight = (1.0 - pause_share) / (2.0 * area.size_m2**2 * area.mean_leg_m) * area.longest_m
    pause_weight = pause_share / area.size_m2
    chance = pause_weight / (pause_weight + moving_weight * area.headings(inner))
    todo: NDArray[np.int64] = np.arange(len(xy_m))
    attempt = 0
    while todo.size:
        state, first, second, accept, unit = (field.uniform(todo, index=attempt, draw=draw) for draw in range(5))
        angle, bound = area.heading(inner[todo], first, second)
        direction = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        back, ahead = area.reach_m(inner[todo], -direction), area.reach_m(inner[todo], direction)
        is_moving = state >= chance[todo]
        accepted = ~is_moving | (accept * bound * area.longest_m < back * ahead * (back + ahead))
        starts = accepted & is_moving
        offset = _distance_ahead(back, ahead, unit)[starts, None] * direction[starts]
        pausing[todo[starts]], target[todo[starts]] = False, inner[todo[starts]] + offset
        todo, attempt = todo[~accepted], attempt + 1
    return pausing, target


def _distance_ahead(back: Floats, ahead: Floats, unit: Floats) -> Floats:
    """Return a distance of density proportional to back/2 + distance on [0, ahead], from a uniform draw."""
    wanted = unit * ahead * (back + ahead)
    return 2.0 * wanted / (np.sqrt(back**2 + 4.0 * wanted) + back)
