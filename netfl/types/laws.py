"""Claims of models about the distribution of their draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from netfl.streams import Streams
from netfl.types.arrays import Floats

Rows = Floats
"""Independent rows of estimates, ``[rows, statistics]``."""


@dataclass(frozen=True, slots=True)
class StatisticClaim:
    """Claim about a statistic of a model: an autocorrelation, a level-crossing rate, a throughput, a loss.

    Args:
        name: the statistic, such as ``autocorrelation``.
        formula: the claim in words or a formula, short enough for a table.
        draw: ``draw(streams, size)`` returns independent rows of estimates, ``[rows, statistics]``, about as many as
            *size* draws give; or a pair of such arrays, where the statistic is the ratio of their means.
        means: the claimed mean of each column, or of each ratio, ``[statistics]``.
        at: the place of each column in words, such as ``lag 0.1 s``; for messages.
    """

    name: str
    formula: str
    draw: Callable[[Streams, int], Rows | tuple[Rows, Rows]]
    means: Sequence[float]
    at: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Law:
    """Claim of a model about the distribution of its draws, and a way to draw; a generic test checks it.

    Args:
        quantity: what is drawn, with its unit, such as ``power gain`` or ``share of time up``.
        statement: the claim in words and formula, with its source.
        draw: ``draw(streams, size)`` returns at least *size* independent draws; ``None`` only without a closed form.
        mean: the claimed mean.
        variance: the claimed variance.
        cdf: the claimed distribution function.
        distribution: the claimed distribution as a frozen SciPy distribution, which gives mean, variance and cdf where
            they are omitted; or its name alone.
        statistics: further claims, such as an autocorrelation at several lags.
    """

    quantity: str
    statement: str
    draw: Callable[[Streams, int], Floats] | None = None
    mean: float | None = None
    variance: float | None = None
    cdf: Callable[[Floats], Any] | None = None
    distribution: Any = None
    statistics: tuple[StatisticClaim, ...] = ()

    def __post_init__(self) -> None:
        """Take mean, variance and cdf from the distribution, where it has them."""
        frozen = self.distribution
        if frozen is None or isinstance(frozen, str):
            return  # nothing follows from a name
        moments = {"mean": float(frozen.mean()), "variance": float(frozen.var())}
        for name, moment in moments.items():
            if getattr(self, name) is None and math.isfinite(moment):
                object.__setattr__(self, name, moment)
        if self.cdf is None:
            object.__setattr__(self, "cdf", frozen.cdf)

    @classmethod
    def none(cls, reason: str) -> Law:
        """Return the statement that nothing is random, or that there is no closed form, with the *reason*."""
        return cls("none", reason)

    def claims(self) -> list[tuple[str, str]]:
        """Return each claim as a name and a short text.

        >>> Law("power gain", "exponential", mean=1.0, distribution="expon").claims()
        [('distribution', 'expon'), ('mean', '1')]
        >>> Law.none("nothing is drawn").claims()
        [('none', 'nothing is drawn')]
        """
        claims = []
        if isinstance(self.distribution, str):
            claims.append(("distribution", self.distribution))
        elif self.distribution is not None:
            claims.append(("distribution", self._signature))
        elif self.cdf is not None:
            claims.append(("distribution", "P(X ≤ x) in closed form"))
        if self.mean is not None:
            claims.append(("mean", f"{self.mean:.6g}"))
        if self.variance is not None:
            claims.append(("variance", f"{self.variance:.6g}"))
        claims += [(claim.name, claim.formula) for claim in self.statistics]
        return claims or [("none", self.statement)]

    @property
    def _signature(self) -> str:
        """The SciPy call that makes the distribution, such as ``gamma(2, scale=0.5)``."""
        frozen = self.distribution
        values = [f"{value:.6g}" for value in frozen.args]
        values += [f"{key}={value:.6g}" for key, value in frozen.kwds.items()]
        return f"{frozen.dist.name}({', '.join(values)})"
