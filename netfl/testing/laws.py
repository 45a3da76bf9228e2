"""Comparison of a model's draws with the distributions that it states.

>>> from netfl.network.channel.rayleigh import Rayleigh
>>> from netfl.streams import Streams
>>> check_laws(Rayleigh(coherence=0.1), Streams(1))
[]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from netfl.core.spec import Spec
from netfl.streams import Streams
from netfl.types import Floats, Law, StatisticClaim

ALARM = 1e-5
"""Probability that a true claim is reported as violated."""
_MIN_ROWS = 100
"""Fewest rows for a z-score."""


def check_laws(model: Spec, streams: Streams, size: int = 20_000, alarm: float = ALARM) -> list[str]:
    """Return the claims of *model* that its draws violate, one line each; empty if all hold.

    Means are tested by a z-score, variances by a z-score from the fourth moment of the draws, and distribution
    functions by the band of Dvoretzky, Kiefer, Wolfowitz and Massart, which is valid for continuous and discrete
    distributions.  Statistics, such as an autocorrelation at several lags, are tested by z-scores from the spread of
    their independent rows.  Each claim is one test, and so is each column of a statistic.  The false-alarm rate of
    z-scores is that of the normal distribution, which a large *size* approaches.

    Args:
        model: any model that states laws.
        streams: source of the draws; equal streams give equal results.
        size: the number of draws.
        alarm: the probability that a true claim is reported as violated.
    """
    problem = law_problem(model)
    if problem:
        return [f"{type(model).__name__} {problem}"]
    check = _Check(streams, size, alarm)
    return [f"{law.quantity}: {violation}" for law in model.laws() for violation in check.violations(law)]


def law_problem(model: Spec) -> str:
    """Return what is wrong with the return value of ``laws()``, or an empty text."""
    laws: object = model.laws()
    if not isinstance(laws, tuple | list) or not all(isinstance(law, Law) for law in laws):
        return f"returns {laws!r:.60} from laws(); return a tuple of Law"
    if not laws:
        return "states no property; if it has none, give the reason with Law.none(reason)"
    return ""


@dataclass(frozen=True, slots=True)
class _Check:
    streams: Streams
    size: int
    alarm: float

    @property
    def _z(self) -> float:
        """The number of standard deviations that chance allows on either side."""
        return NormalDist().inv_cdf(1.0 - self.alarm / 2.0)

    def violations(self, law: Law) -> Iterator[str]:
        for statistic in law.statistics:
            yield from self._check_statistic(statistic, self.streams.at(law.quantity, statistic.name))
        has_claims = law.mean is not None or law.variance is not None or law.cdf is not None
        if law.draw is None:
            if has_claims:
                yield "it makes a claim but has no draw function"
            return
        if not has_claims:
            yield "it draws but claims nothing"
        draws = np.asarray(law.draw(self.streams.at(law.quantity), self.size), float).ravel()
        if len(draws) < self.size or not np.isfinite(draws).all():
            yield f"{len(draws)} draws of which {np.isfinite(draws).sum()} are finite, {self.size} are needed"
            return
        sigmas = self._z / math.sqrt(len(draws))
        rounding = 1e-12 * float(np.abs(draws).max())
        if law.mean is not None:
            deviation = draws.std() if law.variance is None else math.sqrt(law.variance)
            yield from _compare("mean", draws.mean(), law.mean, sigmas * deviation + rounding)
        if law.variance is not None:
            center = draws.mean() if law.mean is None else law.mean
            squares = (draws - center) ** 2
            yield from _compare("variance", squares.mean(), law.variance, sigmas * squares.std() + rounding**2)
        if law.cdf is not None:
            yield from self._check_cdf(law.cdf, draws)

    def _check_cdf(self, cdf: Callable[[Floats], Any], draws: Floats) -> Iterator[str]:
        """Compare the empirical distribution function with the claim: its largest gap has a known distribution."""
        values, counts = np.unique(draws, return_counts=True)
        empirical = np.cumsum(counts) / len(draws)
        gap = np.abs(empirical - np.asarray(cdf(values), float))
        band = math.sqrt(math.log(2.0 / self.alarm) / (2.0 * len(draws)))
        worst = int(gap.argmax())
        if not gap[worst] <= band:
            yield f"P(X ≤ {values[worst]:.6g}) is off by {gap[worst]:.3g}: chance allows {band:.3g}"

    def _check_statistic(self, statistic: StatisticClaim, streams: Streams) -> Iterator[str]:
        """Compare each column of a statistic, or each ratio of two columns, with its claim."""
        rows = statistic.draw(streams, self.size)
        if isinstance(rows, tuple):
            above, below = (np.asarray(part, float) for part in rows)
        else:  # a ratio over ones
            above = np.asarray(rows, float)
            below = np.ones_like(above)
        shape = (len(above), len(statistic.means))  # [rows, statistics]
        if above.shape != shape or below.shape != shape:
            yield f"{statistic.name}: rows of shapes {above.shape} and {below.shape}, not {shape}"
            return
        if len(above) < _MIN_ROWS:
            yield f"{statistic.name}: {len(above)} rows; draw at least {_MIN_ROWS}"
            return
        if not np.isfinite([above, below]).all() or (below.mean(axis=0) == 0.0).any():
            yield f"{statistic.name}: estimates that are not finite"
            return
        if statistic.at:
            names = [f"{statistic.name} at {place}" for place in statistic.at]
        else:
            names = [f"{statistic.name} [{column}]" for column in range(len(statistic.means))]
        for name, top, bottom, claim in zip(names, above.T, below.T, statistic.means, strict=True):
            error = (top - claim * bottom).std() * self._z / math.sqrt(len(top))  # of the mean of the differences
            rounding = 1e-12 * float(np.abs(top).max())
            allowed = (error + rounding) / abs(bottom.mean())
            yield from _compare(name, top.mean() / bottom.mean(), claim, allowed)


def _compare(name: str, value: float, claim: float, allowed: float) -> Iterator[str]:
    if not abs(value - claim) <= allowed + 1e-9 * abs(claim):
        yield f"{name} {value:.6g} instead of the claimed {claim:.6g}: chance allows a difference of {allowed:.3g}"
