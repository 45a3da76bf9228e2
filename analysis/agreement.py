"""The rule of the pages of the papers: whether a published value, or a claimed order, agrees with our runs.

There is one rule for all rows, and it can fail. It was chosen in November 2026, when the results that it judges were
known. Decision 111 (docs/decisions/papers-and-theories.md) has its reasons.

**Values.** d ± q is the 95 % Welch interval of ours minus published, and M the margin of the value. The value agrees if
the whole interval lies within ± M (|d| + q ≤ M), disagrees if the whole interval lies outside (|d| - q > M), and is
open otherwise. M is half of the effect that the paper claims on this metric. Without a claimed effect M is 2 s and half
a unit of the last digit, for the published standard deviation s.

**Orders.** A claimed order holds if the 95 % t interval of the paired difference has the claimed sign, does not hold if
it has the opposite sign, and is open if it includes 0.

Both are open with fewer replicas than an interval needs, or if training diverged in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from reproduction import Published
from scipy import stats

from netfl.results.statistics import MIN_REPLICAS, ConfidenceInterval, interval

YES, OPEN, NO = "yes", "open", "no"
"""The verdicts."""
MOST_REPLICAS = 1000
"""The largest number of replicas that is named as the one which would decide a claim."""
_CONFIDENCE = 0.975
"""The quantile at the upper end of a 95 % interval."""


@dataclass(frozen=True)
class Comparison:
    """Our values beside a published one.

    Args:
        values: the values of our replicas; NaN where training diverged.
        published: the published value.
        effect: the effect that the paper claims on this metric; NaN if it claims none.
    """

    values: Sequence[float]
    published: Published
    effect: float = math.nan

    @property
    def difference(self) -> float:
        """Return d, ours minus published; of words with a range, the distance of ours beyond it, 0 inside."""
        mean = float(np.mean(self.values)) if self.values else math.nan
        low, high = self.published.ends
        if mean < low:
            return mean - low
        return max(mean - high, 0.0) if not math.isnan(mean) else math.nan

    @cached_property
    def half(self) -> float:
        """Return q, half of the width of the 95 % interval of d; NaN if our replicas give no interval."""
        if len(self.values) < MIN_REPLICAS or not np.isfinite(self.values).all():
            return math.nan
        return welch_half(self._deviation, len(self.values), self.published.spread, self.published.mean_of)

    @property
    def interval(self) -> ConfidenceInterval:
        """Return d ± q."""
        return ConfidenceInterval(self.difference, self.half, len(self.values))

    @property
    def margin(self) -> float:
        """Return M."""
        return margin(self.published, self.effect)

    @property
    def answer(self) -> str:
        """Return the verdict."""
        return _decide(self.difference, self.half, self.margin)

    @property
    def includes_zero(self) -> bool:
        """Return whether d ± q includes 0, up to the rounding of the published value; ``False`` without an interval."""
        return abs(self.difference) <= self.half + self.published.rounding

    @property
    def needed(self) -> int | None:
        """Return the number of replicas that would decide the value, if d and our spread stay as they are.

        Returns:
            ``None`` for fewer than `MIN_REPLICAS`, or if no number up to `MOST_REPLICAS` would.
        """
        if math.isnan(self.half):
            return None
        spread, mean_of = self.published.spread, self.published.mean_of
        for size in range(MIN_REPLICAS, MOST_REPLICAS + 1):
            half = welch_half(self._deviation, size, spread, mean_of)
            if _decide(self.difference, half, self.margin) != OPEN:
                return size
        return None

    @property
    def _deviation(self) -> float:
        return float(np.std(self.values, ddof=1))


def margin(published: Published, effect: float = math.nan) -> float:
    """Return M: half of the claimed effect; without one, twice the published spread and half a unit of the last digit.

    The spread itself cannot be the margin. The mean of five published runs alone has an interval of ± 1.2 s, which is
    wider, so that no number of our runs could agree.
    """
    if effect > 0.0:
        return effect / 2
    return 2 * published.spread + published.rounding


def welch_half(deviation: float, size: int, spread: float, mean_of: int) -> float:
    """Return half of the width of the 95 % interval of the difference of two means, by Welch.

    For means of n and k runs with standard deviations s and s₀ the variance is ``s²/n + s₀²/k``; the degrees of freedom
    are those of Welch and Satterthwaite. A single published run (k = 1) has no spread of its own: it is taken as one
    more run of ours, with the variance ``s² (1/n + 1)`` and n - 1 degrees of freedom.

    Args:
        deviation: standard deviation s of our replicas.
        size: number n of our replicas.
        spread: published standard deviation s₀.
        mean_of: number k of published runs.
    """
    ours = deviation**2 / size
    if mean_of == 1:
        return float(stats.t.ppf(_CONFIDENCE, size - 1)) * math.sqrt(ours + deviation**2)
    theirs = spread**2 / mean_of
    if ours + theirs == 0.0:
        return 0.0
    freedom = (ours + theirs) ** 2 / (ours**2 / (size - 1) + theirs**2 / (mean_of - 1))
    return float(stats.t.ppf(_CONFIDENCE, freedom)) * math.sqrt(ours + theirs)


def order_answer(differences: Sequence[float]) -> str:
    """Return the verdict on an order, given the paired difference in each replica; NaN where a learner diverged."""
    found = interval(differences)
    if found.replicas < len(differences) or not found.clear:
        return OPEN
    return YES if found.mean > 0 else NO


def _decide(difference: float, half: float, limit: float) -> str:
    """Return the verdict on a difference d ± q with the margin M; without an interval it is open."""
    if abs(difference) + half <= limit:
        return YES
    if abs(difference) - half > limit:
        return NO
    return OPEN
