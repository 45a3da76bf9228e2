"""Rarity: which users deliver less than their fair share, beyond chance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import special

from netfl.diagnosis.explanation.gains import standard_error
from netfl.types import Bools, Floats, Ints

RARITY_LEVEL = 0.05
"""Probability that chance makes some of equal users count as rare."""
CAUSE_LEVEL = 0.005
"""The same for users whose causes are looked for: without a cause of its own, one of the causes always seems to help.

A user that is rare by chance has its fair share in a replay with other draws, and any exemption gives it others.
"""
_LEAST_DISPERSION = 0.1
"""Least variance of deliveries over that of independent ones: few blocks may show less by chance."""


class Standing(Enum):
    """The deliveries of a user, compared with its fair share."""

    ABOVE = "above its fair share"
    WITHIN_CHANCE = "within chance of its fair share"
    DOUBTFUL = "below its fair share, perhaps by chance"
    RARE = "below its fair share"
    STARVED = "with others in a network that hardly delivers"


@dataclass(frozen=True, slots=True)
class Rarity:
    """Deliveries of all users, compared with their fair share.

    Args:
        deliveries: number of deliveries of each user, ``[users]``.
        fair: the fair share: the deliveries of all users, divided by the number of users.
        p: probability that some user delivers so little if all have a fair share, ``[users]``: that of the user itself,
            corrected for the number of users (Y. Benjamini, Y. Hochberg, J. R. Stat. Soc. B 57, 1995), since the rarest
            ones were chosen.
        rounds: number of rounds of all replicas.
        empty_rounds: number of them without any delivery.
    """

    deliveries: Ints
    fair: float
    p: Floats
    rounds: int
    empty_rounds: int

    @property
    def is_rare(self) -> Bools:
        """True for each user that delivers less than its fair share, beyond chance, ``[users]``."""
        return (self.p <= RARITY_LEVEL) & (self.deliveries < self.fair)

    @property
    def hardly_delivers(self) -> bool:
        """True if most rounds end without any delivery."""
        return self.empty_rounds > self.rounds / 2

    def standing(self, user: int) -> Standing:
        """Return how the deliveries of *user* compare with its fair share."""
        if self.is_rare[user]:
            is_certain = self.p[user] <= CAUSE_LEVEL
            return Standing.RARE if is_certain else Standing.DOUBTFUL
        if self.deliveries[user] > self.fair:
            return Standing.ABOVE
        if self.hardly_delivers:
            return Standing.STARVED
        return Standing.WITHIN_CHANCE

    def rarest(self, count: int) -> list[int]:
        """Return the *count* users with the fewest deliveries, in the order of their numbers where they tie."""
        order = np.argsort(self.deliveries, kind="stable")
        return [int(user) for user in order[:count]]

    def typical(self, count: int) -> list[int]:
        """Return up to *count* users that are not rare, those nearest to the fair share first."""
        usual = np.flatnonzero(~self.is_rare)
        distance = np.abs(self.deliveries[usual] - self.fair)
        order = np.argsort(distance, kind="stable")
        return [int(user) for user in usual[order[:count]]]


def rarity_of(delivered: Ints) -> Rarity:
    """Compare the deliveries of users with their fair share.

    The number of deliveries of a user with a fair share 1/n of all N is binomial; D deliveries in clusters, or evenly
    spread ones, count as D/φ independent ones, where the dispersion φ is the variance of the deliveries of a user over
    that of independent ones, from blocks of rounds, the mean over all users.

    Args:
        delivered: deliveries of each user in each round, ``[replicas, rounds, users]``.
    """
    replicas, rounds, users = delivered.shape
    deliveries = delivered.sum(axis=(0, 1))
    total = int(deliveries.sum())
    fair = total / users

    # binomial distribution function, P(D' ≤ D) = I_{1-p}(N - D, D + 1) with p = 1/n, continued to all real numbers
    dispersion = _dispersion(delivered, deliveries)  # φ
    trials = total / dispersion
    hits = deliveries / dispersion
    p = np.ones(users)
    misses_any = hits < trials  # the others have all deliveries
    p[misses_any] = special.betainc(trials - hits[misses_any], hits[misses_any] + 1, 1 - 1 / users)

    empty_rounds = int((delivered.sum(axis=2) == 0).sum())
    return Rarity(deliveries, fair, _corrected(p), replicas * rounds, empty_rounds)


def _dispersion(delivered: Ints, deliveries: Ints) -> float:
    """Return the variance of the deliveries of all users over that of independent ones; 1 if it cannot be estimated."""
    independent = float(deliveries.sum())
    if not independent:
        return 1.0
    variance = standard_error(delivered) ** 2
    if np.isinf(variance).any():  # too few rounds
        return 1.0
    return max(_LEAST_DISPERSION, float(variance.sum()) / independent)


def _corrected(p: Floats) -> Floats:
    """Return p-values corrected by the procedure of Benjamini and Hochberg, ``[n]``.

    In ascending order, the corrected k-th is ``min over j ≥ k of n p_(j) / j``.
    """
    descending = np.argsort(p)[::-1]
    ranks = np.arange(len(p), 0, -1)
    smallest_so_far = np.minimum.accumulate(p[descending] * len(p) / ranks)
    corrected = np.empty(len(p))
    corrected[descending] = np.minimum(smallest_so_far, 1.0)
    return corrected
