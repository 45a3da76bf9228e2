"""Schedules: the times at which users or nodes go up and down, known in advance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.outage import Bools, Floats, Ints, NodeAvailability
from netfl.network.outage._daily import surrounding_instants


@dataclass(frozen=True, slots=True, eq=False)
class UserSchedule:
    """The availability of one user.

    Args:
        user: number of the user, from 0.
        start: whether it is present at time 0.
        times: increasing times at which this changes, ``[n]``; at the instant of a change the new state holds.
        place: file and line, for messages.
    """

    user: int
    start: bool
    times: Floats
    place: str = ""

    def __eq__(self, other: object) -> bool:
        """Compare all fields; the method of a dataclass fails on arrays."""
        if not isinstance(other, UserSchedule):
            return NotImplemented
        is_equal = (self.user, self.start, self.place) == (other.user, other.start, other.place)
        return is_equal and np.array_equal(self.times, other.times)

    __hash__ = None  # type: ignore[assignment]  # an array has none


@dataclass(frozen=True, slots=True)
class AvailabilitySchedule:
    """The availability of all users, in flat arrays; users without a row are always present.

    Args:
        start: whether each is present at time 0, ``[users]``.
        first: index of each user's first time, ``[users + 1]``.
        times: times of the changes, user by user.
    """

    start: Bools
    first: Ints
    times: Floats

    @classmethod
    def from_rows(cls, rows: Iterable[UserSchedule], users: int) -> AvailabilitySchedule:
        """Combine the rows of *users*."""
        by_user = {row.user: row for row in rows}
        counts = np.array([len(by_user[user].times) if user in by_user else 0 for user in range(users)], np.int64)
        return cls(
            np.array([user not in by_user or by_user[user].start for user in range(users)], bool),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([np.empty(0), *(by_user[user].times for user in range(users) if user in by_user)]),
        )


class ScheduledAvailability(NodeAvailability):
    """States that follow a schedule, once or in every period.

    Args:
        schedule: the schedule of all nodes in one period.
        period_s: length of a period; infinity without repetition.
    """

    def __init__(self, schedule: AvailabilitySchedule, period_s: float) -> None:
        self._schedule, self._period_s = schedule, period_s
        self._count = np.diff(schedule.first)
        self._times_s = np.append(schedule.times, np.inf)

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        """Return the state at the start, inverted after an odd number of changes."""
        passed = self._passed(nodes, self._surrounding_periods_s(nodes, time_s)[0], time_s)
        return np.asarray(self._schedule.start[nodes] ^ (passed % 2 == 1))

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        """Return the next change: in this period, at its end, or in the next one."""
        began_s, next_s = self._surrounding_periods_s(nodes, time_s)
        passed, count, first = self._passed(nodes, began_s, time_s), self._count[nodes], self._schedule.first[nodes]
        is_within = passed < count
        in_period_s = began_s + self._times_s[np.where(is_within, first + passed, -1)]
        in_next_s = next_s + np.where(count % 2 == 1, 0.0, self._times_s[np.where(count > 0, first, -1)])
        return np.where(is_within, in_period_s, in_next_s)

    def _surrounding_periods_s(self, nodes: Ints, time_s: ArrayLike) -> tuple[Floats, Floats]:
        """Return the begins of the period of *time_s* and of the next, ``[n]``."""
        time = np.broadcast_to(np.asarray(time_s, float), np.shape(nodes))
        if np.isinf(self._period_s):
            return np.zeros(time.shape), np.full(time.shape, np.inf)
        return surrounding_instants(np.zeros(time.shape), self._period_s, time)

    def _passed(self, nodes: Ints, began_s: Floats, time_s: ArrayLike) -> Ints:
        """Return the number of each node's changes in this period up to *time_s*, by bisection."""
        low, high = np.zeros(np.shape(nodes), np.int64), self._count[nodes]
        first = self._schedule.first[nodes]
        while (low < high).any():
            middle = (low + high) // 2
            is_past = (low < high) & (began_s + self._times_s[first + middle] <= time_s)
            low, high = np.where(is_past, middle + 1, low), np.where(is_past | (low >= high), high, middle)
        return low
