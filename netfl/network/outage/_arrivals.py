"""Energy that arrives in portions at random instants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, factorial

import numpy as np

from netfl.network.periods import surrounding_instants
from netfl.streams import RandomField
from netfl.types import Floats, Ints

_SEARCHED_PERIODS = 32
"""Periods that are searched for an arrival at once."""
_POISSON_CDF = np.cumsum([exp(-1.0) / factorial(count) for count in range(25)])
"""P(N ≤ n) of a Poisson number of mean 1; the last one is 1 up to rounding."""


@dataclass(frozen=True, slots=True, eq=False)
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

    @abstractmethod
    def next_arrivals(self, users: Ints, from_s: Floats) -> tuple[Floats, Ints]:
        """Return the end of the segment of *from_s*, and the number of portions that arrive there, ``[n]`` each."""

    def until_s(self, users: Ints, from_s: Floats, drain_w: Floats) -> Floats:
        return self.next_arrivals(users, from_s)[0]

    def gain(self, users: Ints, from_s: Floats, drain_w: Floats) -> Callable[[Floats], Floats]:
        return lambda to_s: np.asarray(-drain_w * (to_s - from_s))

    def arriving_j(self, users: Ints, from_s: Floats) -> Floats:
        return np.asarray(self.portion_j * self.next_arrivals(users, from_s)[1])


class PoissonArrivals(EnergyArrivals):
    """Arrivals of a Poisson process of rate 1/period, of each user by itself.

    Each period has a Poisson number of arrivals of mean 1, at independent uniform times.
    """

    def next_arrivals(self, users: Ints, from_s: Floats) -> tuple[Floats, Ints]:
        begin_s, end_s = surrounding_instants(np.zeros(len(users)), self.period_s, from_s)
        period = np.rint(begin_s / self.period_s).astype(np.int64)
        ids = self.ids[users]
        counts = np.searchsorted(_POISSON_CDF, self.draws.uniform(ids, period))
        draw = np.arange(counts.max(initial=0))
        shares = self.draws.uniform(ids[:, None], period[:, None], 1 + draw)
        times_s = begin_s[:, None] + self.period_s * shares  # [n, draws]
        is_ahead = (draw < counts[:, None]) & (times_s > from_s[:, None])
        times_s = np.where(is_ahead, times_s, np.inf)
        until_s = np.minimum(times_s.min(axis=1, initial=np.inf), end_s)
        return until_s, (times_s == until_s[:, None]).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class BernoulliArrivals(EnergyArrivals):
    """At the end of each period, one arrival with a probability, of each user by itself."""

    probability: float

    def next_arrivals(self, users: Ints, from_s: Floats) -> tuple[Floats, Ints]:
        _, end_s = surrounding_instants(np.zeros(len(users)), self.period_s, from_s)
        following = np.rint(end_s / self.period_s).astype(np.int64)
        periods = following[:, None] + np.arange(_SEARCHED_PERIODS)  # [n, periods]
        arrives = self.draws.uniform(self.ids[users][:, None], periods) < self.probability
        has_any = arrives.any(axis=1)
        ahead = np.where(has_any, arrives.argmax(axis=1), _SEARCHED_PERIODS - 1)
        return np.asarray(self.period_s * (following + ahead)), np.asarray(has_any, np.int64)
