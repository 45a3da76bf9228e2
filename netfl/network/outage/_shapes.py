"""Positive random numbers of mean 1: what a law of times or lengths is when its mean is taken out."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, gamma, inf, log, prod, sqrt
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.streams import Field as RandomField
from netfl.streams import Streams


class Shape(Protocol):
    """A positive random number of mean 1."""

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """A draw of the equilibrium residual for each row; a row's does not depend on how many follow it."""

    def moment(self, power: int) -> float:
        """E[Z^power]; infinity if there is none."""

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""


@dataclass(frozen=True, slots=True)
class Weibull:
    """Z = E^(1/k) / Γ(1 + 1/k) with E exponential; k = 1 is the exponential law."""

    k: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        return field.exponential(rows, index) ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """The density is proportional to exp(-(zΓ)^k): the k-th root of a gamma variable of shape 1/k."""
        return streams.rng().gamma(1.0 / self.k, size=rows) ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        return gamma(1.0 + power / self.k) / gamma(1.0 + 1.0 / self.k) ** power

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        return -np.expm1(-((np.maximum(z, 0.0) * gamma(1.0 + 1.0 / self.k)) ** self.k))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Z = exp(σN - σ²/2) with N standard normal."""

    sigma: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        return np.asarray(np.exp(self.sigma * field.normal(rows, index) - self.sigma**2 / 2.0))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """A uniform part of the length-biased law, which is lognormal again, its logarithm σ² higher."""
        part = streams.field("part").uniform(np.arange(rows))
        return part * np.exp(self.sigma * streams.field("whole").normal(np.arange(rows)) + self.sigma**2 / 2.0)

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        return exp(self.sigma**2 * power * (power - 1) / 2.0)

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        law = NormalDist(-(self.sigma**2) / 2.0, self.sigma)
        return np.array([law.cdf(log(one)) if one > 0.0 else 0.0 for one in np.ravel(z)]).reshape(np.shape(z))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Z has the density of a gamma variable of shape k, over k; k = 1 is exponential, whole k is Erlang's law."""

    k: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        return _gamma_quantile(self.k, field.uniform(rows, index)) / self.k

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """A uniform part of the length-biased law, which is gamma again, of shape k + 1."""
        part = streams.field("part").uniform(np.arange(rows))
        return part * _gamma_quantile(self.k + 1.0, streams.field("whole").uniform(np.arange(rows))) / self.k

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        return prod((self.k + i) / self.k for i in range(power))

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        from scipy.special import gammainc  # noqa: PLC0415 - only this law needs it

        return np.asarray(gammainc(self.k, self.k * np.maximum(z, 0.0)))


def _gamma_quantile(k: float, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a gamma variable of shape k is below with probability *share*."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - only this law needs it

    return np.asarray(gammaincinv(k, share))


@dataclass(frozen=True, slots=True)
class Pareto:
    """P(Z > z) = (m/z)^α from m = (α - 1)/α on."""

    alpha: float

    @property
    def _least(self) -> float:
        """The least value."""
        return (self.alpha - 1.0) / self.alpha

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        return np.asarray(self._least * field.uniform(rows, index) ** (-1.0 / self.alpha))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """Its distribution function is z up to m, and 1 - (m/z)^(α - 1) / α from there on; inverted."""
        u, m = streams.field().uniform(np.arange(rows)), self._least
        return np.where(u < m, u, m * (self.alpha * (1.0 - np.maximum(u, m))) ** (-1.0 / (self.alpha - 1.0)))

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        return self.alpha * self._least**power / (self.alpha - power) if power < self.alpha else inf

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        return 1.0 - (self._least / np.maximum(z, self._least)) ** self.alpha


@dataclass(frozen=True, slots=True)
class Uniform:
    """Z is uniform on 1 ± w."""

    width: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        return 1.0 + self.width * (2.0 * field.uniform(rows, index) - 1.0)

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """Its distribution function is z up to 1 - w, and 1 - (1 + w - z)² / 4w from there on; inverted."""
        u, w = streams.field().uniform(np.arange(rows)), self.width
        return np.where(u < 1.0 - w, u, 1.0 + w - 2.0 * np.sqrt(w * (1.0 - u)))

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        w, next_power = self.width, power + 1
        return ((1.0 + w) ** next_power - (1.0 - w) ** next_power) / (2.0 * w * next_power)

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        return np.clip((z - 1.0 + self.width) / (2.0 * self.width), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Hyperexponential:
    """Z is exponential with mean 1/2p with probability p, and with mean 1/2(1 - p) otherwise: balanced means."""

    cv: float

    @property
    def _often(self) -> float:
        """The probability p of the short kind."""
        return (1.0 + sqrt((self.cv**2 - 1.0) / (self.cv**2 + 1.0))) / 2.0

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""
        p = self._often
        short = field.uniform(rows, index, 1) < p
        return field.exponential(rows, index) / np.where(short, 2.0 * p, 2.0 * (1.0 - p))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """Each kind takes half of the time, and is memoryless."""
        p, field, every = self._often, streams.field(), np.arange(rows)
        short = field.uniform(every, 0, 1) < 0.5
        return field.exponential(every) / np.where(short, 2.0 * p, 2.0 * (1.0 - p))

    def moment(self, power: int) -> float:
        """E[Z^power]."""
        return gamma(power + 1.0) * sum(p / (2.0 * p) ** power for p in (self._often, 1.0 - self._often))

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        above = np.maximum(z, 0.0)
        kinds = (self._often, 1.0 - self._often)
        return np.asarray(1.0 - sum(p * np.exp(-2.0 * p * above) for p in kinds))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Z = 1."""

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Ones."""
        return np.ones(np.broadcast_shapes(np.shape(rows), np.shape(index)))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """Uniform on (0, 1)."""
        return streams.field().uniform(np.arange(rows))

    def moment(self, power: int) -> float:
        """1."""
        return 1.0

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""
        return np.asarray(z >= 1.0, float)
