"""Arrivals of updates in rounds, from which the time of a round is computed under any deadline and quorum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netfl.types import Bools, Floats, Ints

_INSTANT = 1e-9
"""Relative difference of an arrival and a deadline at the same instant, at which the update is in time."""


@dataclass(frozen=True)
class Arrivals:
    """Updates that arrived in rounds that waited for all users, or for long.

    Args:
        round: round of each update, from 0, ``[updates]``.
        user: its user, an index of *names*, ``[updates]``.
        arrived_s: its arrival, in seconds from the opening of its round, ``[updates]``.
        sizes: number of users that take part in each round, ``[rounds]``.
        over_s: when the server knows that no further update of a round will come, in seconds from its opening;
            infinite where it does not learn of losses, ``[rounds]``.
        names: names of the users.
        attempts: attempts that each update took, ``[updates]``; ``None`` if unknown.
    """

    round: Ints
    user: Ints
    arrived_s: Floats
    sizes: Ints
    over_s: Floats
    names: Sequence[str]
    attempts: Ints | None = None

    @classmethod
    def of_table(cls, arrived_s: Floats) -> Arrivals:
        """Return rounds in which all users take part, from a table of their times, ``[rounds, users]``.

        An update whose time is infinite never arrives, and the server does not learn of it.
        """
        round_, user = np.nonzero(np.isfinite(arrived_s))
        rounds, users = arrived_s.shape
        return cls(
            round=round_,
            user=user,
            arrived_s=arrived_s[round_, user],
            sizes=np.full(rounds, users),
            over_s=arrived_s.max(axis=1),
            names=[*map(str, range(users))],
        )

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.sizes)

    @cached_property
    def rank(self) -> Ints:
        """Place of each update among those of its round, from 0, in the order of arrival, ``[updates]``."""
        order = np.lexsort((self.arrived_s, self.round))
        starts = np.searchsorted(self.round[order], np.arange(self.rounds))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - starts[self.round[order]]
        return rank

    def closes_s(self, wanted: Ints) -> Floats:
        """Return when each round closes without a deadline, with so many *wanted* updates, ``[rounds]``."""
        closes_s = self.over_s.copy()
        is_last = self.rank == wanted[self.round] - 1
        closing = self.round[is_last]
        closes_s[closing] = np.minimum(closes_s[closing], self.arrived_s[is_last])
        return closes_s

    def counts(self, deadlines_s: Floats) -> Ints:
        """Return the number of updates until each of *deadlines_s*, in rising order, ``[rounds, deadlines]``."""
        first = np.searchsorted(deadlines_s * (1.0 + _INSTANT), self.arrived_s)  # deadline that each update just meets
        steps = np.zeros((self.rounds, len(deadlines_s) + 1), np.int64)
        np.add.at(steps, (self.round, first), 1)
        return np.cumsum(steps[:, :-1], axis=1)

    def in_time(self, deadline_s: float, wanted: Ints) -> Bools:
        """Return which updates are among the *wanted* ones of their round until a deadline, ``[updates]``."""
        return (self.arrived_s <= deadline_s * (1.0 + _INSTANT)) & (self.rank < wanted[self.round])

    def never_in_time(self, deadline_s: float, wanted: Ints) -> Ints:
        """Return the users that deliver in some round, but never among the *wanted* updates until a deadline."""
        return np.setdiff1d(self.user, self.user[self.in_time(deadline_s, wanted)])

    def least_deadlines_s(self, wanted: Ints) -> Floats:
        """Return the least deadline at which each user is in time in some round of *wanted* updates, ``[users]``.

        It is infinite for a user that never is.
        """
        least_s = np.full(len(self.names), np.inf)
        counts = self.rank < wanted[self.round]
        np.minimum.at(least_s, self.user[counts], self.arrived_s[counts])
        return least_s
