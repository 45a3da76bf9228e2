"""Times of users in the states of a device: computing, evaluating, receiving, sending, down and waiting."""

from __future__ import annotations

from array import array
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.types import Bools, Floats, Ints, Users

ACTIVITIES = ("computing", "evaluating", "receiving", "sending")
"""States that are recorded as intervals."""


class OutageTimes(Protocol):
    """Outages, as `netfl.network.outage._combined.CombinedOutages` states them."""

    def __bool__(self) -> bool:
        """Return whether a node can be down."""

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        """Return whether each node is up, ``[n]``."""

    def changes(self, nodes: Ints, start_s: float, end_s: float) -> tuple[Floats, Ints, Bools]:
        """Return time, node and new state of all changes in (start, end]."""


class DownTimes:
    """Time for which outages have disconnected each user; asked for times that do not decrease.

    Args:
        users: number of users.
    """

    def __init__(self, outages: OutageTimes, users: int) -> None:
        self._outages = outages
        self._users = np.arange(users)
        self._now_s = 0.0
        self._down_s = np.zeros(users)

    def by_s(self, now_s: float) -> Floats:
        """Return the time until *now_s*, ``[users]``."""
        for user, from_s, until_s in self.intervals(self._now_s, now_s):
            self._down_s[user] += until_s - from_s
        self._now_s = max(now_s, self._now_s)
        return self._down_s.copy()

    def intervals(self, from_s: float, until_s: float) -> list[tuple[int, float, float]]:
        """Return user, begin and end of each time in [*from_s*, *until_s*) for which a user is down."""
        if not self._outages or until_s <= from_s:
            return []
        is_down = ~self._outages.up(self._users, from_s)
        since_s = np.where(is_down, from_s, np.nan)
        intervals = []
        changes = self._outages.changes(self._users, from_s, until_s)
        for at_s, user, goes_up in zip(*(column.tolist() for column in changes), strict=True):
            if goes_up:
                intervals.append((user, float(since_s[user]), at_s))
            since_s[user] = np.nan if goes_up else at_s
        remaining = np.flatnonzero(np.isfinite(since_s)).tolist()
        return intervals + [(user, float(since_s[user]), until_s) for user in remaining]


class StateTimes:
    """Intervals of the activities of users, and the times of their states at the end.

    A user may be in several states at once: it may send an older update while it trains, or train while an outage
    disconnects it.  The times of all states count fully, and ``overlap`` is what they count more than once:

        waiting + down + computing + evaluating + receiving + sending - overlap = time of the run.

    Args:
        down_times: times of the outages of users.
    """

    def __init__(self, down_times: DownTimes) -> None:
        self._down_times = down_times
        self._rows = {name: array("d") for name in ACTIVITIES}  # user, begin and end, one after the other

    def add(self, activity: str, users: Users, from_s: ArrayLike, until_s: ArrayLike) -> None:
        """Record that each of *users* is in a state from *from_s* until *until_s*, one for all or ``[n]``."""
        columns = np.broadcast_arrays(users.astype(float), np.asarray(from_s, float), np.asarray(until_s, float))
        self._rows[activity].frombytes(np.column_stack(columns).tobytes())

    def columns(self, users: int, from_s: float, until_s: float) -> dict[str, Floats]:
        """Return the time of each user in each state within [*from_s*, *until_s*), ``[users]`` each."""
        spans = {name: np.frombuffer(rows).reshape(-1, 3) for name, rows in self._rows.items()}
        down = self._down_times.intervals(from_s, until_s)
        spans["down"] = np.array(down, float).reshape(-1, 3)
        spans = {name: _clip(rows, from_s, until_s) for name, rows in spans.items()}
        times_s = {name: _sum(rows, users) for name, rows in spans.items()}
        covered_s = _union(np.concatenate([*spans.values()]), users)
        columns = {f"{name}_state_s": time_s for name, time_s in times_s.items()}
        columns["overlap_s"] = np.sum([*times_s.values()], axis=0) - covered_s
        columns["waiting_state_s"] = (until_s - from_s) - covered_s
        return columns


def _clip(rows: Floats, from_s: float, until_s: float) -> Floats:
    """Return the parts of intervals, ``[n, 3]``, that lie within [*from_s*, *until_s*)."""
    clipped = rows.copy()
    clipped[:, 1:] = np.clip(rows[:, 1:], from_s, until_s)
    return clipped[clipped[:, 2] > clipped[:, 1]]


def _sum(rows: Floats, users: int) -> Floats:
    """Return the sum of the intervals of each user, ``[users]``."""
    return np.bincount(rows[:, 0].astype(np.int64), rows[:, 2] - rows[:, 1], users).astype(float)


def _union(rows: Floats, users: int) -> Floats:
    """Return the time that the intervals of each user cover together, ``[users]``."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    covered_s = np.zeros(users)
    last_user = -1.0
    last_s = 0.0
    for user, from_s, until_s in rows.tolist():
        if user != last_user:
            last_user = user
            last_s = from_s
        if until_s > last_s:
            covered_s[int(user)] += until_s - max(from_s, last_s)
            last_s = until_s
    return covered_s
