"""Schedules: the times at which users are present, known in advance, and the states of nodes by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.outage import NodeAvailability
from netfl.network.periods import surrounding_instants
from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class UserSchedule:
    """The availability of one user.

    Args:
        user: number of the user, from 0.
        start: whether it is present at time 0.
        times: increasing times at which this changes, ``[n]``; at the instant of a change the new state holds.
        place: file and row, for messages.
    """

    user: int
    start: bool
    times: Floats
    place: str = ""

    @classmethod
    def from_intervals(cls, user: int, times: Floats, period: float = np.inf, place: str = "") -> UserSchedule:
        """Return the schedule of a user that is present in intervals.

        Args:
            user: number of the user.
            times: start and end of each interval in turn, as from `merge_intervals`.
            period: the period of a schedule that repeats; an interval that ends with it continues into the next.
            place: file and row, for messages.
        """
        passed = int((times <= 0.0).sum())
        later = times[(times > 0.0) & (times < np.inf) & (times != period)]
        return cls(user, start=passed % 2 == 1, times=later, place=place)


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
        in_order = sorted(rows, key=lambda row: row.user)
        start = np.ones(users, bool)
        counts = np.zeros(users + 1, np.int64)
        for row in in_order:
            start[row.user] = row.start
            counts[row.user + 1] = len(row.times)
        times = np.concatenate([np.empty(0), *(row.times for row in in_order)])
        return cls(start, first=np.cumsum(counts), times=times)


class ScheduledAvailability(NodeAvailability):
    """States that follow a schedule, once or in every period.

    Args:
        schedule: the schedule of all nodes in one period.
        period_s: length of a period; infinity without repetition.
    """

    def __init__(self, schedule: AvailabilitySchedule, period_s: float) -> None:
        self._schedule = schedule
        self._period_s = period_s
        self._count = np.diff(schedule.first)
        self._times_s = np.append(schedule.times, np.inf)  # the last stands for none

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        began_s, _ = self._surrounding_periods_s(nodes, time_s)
        passed = self._passed(nodes, began_s, time_s)
        return np.asarray(self._schedule.start[nodes] ^ (passed % 2 == 1))

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        began_s, next_s = self._surrounding_periods_s(nodes, time_s)
        passed = self._passed(nodes, began_s, time_s)
        count = self._count[nodes]
        first = self._schedule.first[nodes]

        # a further change of this period; index -1 stands for none
        is_in_period = passed < count
        in_period_s = began_s + self._times_s[np.where(is_in_period, first + passed, -1)]

        # or the first one of the next: after an odd number of changes the state differs from that at the start
        first_s = self._times_s[np.where(count > 0, first, -1)]
        begins_with_change = count % 2 == 1
        in_next_s = next_s + np.where(begins_with_change, 0.0, first_s)
        return np.where(is_in_period, in_period_s, in_next_s)

    def _surrounding_periods_s(self, nodes: Ints, time_s: ArrayLike) -> tuple[Floats, Floats]:
        """Return the begins of the period of *time_s* and of the next, ``[n]``."""
        time = np.broadcast_to(np.asarray(time_s, float), np.shape(nodes))
        if np.isinf(self._period_s):
            return np.zeros(time.shape), np.full(time.shape, np.inf)
        return surrounding_instants(np.zeros(time.shape), self._period_s, time)

    def _passed(self, nodes: Ints, began_s: Floats, time_s: ArrayLike) -> Ints:
        """Return the number of each node's changes in this period up to *time_s*, by bisection."""
        first = self._schedule.first[nodes]
        low = np.zeros(np.shape(nodes), np.int64)
        high = self._count[nodes]
        is_open = low < high
        while is_open.any():
            middle = (low + high) // 2
            has_passed = began_s + self._times_s[first + middle] <= time_s
            low = np.where(is_open & has_passed, middle + 1, low)
            high = np.where(is_open & ~has_passed, middle, high)
            is_open = low < high
        return low


def merge_intervals(intervals: Iterable[tuple[int, float, float]]) -> dict[int, Floats]:
    """Return the starts and ends of each node's intervals in turn, by node in ascending order.

    Args:
        intervals: (node, start, end) of each, half-open; an end may be infinity.  Intervals of a node that touch or
            overlap are merged.
    """
    changes: dict[int, list[float]] = {}
    for node, start, end in sorted(intervals):
        times = changes.setdefault(node, [])
        if times and start <= times[-1]:
            times[-1] = max(times[-1], end)
        else:
            times += [start, end]
    return {node: np.array(times) for node, times in changes.items()}
