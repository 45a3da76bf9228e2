"""Journeys leg by leg, where legs are known by (user, number) and asked for in any order of time."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import Trajectories
from netfl.network.motion._area import Area, Floats
from netfl.streams import Streams

_STRIDE = 64
_PAST = -np.inf


@dataclass(frozen=True, slots=True)
class WaypointLegs:
    """One leg of each of some users: a straight way at one speed, and a pause at its end.

    Args:
        origin_m: where it begins, ``[n, 2]``.
        target_m: where it ends, ``[n, 2]``.
        travel_s: how long the way takes, ``[n]``.
        pause_s: how long the user stays at its end, ``[n]``.
    """

    origin_m: Floats
    target_m: Floats
    travel_s: Floats
    pause_s: Floats


class WaypointJourneys(Trajectories):
    """Paths made of legs.

    The leg that each user was asked for last is kept, and the instant at which every 64th leg began, from which asking
    back walks anew.  Instants are sums in the order of the legs, so that no answer depends on what was asked before.

    Args:
        users: how many users there are.
    """

    def __init__(self, users: int) -> None:
        self._users = users
        self._number = np.zeros(users, np.int64)
        self._begin_s, self._travel_s, self._end_s = np.zeros(users), np.zeros(users), np.full(users, _PAST)
        self._origin_m, self._target_m = np.zeros((users, 2)), np.zeros((users, 2))
        self._marks_s = np.zeros((users, 1))  # in column j, when leg j * _STRIDE begins; infinity where not known

    @abstractmethod
    def legs(self, users: NDArray[np.int64], number: NDArray[np.int64]) -> WaypointLegs:
        """The leg of each user with that number, from 0; leg 0 begins at time 0."""

    def xy_m(self, users: NDArray[np.int64], time_s: ArrayLike) -> Floats:
        """Where each user is on its leg."""
        users = np.asarray(users)
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        away = (time < self._begin_s[users]) | (time >= self._end_s[users])
        if not away.any():
            return self._along(users, time)
        if len(np.unique(users)) == len(users):
            self._find(users[away], time[away])
            return self._along(users, time)
        places = np.empty((len(users), 2))  # one user at several instants: each instant in its turn
        turn = _turns(users)
        for index in range(int(turn.max()) + 1):
            here = turn == index
            places[here] = self.xy_m(users[here], time[here])
        return places

    def _along(self, users: NDArray[np.int64], time_s: Floats) -> Floats:
        """Where each user is at an instant of its leg that is kept."""
        travel_s, origin_m = self._travel_s[users], self._origin_m[users]
        gone_s = np.minimum(time_s - self._begin_s[users], travel_s)
        share = np.divide(gone_s, travel_s, out=np.ones(len(users)), where=travel_s > 0.0)
        return origin_m + share[:, None] * (self._target_m[users] - origin_m)

    def _find(self, users: NDArray[np.int64], time_s: Floats) -> None:
        """Keep the leg that each user is on."""
        mark = np.maximum((self._marks_s[users] <= time_s[:, None]).sum(axis=1) - 1, 0)
        fresh = self._end_s[users] == _PAST
        jump = fresh | (time_s < self._begin_s[users]) | (mark * _STRIDE > self._number[users])
        self._take(users[jump], mark[jump] * _STRIDE, self._marks_s[users[jump], mark[jump]])
        todo = time_s >= self._end_s[users]
        while todo.any():
            users, time_s = users[todo], time_s[todo]
            self._take(users, self._number[users] + 1, self._end_s[users])
            todo = time_s >= self._end_s[users]

    def _take(self, users: NDArray[np.int64], number: NDArray[np.int64], begin_s: Floats) -> None:
        """Keep the legs with these numbers, which begin at these instants."""
        legs = self.legs(users, number)
        self._number[users], self._begin_s[users], self._travel_s[users] = number, begin_s, legs.travel_s
        self._end_s[users] = begin_s + (legs.travel_s + legs.pause_s)
        self._origin_m[users], self._target_m[users] = legs.origin_m, legs.target_m
        marked = number % _STRIDE == 0
        if marked.any():
            column = number[marked] // _STRIDE
            missing = int(column.max()) + 1 - self._marks_s.shape[1]
            if missing > 0:
                self._marks_s = np.pad(self._marks_s, ((0, 0), (0, missing)), constant_values=np.inf)
            self._marks_s[users[marked], column] = begin_s[marked]


def _turns(users: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry how often its user came before it."""
    order = np.argsort(users, kind="stable")
    _, first, count = np.unique(users[order], return_index=True, return_counts=True)
    turn = np.empty(len(users), np.int64)
    turn[order] = np.arange(len(users)) - np.repeat(first, count)
    return turn


# The random waypoint model as it is in its stationary state, given where a user is.


def mean_inverse_speed(speed: tuple[float, float]) -> float:
    """E[1/V] of a speed that is uniform on [min, max], in s/m."""
    least, most = speed
    return 1.0 / least if most == least else math.log(most / least) / (most - least)


def paused_share(area: Area, speed: tuple[float, float], pause: tuple[float, float]) -> float:
    """The share of time spent pausing, E[P] / (E[P] + E[L] E[1/V])."""
    pause_s = sum(pause) / 2.0
    return pause_s / (pause_s + area.mean_leg_m * mean_inverse_speed(speed))


@dataclass(frozen=True, slots=True)
class StationaryStart:
    """What each user is doing at time 0.

    Args:
        pausing: whether it pauses; else it is on its way.
        target_m: where it is on its way to, ``[n, 2]``; where it is if it pauses.
    """

    pausing: NDArray[np.bool_]
    target_m: Floats


def stationary(xy_m: Floats, area: Area, pause_share: float, streams: Streams) -> StationaryStart:
    """Draw whether users who are at *xy_m* pause, and where to they are on their way, as at any late instant.

    A user on its way is, seen at any instant, on a leg between two places of density 1/A² each, drawn in proportion to
    its length l, uniformly along it.  With behind and ahead the distances from where it is back to the leg's begin and
    on to its end, and φ the direction, that is the density (behind + ahead) / A²E[l] over place, φ, behind and ahead.
    So the density of the place and of φ is b a (b + a) / 2A²E[l], where b and a are the ways to the area's edge; and
    that of ahead, given these, is proportional to b/2 + ahead.  A pausing user is anywhere alike.  The state is drawn
    by rejection from a bound on all that, from the pause with weight share / A and from the directions.

    Args:
        xy_m: where users are, ``[n, 2]``.
        area: what they move in.
        pause_share: the share of time spent pausing.
        streams: where draws come from.
    """
    inner = area.inward(xy_m)
    pausing, target = np.ones(len(xy_m), bool), xy_m.copy()
    field = streams.field("start")
    on_the_way = (1.0 - pause_share) / (2.0 * area.size_m2**2 * area.mean_leg_m) * area.longest_m
    pause_weight = pause_share / area.size_m2
    chance = pause_weight / (pause_weight + on_the_way * area.headings(inner))
    todo: NDArray[np.int64] = np.arange(len(xy_m))
    attempt = 0
    while todo.size:
        state, first, second, accept, ahead = (field.uniform(todo, index=attempt, draw=draw) for draw in range(5))
        angle, bound = area.heading(inner[todo], first, second)
        towards = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        back, on = area.reach_m(inner[todo], -towards), area.reach_m(inner[todo], towards)
        moves = state >= chance[todo]
        kept = ~moves | (accept * bound * area.longest_m < back * on * (back + on))
        going = kept & moves
        way = _ahead(back, on, ahead)[going, None] * towards[going]
        pausing[todo[going]], target[todo[going]] = False, inner[todo[going]] + way
        todo, attempt = todo[~kept], attempt + 1
    return StationaryStart(pausing, target)


def _ahead(back: Floats, on: Floats, unit: Floats) -> Floats:
    """The way ahead, of density proportional to back/2 + ahead on [0, on], from a uniform draw."""
    wanted = unit * on * (back + on)
    return 2.0 * wanted / (np.sqrt(back**2 + 4.0 * wanted) + back)
