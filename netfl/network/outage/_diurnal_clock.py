"""Time that passes faster at some hours of the day than at others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.periods import SLACK, STEPS, periods_of


class DiurnalClock:
    """A clock whose speed is constant over each of some even parts of a period, and 1 on average.

    A hazard that varies over the day is a constant one on such a clock: if X is exponential with mean 1, the first
    instant T at which ∫ r(t) dt from now on is m·X has the hazard r(t)/m.

    Args:
        weights: how fast it runs in each part, relative to the others; some may be 0, not all.
        period_s: the length of a period.
        shift_s: by how much each row's day begins later, ``[rows]``.
        factor: how much faster each row's clock runs, ``[rows]``.
    """

    def __init__(
        self, weights: Sequence[float], period_s: float, shift_s: NDArray[np.float64], factor: NDArray[np.float64]
    ) -> None:
        self._part_s, self._period_s = period_s / len(weights), period_s
        self._speed = np.array(weights, float) * len(weights) / sum(weights)
        self._read_s = np.concatenate([[0.0], np.cumsum(self._speed * self._part_s)])
        self._read_s[-1] = period_s
        self._shift_s, self._factor = shift_s, factor

    def read_s(self, rows: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the clock of each row shows at *time_s*, ``[n]``."""
        days, rest_s = np.divmod(time_s - self._shift_s[rows], self._period_s)
        part = np.minimum((rest_s / self._part_s).astype(np.int64), len(self._speed) - 1)
        read_s = self._read_s[part] + self._speed[part] * (rest_s - part * self._part_s)
        return np.asarray(self._factor[rows] * (days * self._period_s + read_s))

    def after_s(
        self, rows: NDArray[np.int64], time_s: NDArray[np.float64], amount_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When the clock of each row shows *amount_s* more than at *time_s*, ``[n]``."""
        shown_s = (self.read_s(rows, time_s) + amount_s) / self._factor[rows]
        days = periods_of(shown_s, self._period_s)
        rest_s = shown_s - days * self._period_s
        # to the right of all equal values, rounding or not: a part in which the clock stands is passed
        met_s = rest_s + SLACK * self._period_s + STEPS * shown_s
        part = np.minimum(np.searchsorted(self._read_s, met_s, side="right") - 1, len(self._speed) - 1)
        speed = np.where(self._speed[part] > 0.0, self._speed[part], 1.0)
        day_s = part * self._part_s + np.maximum(rest_s - self._read_s[part], 0.0) / speed
        return np.asarray(np.maximum(time_s, days * self._period_s + day_s + self._shift_s[rows]))


def mean_share_up(weights: Sequence[float], period_s: float, up_s: float, down_s: float) -> NDArray[np.float64]:
    """The mean share of time up in each part of the period, of exponential sojourns up on the clock, and down.

    In part j, p' = μ(1 - p) - λ_j p with λ_j = r_j/up and μ = 1/down, solved exactly; the periodic solution.
    """
    part_s = period_s / len(weights)
    fail = np.array(weights, float) * len(weights) / sum(weights) / up_s
    level, total = (1.0 / down_s) / (fail + 1.0 / down_s), fail + 1.0 / down_s
    fade = np.exp(-total * part_s)
    start, kept = 0.0, 1.0  # p at the end of a period is start + kept times p at its beginning
    for one, left in zip(level, fade, strict=True):
        start, kept = one + left * (start - one), left * kept
    p, means = start / (1.0 - kept), []
    for one, left, rate in zip(level, fade, total, strict=True):
        means.append(one + (p - one) * (1.0 - left) / (rate * part_s))
        p = one + left * (p - one)
    return np.array(means)


# Instants that come again every period.


def surrounding_instants(
    first_s: NDArray[np.float64], period_s: float, time_s: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the instants first + k·period, k whole, the last up to *time_s* and the next; each from its k alone."""
    time = np.asarray(time_s, float)
    number = np.floor((time - first_s) / period_s)
    number = number + (time >= first_s + (number + 1.0) * period_s)  # where the division rounded down
    number = number - (time < first_s + number * period_s)  # or up
    return first_s + number * period_s, first_s + (number + 1.0) * period_s
