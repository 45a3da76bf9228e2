"""What a model claims of what it draws, readable by a machine: its law, and figures such as correlations over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams

Rows = NDArray[np.float64]
"""Independent rows of estimates, ``[rows, figures]``."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What a law claims beside its draws' own moments: an autocorrelation, a level-crossing rate, a throughput, a loss.

    `netfl.laws` makes the usual ones over time.

    Args:
        name: what it is, such as ``autocorrelation``.
        formula: the claim in words or a formula, short enough for a table.
        draw: ``draw(streams, size)`` gives independent rows of estimates, ``[rows, figures]``, about as many as work
            out at *size* draws; or a pair of such arrays, where the figure is the ratio of their means.
        means: the claimed mean of each column, or of each ratio, ``[figures]``.
        at: where each column is taken, in words, such as ``lag 0.1 s``; for messages.
    """

    name: str
    formula: str
    draw: Callable[[Streams, int], Rows | tuple[Rows, Rows]]
    means: Sequence[float]
    at: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Law:
    """One claim of a model about what it draws, with the way to draw it; the generic law test holds it to that.

    Args:
        quantity: what is drawn, with its unit, such as ``power gain`` or ``share of time up``.
        statement: the claim in words and formula, with its source.
        draw: ``draw(streams, size)`` gives at least *size* independent draws; ``None`` only without a closed form.
        mean: the claimed mean.
        variance: the claimed variance.
        cdf: the claimed distribution function.
        distribution: the claimed law as a frozen SciPy distribution, from which mean, variance and cdf follow where
            they are not given; or its name alone.
        figures: what else is claimed.
    """

    quantity: str
    statement: str
    draw: Callable[[Streams, int], NDArray[np.float64]] | None = None
    mean: float | None = None
    variance: float | None = None
    cdf: Callable[[NDArray[np.float64]], Any] | None = None
    distribution: Any = None
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        """Mean, variance and cdf of the distribution, where it has them."""
        known = self.distribution
        if known is None or isinstance(known, str):
            return
        for name, found in (("mean", float(known.mean())), ("variance", float(known.var()))):
            if getattr(self, name) is None and math.isfinite(found):
                object.__setattr__(self, name, found)
        if self.cdf is None:
            object.__setattr__(self, "cdf", known.cdf)

    @classmethod
    def none(cls, reason: str) -> Law:
        """The statement that there is nothing random, or no closed form, and why."""
        return cls("none", reason)

    def claims(self) -> list[tuple[str, str]]:
        """Each claim as a name and a short text.

        >>> Law("power gain", "exponential", mean=1.0, distribution="expon").claims()
        [('distribution', 'expon'), ('mean', '1')]
        >>> Law.none("nothing is drawn").claims()
        [('none', 'nothing is drawn')]
        """
        rows = []
        if self.distribution is not None:
            rows.append(("distribution", self.distribution if isinstance(self.distribution, str) else self._signature))
        elif self.cdf is not None:
            rows.append(("distribution", "P(X ≤ x) in closed form"))
        for name, value in (("mean", self.mean), ("variance", self.variance)):
            if value is not None:
                rows.append((name, f"{value:.6g}"))
        rows += [(figure.name, figure.formula) for figure in self.figures]
        return rows or [("none", self.statement)]

    @property
    def _signature(self) -> str:
        """A frozen distribution as SciPy would be asked for it, such as ``gamma(2, scale=0.5)``."""
        known = self.distribution
        told = [f"{value:.6g}" for value in known.args] + [f"{key}={value:.6g}" for key, value in known.kwds.items()]
        return f"{known.dist.name}({', '.join(told)})"
