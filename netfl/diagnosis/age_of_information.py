"""Waiting to be heard: silences, age of information, rounds until users are heard k times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TIMES = (1, 10, 100)
"""How often a user is to be heard where waiting is told."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long users wait, all ``[users]``; infinite for those who were never heard.

    Gaps are from one round in which a user is heard to the next; the last is taken to lead to the first.  The age of
    information is how many rounds ago the newest delivery's round began: 1 in that round.

    Args:
        silence: the longest stretch of rounds without a delivery.
        silence_s: the same in seconds; ``None`` where the rounds' times are not known.
        gap: the mean gap.
        age: the mean age, ``E[gap²] / (2 E[gap]) + 1/2``, in rounds; also the mean wait until heard.
        peak: the mean of the ages just before a delivery, which is the mean gap, in rounds.
        age_s: the mean age in seconds; ``None`` where the rounds' times are not known.
    """

    silence: NDArray[np.int64]
    silence_s: NDArray[np.float64] | None
    gap: NDArray[np.float64]
    age: NDArray[np.float64]
    peak: NDArray[np.float64]
    age_s: NDArray[np.float64] | None

    def until(self, times: int) -> NDArray[np.float64]:
        """Expected rounds, from a random one on, until each user is heard *times* times."""
        return self.age if times == 1 else self.age + (times - 1) * self.gap


def age_statistics(heard: NDArray[np.bool_], span_s: NDArray[np.float64] | None) -> Waits:
    """Silences and ages of all users.

    Args:
        heard: participation, ``[rounds, users]``.
        span_s: how long each round took.
    """
    rounds, users = heard.shape
    ends_s = None if span_s is None else np.append(0.0, np.cumsum(span_s))
    silence, silence_s = np.full(users, rounds), np.full(users, 0.0 if ends_s is None else ends_s[-1])
    gap, age, age_s = np.full(users, np.inf), np.full(users, np.inf), np.full(users, np.inf)
    for user in range(users):
        at = np.flatnonzero(heard[:, user])
        if not len(at):
            continue
        gaps = np.diff(at, append=at[0] + rounds)
        gap[user] = rounds / len(at)
        age[user] = (gaps.astype(float) ** 2).sum() / (2 * rounds) + 0.5
        before, after = np.append(-1, at), np.append(at, rounds)
        silence[user] = (after - before).max() - 1
        if ends_s is not None:
            silence_s[user] = (ends_s[after] - ends_s[before + 1]).max()
            gaps_s = np.diff(ends_s[at + 1], append=ends_s[at[0] + 1] + ends_s[-1])
            age_s[user] = (gaps_s**2).sum() / (2 * ends_s[-1])
    known = ends_s is not None
    return Waits(silence, silence_s if known else None, gap, age, gap, age_s if known else None)
