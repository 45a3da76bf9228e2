"""Distributions of durations and radii, specified by their mean and at most one parameter more."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, gamma, inf, isfinite, log, prod, sqrt
from statistics import NormalDist
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.core.spec import OnlyWith, Spec
from netfl.streams import RandomField, Streams
from netfl.types import Floats
from netfl.units import Metres, Seconds


class UnitMeanDistribution(Protocol):
    """A positive random number Z of mean 1.

    Draws are inversions of this package, not of ``scipy.stats``: its ``ppf`` differs in the last bits, and the
    exponential and normal draws of a `netfl.streams.RandomField` are made without an inverse.
    """

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        """Return draws keyed by (row, index)."""

    def residual(self, streams: Streams, rows: int) -> Floats:
        """Return a draw of the equilibrium residual for each row, independent of the number of rows."""

    def moment(self, power: int) -> float:
        """Return E[Z^power]; infinity if there is none."""

    def cdf(self, z: Floats) -> Floats:
        """Return P(Z ≤ z)."""


@dataclass(frozen=True, slots=True)
class _Weibull:
    """Z = E^(1/k) / Γ(1 + 1/k) with E exponential; k = 1 is the exponential distribution."""

    k: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return field.exponential(rows, index) ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def residual(self, streams: Streams, rows: int) -> Floats:
        # the density is proportional to exp(-(zΓ)^k): the k-th root of a gamma variable of shape 1/k
        draws = streams.rng().gamma(1.0 / self.k, size=rows)
        return draws ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def moment(self, power: int) -> float:
        return gamma(1.0 + power / self.k) / gamma(1.0 + 1.0 / self.k) ** power

    def cdf(self, z: Floats) -> Floats:
        return -np.expm1(-((np.maximum(z, 0.0) * gamma(1.0 + 1.0 / self.k)) ** self.k))


@dataclass(frozen=True, slots=True)
class _Lognormal:
    """Z = exp(σN - σ²/2) with N standard normal."""

    sigma: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return np.asarray(np.exp(self.sigma * field.normal(rows, index) - self.sigma**2 / 2.0))

    def residual(self, streams: Streams, rows: int) -> Floats:
        # a uniform part of the length-biased variable, which is lognormal with a logarithm greater by σ²
        part = streams.field("part").uniform(np.arange(rows))
        normal = streams.field("whole").normal(np.arange(rows))
        return part * np.exp(self.sigma * normal + self.sigma**2 / 2.0)

    def moment(self, power: int) -> float:
        return exp(self.sigma**2 * power * (power - 1) / 2.0)

    def cdf(self, z: Floats) -> Floats:
        normal = NormalDist(-(self.sigma**2) / 2.0, self.sigma)
        values = [normal.cdf(log(x)) if x > 0.0 else 0.0 for x in np.ravel(z)]
        return np.array(values).reshape(np.shape(z))


@dataclass(frozen=True, slots=True)
class _Gamma:
    """Z is a gamma variable of shape k, over k; k = 1 is exponential, an integer k is Erlang's distribution."""

    k: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return _gamma_quantile(self.k, field.uniform(rows, index)) / self.k

    def residual(self, streams: Streams, rows: int) -> Floats:
        # a uniform part of the length-biased variable, which is gamma of shape k + 1
        part = streams.field("part").uniform(np.arange(rows))
        uniform = streams.field("whole").uniform(np.arange(rows))
        return part * _gamma_quantile(self.k + 1.0, uniform) / self.k

    def moment(self, power: int) -> float:
        return prod((self.k + i) / self.k for i in range(power))

    def cdf(self, z: Floats) -> Floats:
        from scipy.special import gammainc

        return np.asarray(gammainc(self.k, self.k * np.maximum(z, 0.0)))


def _gamma_quantile(k: float, share: Floats) -> Floats:
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(k, share))


@dataclass(frozen=True, slots=True)
class _Pareto:
    """P(Z > z) = (m/z)^α from m = (α - 1)/α on."""

    alpha: float

    @property
    def _minimum(self) -> float:
        return (self.alpha - 1.0) / self.alpha

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return np.asarray(self._minimum * field.uniform(rows, index) ** (-1.0 / self.alpha))

    def residual(self, streams: Streams, rows: int) -> Floats:
        # inverse of the distribution function z up to m, and 1 - (m/z)^(α - 1) / α from there on
        u = streams.field().uniform(np.arange(rows))
        m = self._minimum
        beyond = m * (self.alpha * (1.0 - np.maximum(u, m))) ** (-1.0 / (self.alpha - 1.0))
        return np.where(u < m, u, beyond)

    def moment(self, power: int) -> float:
        if power >= self.alpha:
            return inf
        return self.alpha * self._minimum**power / (self.alpha - power)

    def cdf(self, z: Floats) -> Floats:
        return 1.0 - (self._minimum / np.maximum(z, self._minimum)) ** self.alpha


@dataclass(frozen=True, slots=True)
class _Uniform:
    """Z is uniform on 1 ± w."""

    width: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return 1.0 + self.width * (2.0 * field.uniform(rows, index) - 1.0)

    def residual(self, streams: Streams, rows: int) -> Floats:
        # inverse of the distribution function z up to 1 - w, and 1 - (1 + w - z)² / 4w from there on
        u = streams.field().uniform(np.arange(rows))
        w = self.width
        beyond = 1.0 + w - 2.0 * np.sqrt(w * (1.0 - u))
        return np.where(u < 1.0 - w, u, beyond)

    def moment(self, power: int) -> float:
        w = self.width
        next_power = power + 1
        return ((1.0 + w) ** next_power - (1.0 - w) ** next_power) / (2.0 * w * next_power)

    def cdf(self, z: Floats) -> Floats:
        return np.clip((z - 1.0 + self.width) / (2.0 * self.width), 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Hyperexponential:
    """Z is exponential with mean 1/2p with probability p, and with mean 1/2(1 - p) otherwise: balanced means."""

    cv: float

    @property
    def _p(self) -> float:
        """Probability of the short phase."""
        return (1.0 + sqrt((self.cv**2 - 1.0) / (self.cv**2 + 1.0))) / 2.0

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        p = self._p
        is_short = field.uniform(rows, index, 1) < p
        rate = np.where(is_short, 2.0 * p, 2.0 * (1.0 - p))
        return field.exponential(rows, index) / rate

    def residual(self, streams: Streams, rows: int) -> Floats:
        # each phase takes half of the time, and is memoryless
        p = self._p
        field = streams.field()
        every_row = np.arange(rows)
        is_short = field.uniform(every_row, 0, 1) < 0.5
        rate = np.where(is_short, 2.0 * p, 2.0 * (1.0 - p))
        return field.exponential(every_row) / rate

    def moment(self, power: int) -> float:
        return gamma(power + 1.0) * sum(p / (2.0 * p) ** power for p in (self._p, 1.0 - self._p))

    def cdf(self, z: Floats) -> Floats:
        above = np.maximum(z, 0.0)
        return np.asarray(1.0 - sum(p * np.exp(-2.0 * p * above) for p in (self._p, 1.0 - self._p)))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Z = 1."""

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        return np.ones(np.broadcast_shapes(np.shape(rows), np.shape(index)))

    def residual(self, streams: Streams, rows: int) -> Floats:
        return streams.field().uniform(np.arange(rows))

    def moment(self, power: int) -> float:
        return 1.0

    def cdf(self, z: Floats) -> Floats:
        return np.asarray(z >= 1.0, float)


class PositiveDistribution(Spec, ABC):
    """A positive distribution, specified by its mean and at most one parameter more.

    Exponential: P(X > x) = exp(-x/mean).  Fixed: always the mean.
    Weibull: P(X > x) = exp(-(x/λ)^k) with λ = mean / Γ(1 + 1/k); k < 1 has many short and few very long times.
    Gamma: of shape k, density ∝ x^(k-1) exp(-kx/mean); an integer k is Erlang's distribution.
    Pareto: P(X > x) = (m/x)^α from m = mean·(α - 1)/α on, α > 1; the variance is infinite for α ≤ 2.
    Lognormal: ln X is normal with standard deviation σ and mean ln(mean) - σ²/2.
    Uniform: on mean·(1 ± width).
    Hyperexponential: of two phases with balanced means, p₁/λ₁ = p₂/λ₂, and the coefficient of variation cv:
    p₁ = (1 + √((cv² - 1)/(cv² + 1)))/2 (W. Whitt, "Approximating a point process by a renewal process, I", Operations
    Research 30, 1982, section 3).
    """

    distribution: Literal[
        "exponential", "weibull", "lognormal", "gamma", "pareto", "uniform", "hyperexponential", "fixed"
    ]
    """The type of the distribution."""
    mean: Annotated[float, Field(gt=0)]
    """The mean."""
    shape: Annotated[
        float | None, Field(ge=0.2, le=100), OnlyWith("distribution", "weibull", "gamma", "pareto", needed=True)
    ] = None
    """The shape: k of Weibull and gamma, α of Pareto (above 1), and only of these."""
    sigma: Annotated[float | None, Field(gt=0, le=5), OnlyWith("distribution", "lognormal", needed=True)] = None
    """The standard deviation σ of the logarithm, lognormal only."""
    width: Annotated[float | None, Field(gt=0, le=1), OnlyWith("distribution", "uniform", needed=True)] = None
    """Half the width as a share of the mean, uniform only."""
    cv: Annotated[float | None, Field(gt=1, le=100), OnlyWith("distribution", "hyperexponential", needed=True)] = None
    """The coefficient of variation, hyperexponential only."""

    @model_validator(mode="after")
    def _check_parameters(self) -> PositiveDistribution:
        if self.distribution == "pareto" and self.shape is not None and self.shape <= 1.0:
            raise ValueError("a Pareto distribution has a mean only if its shape is above 1; increase it")
        return self

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> Floats:
        """Return draws keyed by (row, index)."""
        return self.mean * self._unit.draw(field, rows, index)

    def residual(self, streams: Streams, rows: int) -> Floats:
        """Return the rest of the current sojourn of stationary processes: density P(X > x) / mean."""
        return self.mean * self._unit.residual(streams, rows)

    def moment(self, power: int) -> float:
        """Return E[X^power]; infinity if there is none."""
        return self.mean**power * self._unit.moment(power)

    @property
    def variance(self) -> float:
        """The variance; infinity if there is none."""
        return self.moment(2) - self.mean**2

    def provable(self, power: int) -> bool:
        """Return whether an average of X^power can be tested, because its variance is finite."""
        return isfinite(self.moment(2 * power))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(X ≤ x)."""
        return self._unit.cdf(np.asarray(x, float) / self.mean)

    @property
    def _unit(self) -> UnitMeanDistribution:
        return _UNIT_MEAN[self.distribution](self)


_UNIT_MEAN: dict[str, Callable[[PositiveDistribution], UnitMeanDistribution]] = {
    "exponential": lambda spec: _Weibull(1.0),
    "weibull": lambda spec: _Weibull(spec.shape or 1.0),
    "gamma": lambda spec: _Gamma(spec.shape or 1.0),
    "pareto": lambda spec: _Pareto(spec.shape or 2.0),
    "lognormal": lambda spec: _Lognormal(spec.sigma or 1.0),
    "uniform": lambda spec: _Uniform(spec.width or 1.0),
    "hyperexponential": lambda spec: _Hyperexponential(spec.cv or 2.0),
    "fixed": lambda spec: _Fixed(),
}


class DurationDistribution(PositiveDistribution):
    """The distribution of a duration, such as a sojourn."""

    mean: Annotated[Seconds, Field(gt=0)]
    """The mean duration."""


class RadiusDistribution(PositiveDistribution):
    """The distribution of a length."""

    mean: Annotated[Metres, Field(gt=0)]
    """The mean length."""
