"""Hold a model to its laws: draw what it says it draws, and compare with what it claims.

>>> from netfl.network.channel.rayleigh import Rayleigh
>>> from netfl.streams import Streams
>>> check_laws(Rayleigh(coherence=0.1), Streams(1))
[]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law, StatisticClaim

ALARM = 1e-5
"""Probability that one true claim is called violated."""


def check_laws(model: Spec, streams: Streams, size: int = 20_000, alarm: float = ALARM) -> list[str]:
    """The claims of *model* that its draws violate, each in one line; none if all hold.

    Means are held to a z-score, variances to a z-score by the draws' fourth moment, and distribution functions to the
    band of Dvoretzky, Kiefer, Wolfowitz and Massart, which is valid for continuous and discrete laws alike.  Figures,
    such as an autocorrelation at several lags, are held to z-scores by the spread over their independent rows.  Each
    claim is one test, and each column of a figure; the z-scores' rate of false alarms is that of the normal law, which
    a large *size* approaches.

    Args:
        model: any model that states laws.
        streams: where draws come from; the same streams give the same answer.
        size: how many draws are compared.
        alarm: the probability that one true claim is called violated.
    """
    laws = model.laws()
    if not laws:
        return [f"{type(model).__name__} states no law; if it has none, say why with Law.none(reason)"]
    return [f"{law.quantity}: {fault}" for law in laws for fault in _violations(law, streams, size, alarm)]


def _violations(law: Law, streams: Streams, size: int, alarm: float) -> Iterator[str]:
    """What is wrong with one law."""
    for figure in law.figures:
        yield from _by_rows(figure, streams.at(law.quantity, figure.name), size, alarm)
    claims = (law.mean, law.variance, law.cdf)
    if law.draw is None:
        if claims != (None, None, None):
            yield "it makes a claim but has nothing to draw"
        return
    if claims == (None, None, None):
        yield "it draws but claims nothing"
    draws = np.asarray(law.draw(streams.at(law.quantity), size), float).ravel()
    if len(draws) < size or not np.isfinite(draws).all():
        yield f"{len(draws)} draws of which {np.isfinite(draws).sum()} are finite, where {size} are wanted"
        return
    sigmas = _z(alarm) / math.sqrt(len(draws))
    rounding = 1e-12 * float(np.abs(draws).max())
    if law.mean is not None:
        spread = draws.std() if law.variance is None else math.sqrt(law.variance)
        yield from _by_distance("mean", draws.mean(), law.mean, sigmas * spread + rounding)
    if law.variance is not None:
        squares = (draws - (draws.mean() if law.mean is None else law.mean)) ** 2
        yield from _by_distance("variance", squares.mean(), law.variance, sigmas * squares.std() + rounding**2)
    if law.cdf is not None:
        yield from _by_band(law.cdf, draws, alarm)


def _z(alarm: float) -> float:
    """How many standard deviations chance allows, on either side."""
    return NormalDist().inv_cdf(1.0 - alarm / 2.0)


def _by_distance(what: str, found: float, claim: float, allowed: float) -> Iterator[str]:
    """Compare a figure with its *claim*."""
    if not abs(found - claim) <= allowed + 1e-9 * abs(claim):
        yield f"{what} {found:.6g} where {claim:.6g} is claimed: chance allows {allowed:.3g} between them"


def _by_band(cdf: Callable[[NDArray[np.float64]], Any], draws: NDArray[np.float64], alarm: float) -> Iterator[str]:
    """Compare the empirical distribution function with the claimed one, at each value that was drawn."""
    values, counts = np.unique(draws, return_counts=True)
    gap = np.abs(np.cumsum(counts) / len(draws) - np.asarray(cdf(values), float))
    band = math.sqrt(math.log(2.0 / alarm) / (2.0 * len(draws)))
    worst = int(gap.argmax())
    if not gap[worst] <= band:
        yield f"P(X ≤ {values[worst]:.6g}) is off by {gap[worst]:.3g}: chance allows {band:.3g}"


def _by_rows(figure: StatisticClaim, streams: Streams, size: int, alarm: float) -> Iterator[str]:
    """Compare each column of a figure, or each ratio of two columns, with its claim."""
    drawn = figure.draw(streams, size)
    pair = drawn if isinstance(drawn, tuple) else (drawn, np.ones_like(drawn))
    above, below = (np.asarray(one, float) for one in pair)
    shape = (len(above), len(figure.means))
    if above.shape != shape or below.shape != shape or len(above) < _FEWEST:
        yield f"{figure.name}: rows of shapes {above.shape} and {below.shape} where {shape} are wanted, not too few"
        return
    if not np.isfinite([above, below]).all() or (below.mean(axis=0) == 0.0).any():
        yield f"{figure.name}: estimates that are not finite"
        return
    places = [f" at {place}" for place in figure.at] or [f" [{column}]" for column in range(len(figure.means))]
    for top, bottom, claim, place in zip(above.T, below.T, figure.means, places, strict=True):
        rest = (top - claim * bottom).std() * _z(alarm) / math.sqrt(len(top))
        allowed = (rest + 1e-12 * float(np.abs(top).max())) / abs(bottom.mean())
        yield from _by_distance(figure.name + place, top.mean() / bottom.mean(), claim, allowed)


_FEWEST = 100
"""Rows that a z-score takes at least."""
