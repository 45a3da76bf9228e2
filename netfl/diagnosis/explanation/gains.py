"""Gains: the deliveries of a user with and without a cause, and whether chance explains the difference.

Two replays with common random numbers may agree round by round, or diverge at the first difference and be nearly
independent from then on, so that they are compared as pairs of rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from netfl.types import Floats, Ints

LEVEL = 0.05
"""Probability that a cause without cost is named, and that an interval misses."""
_MAX_BLOCKS = 40
_MIN_BLOCK_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Gain:
    """Deliveries that a user gains in one replay over another.

    Args:
        before: number of deliveries in the first replay.
        after: number of deliveries in the second.
        low: lower end of the 95 % interval of the gain.
        high: its upper end.
        p: probability of such a gain by chance, one-sided; not corrected for multiplicity.
        before_s: simulated time for each delivery in the first replay, in seconds; infinity without deliveries.
        after_s: the same in the second.
    """

    before: int
    after: int
    low: float
    high: float
    p: float
    before_s: float
    after_s: float

    @property
    def deliveries(self) -> int:
        """Additional deliveries; may be negative."""
        return self.after - self.before

    @property
    def seconds(self) -> float:
        """Seconds by which a delivery takes less time; infinity for a user that would not deliver at all."""
        if math.isinf(self.after_s):
            return math.nan
        return self.before_s - self.after_s


def gain_between(before: Ints, after: Ints, before_s: float, after_s: float) -> Gain:
    """Return the gain of one user from one replay to another.

    Args:
        before: its deliveries in each round of the first replay, ``[replicas, rounds]``.
        after: its deliveries in each round of the second.
        before_s: simulated time of the first replay, all replicas together, in seconds.
        after_s: simulated time of the second.
    """
    difference = np.asarray(after, np.int64) - before
    gain = int(difference.sum())
    replicas, rounds = difference.shape
    degrees = _degrees_of_freedom(replicas, rounds)
    half_width = math.inf
    if degrees:
        error = standard_error(difference[:, :, None])  # of one user
        half_width = float(stats.t.isf(LEVEL / 2, degrees) * error[0])
    deliveries_before = int(before.sum())
    deliveries_after = int(after.sum())
    return Gain(
        before=deliveries_before,
        after=deliveries_after,
        low=gain - half_width,
        high=gain + half_width,
        p=float(gain_p_values(before[:, :, None], after[:, :, None])[0]),
        before_s=before_s / deliveries_before if deliveries_before else math.inf,
        after_s=after_s / deliveries_after if deliveries_after else math.inf,
    )


def gain_p_values(before: Ints, after: Ints) -> Floats:
    """Return the one-sided p-value of the gain in deliveries, ``[users]``.

    The result is the larger of two p-values: the exact sign test of the differing deliveries, which is valid for few of
    them (Q. McNemar, Psychometrika 12, 1947), and Student's t of the whole difference, which is valid with memory.

    Args:
        before: deliveries in one replay, ``[replicas, rounds, users]``.
        after: deliveries in the other.
    """
    difference = np.asarray(after, np.int64) - before
    replicas, rounds, users = difference.shape
    degrees = _degrees_of_freedom(replicas, rounds)
    if not degrees:
        return np.ones(users)
    gained = np.maximum(difference, 0).sum(axis=(0, 1))
    lost = np.maximum(-difference, 0).sum(axis=(0, 1))
    p_signs = stats.binom.sf(gained - 1, gained + lost, 0.5)  # P(X >= gained), X binomial with 1/2
    with np.errstate(divide="ignore", invalid="ignore"):  # a difference without any variance
        p_student = stats.t.sf((gained - lost) / standard_error(difference), degrees)
    return np.where(gained > lost, np.fmax(p_signs, p_student), 1.0)


def standard_error(values: Ints) -> Floats:
    """Return the standard error of the sum of *values* of each user, ``[replicas, rounds, users]`` to ``[users]``.

    It is the larger of that from rounds and that from blocks of rounds, so that it holds with memory.
    """
    replicas, rounds, users = values.shape
    blocks = _blocks(replicas, rounds)
    if replicas * blocks < 2:
        return np.full(users, np.inf)
    starts = np.arange(blocks) * rounds // blocks
    sums = np.add.reduceat(values, starts, axis=1)
    return np.sqrt(np.maximum(_variance(values), _variance(sums)))


def _blocks(replicas: int, rounds: int) -> int:
    """Return the number of blocks of each replica, about `_MAX_BLOCKS` in all."""
    wanted = -(-_MAX_BLOCKS // replicas)  # rounded up
    permitted = max(1, rounds // _MIN_BLOCK_ROUNDS)
    return min(max(wanted, 1), permitted)


def _degrees_of_freedom(replicas: int, rounds: int) -> int:
    return replicas * _blocks(replicas, rounds) - 1


def _variance(parts: Ints) -> Floats:
    """Return the variance of the sum of ``[replicas, parts, users]``, modelled as a first-order recursion.

    With the autocorrelation φ of neighbouring parts, the sum of n parts of variance σ² has a variance of about
    n σ² (1 + φ) / (1 − φ).
    """
    centred = parts - parts.mean(axis=(0, 1))
    power = (centred**2).sum(axis=(0, 1))  # of each user
    count = parts.shape[0] * parts.shape[1]
    products = (centred[:, 1:] * centred[:, :-1]).sum()  # of all users: they have one φ
    memory = np.clip(products / max(float(power.sum()), 1e-12), 0.0, 0.99)
    return np.asarray(power * count / (count - 1) * (1 + memory) / (1 - memory))
