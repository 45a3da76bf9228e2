"""Age of information: silences, ages and waiting times of users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DELIVERY_COUNTS = (1, 10, 100)
"""Numbers of deliveries for which waiting times are reported."""


@dataclass(frozen=True, slots=True)
class AgeStatistics:
    """Silences and ages of the users, all ``[users]``; infinite for users without deliveries.

    Gaps are the rounds from one delivery to the next; the last gap leads to the first delivery.  The age of
    information is the number of rounds since the round of the newest delivery began: 1 in that round.

    Args:
        silence: the longest run of rounds without a delivery.
        silence_s: the same in seconds; ``None`` without times.
        gap: the mean gap.
        age: the mean age, ``E[gap²] / (2 E[gap]) + 1/2``, in rounds; also the mean wait until a delivery.
        peak: the mean age just before a delivery, which is the mean gap, in rounds.
        age_s: the mean age in seconds; ``None`` without times.
    """

    silence: NDArray[np.int64]
    silence_s: NDArray[np.float64] | None
    gap: NDArray[np.float64]
    age: NDArray[np.float64]
    peak: NDArray[np.float64]
    age_s: NDArray[np.float64] | None

    def until(self, deliveries: int) -> NDArray[np.float64]:
        """Return the expected rounds, from a random one on, until each user has so many *deliveries*."""
        return self.age if deliveries == 1 else self.age + (deliveries - 1) * self.gap


def age_statistics(delivered: NDArray[np.bool_], span_s: NDArray[np.float64] | None) -> AgeStatistics:
    """Compute silences and ages of all users.

    Args:
        delivered: participation, ``[rounds, users]``.
        span_s: duration of each round.
    """
    rounds, users = delivered.shape
    has_times = span_s is not None
    ends_s = np.append(0.0, np.cumsum(span_s if span_s is not None else np.ones(rounds)))
    silence, silence_s = np.full(users, rounds), np.full(users, ends_s[-1])
    gap, age, age_s = np.full(users, np.inf), np.full(users, np.inf), np.full(users, np.inf)
    for user in range(users):
        at = np.flatnonzero(delivered[:, user])
        if not len(at):
            continue
        gaps = np.diff(at, append=at[0] + rounds)
        gap[user] = rounds / len(at)
        age[user] = (gaps.astype(float) ** 2).sum() / (2 * rounds) + 0.5
        before, after = np.append(-1, at), np.append(at, rounds)
        silence[user] = (after - before).max() - 1
        if has_times:
            silence_s[user] = (ends_s[after] - ends_s[before + 1]).max()
            gaps_s = np.diff(ends_s[at + 1], append=ends_s[at[0] + 1] + ends_s[-1])
            age_s[user] = (gaps_s**2).sum() / (2 * ends_s[-1])
    return AgeStatistics(silence, silence_s if has_times else None, gap, age, gap, age_s if has_times else None)
