"""Energy that arrives in portions at random instants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, factorial, floor

import numpy as np

from netfl.streams import RandomField
from netfl.types import Floats, Ints

_PERIODS = 32
"""Periods of a user of which the arrivals are drawn at once, and kept."""
_POISSON_CDF = np.cumsum([exp(-1.0) / factorial(count) for count in range(25)])
"""P(N ≤ n) of a Poisson number of mean 1; the last one is 1 up to rounding."""


@dataclass(slots=True, eq=False)
class EnergyArrivals(ABC):
    """Portions of energy, each of which arrives at an instant; a segment ends with an arrival, or earlier.

    Args:
        portion_j: energy of an arrival.
        period_s: length of a period.
        ids: number of each user in the network, which keys its draws, ``[users]``.
        draws: random field of the arrivals.
    """

    portion_j: float
    period_s: float
    ids: Ints
    draws: RandomField
    _kept: dict[int, tuple[int, list[float]]] = field(default_factory=dict, init=False)
    """Number of the last block of periods of each user that was drawn, and the times of its arrivals."""

    @abstractmethod
    def times_s(self, user_id: int, periods: Ints) -> Floats:
        """Return the times of the arrivals of a user in some periods, in rising order."""

    def segment_end(self, users: Ints, from_s: Floats, drain_w: Floats) -> tuple[Floats, Floats]:
        """Return when each user's segment from *from_s* on ends, and the energy that arrives then, ``[n]`` each."""
        ends = [self._next(user, at_s) for user, at_s in zip(users.tolist(), from_s.tolist(), strict=True)]
        until_s, portions = np.array(ends, float).reshape(-1, 2).T  # also of no users
        return until_s, self.portion_j * portions

    def gain(self, users: Ints, from_s: Floats, drain_w: Floats) -> Callable[[Floats], Floats]:
        """Return the function of a time in the segment that gives what each user has gained since *from_s*, ``[n]``."""
        return lambda to_s: np.asarray(-drain_w * (to_s - from_s))

    def _next(self, user: int, from_s: float) -> tuple[float, int]:
        """Return the next arrival, or the end of the block of periods, and the number of portions that arrive there."""
        block, times_s = self._block_at(user, from_s)
        passed = bisect_right(times_s, from_s)
        if passed == len(times_s):
            return self._begin_s(block + 1), 0
        until_s = times_s[passed]
        portions = bisect_right(times_s, until_s) - passed  # several may arrive at one instant
        return until_s, portions

    def _block_at(self, user: int, time_s: float) -> tuple[int, list[float]]:
        """Return the block of periods that begins at or before a time and ends after it, and its arrivals."""
        block = floor(time_s / (_PERIODS * self.period_s))
        if self._begin_s(block + 1) <= time_s:  # the division rounded down
            block += 1
        elif self._begin_s(block) > time_s:  # or up
            block -= 1
        kept_block, times_s = self._kept.get(user, (None, []))
        if kept_block != block:
            periods = np.arange(_PERIODS * block, _PERIODS * (block + 1))
            times_s = self.times_s(int(self.ids[user]), periods).tolist()
            self._kept[user] = (block, times_s)
        return block, times_s

    def _begin_s(self, block: int) -> float:
        return self.period_s * (_PERIODS * block)


class PoissonArrivals(EnergyArrivals):
    """Arrivals of a Poisson process of rate 1/period, of each user by itself.

    Each period has a Poisson number of arrivals of mean 1, at independent uniform times.
    """

    def times_s(self, user_id: int, periods: Ints) -> Floats:
        counts = np.searchsorted(_POISSON_CDF, self.draws.uniform(user_id, periods))
        draw = np.arange(counts.max())
        shares = self.draws.uniform(user_id, periods[:, None], 1 + draw)  # [periods, draws]
        times_s = self.period_s * (periods[:, None] + shares)
        is_arrival = draw < counts[:, None]  # each period has as many as its count
        return np.sort(times_s[is_arrival])


@dataclass(slots=True, eq=False)
class BernoulliArrivals(EnergyArrivals):
    """At the end of each period, one arrival with a probability, of each user by itself."""

    probability: float

    def times_s(self, user_id: int, periods: Ints) -> Floats:
        arrives = self.draws.uniform(user_id, periods) < self.probability
        return np.asarray(self.period_s * (periods[arrives] + 1))
