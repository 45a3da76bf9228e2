"""How long a node stays up or down, and how far a disaster reaches: positive laws, given by their mean."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, gamma, inf, isfinite, log, prod, sqrt
from statistics import NormalDist
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.registry import Spec
from netfl.streams import RandomField, Streams
from netfl.units import Metres, Seconds

# Positive random numbers of mean 1: what a law of times or lengths is when its mean is taken out.


class UnitMeanDistribution(Protocol):
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
        from scipy.special import gammainc

        return np.asarray(gammainc(self.k, self.k * np.maximum(z, 0.0)))


def _gamma_quantile(k: float, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a gamma variable of shape k is below with probability *share*."""
    from scipy.special import gammaincinv

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


class PositiveDistribution(Spec, ABC):
    """A positive law, given by its mean and at most one parameter more.

    Exponential: P(X > x) = exp(-x/mean).  Fixed: always the mean.
    Weibull: P(X > x) = exp(-(x/λ)^k) with λ = mean / Γ(1 + 1/k); k < 1 has many short and few very long times.
    Gamma: of shape k, density ∝ x^(k-1) exp(-kx/mean); a whole k is Erlang's law.
    Pareto: P(X > x) = (m/x)^α from m = mean·(α - 1)/α on, α > 1; the variance is infinite for α ≤ 2.
    Lognormal: ln X is normal with standard deviation σ and mean ln(mean) - σ²/2.
    Uniform: on mean·(1 ± width).
    Hyperexponential: of two phases with balanced means, p₁/λ₁ = p₂/λ₂, and the coefficient of variation cv:
    p₁ = (1 + √((cv² - 1)/(cv² + 1)))/2 (W. Whitt, "Approximating a point process by a renewal process, I", Operations
    Research 30, 1982, section 3).
    """

    law: Literal["exponential", "weibull", "lognormal", "gamma", "pareto", "uniform", "hyperexponential", "fixed"]
    """Which law."""
    mean: Annotated[float, Field(gt=0)]
    """The mean."""
    shape: Annotated[float, Field(ge=0.2, le=100)] | None = None
    """The shape: k of the Weibull and gamma laws, α of the Pareto law (above 1), and only of those."""
    sigma: Annotated[float, Field(gt=0, le=5)] | None = None
    """The standard deviation σ of the logarithm, of the lognormal law only."""
    width: Annotated[float, Field(gt=0, le=1)] | None = None
    """Half the width of the uniform law, as a share of its mean, and only of that law."""
    cv: Annotated[float, Field(gt=1, le=100)] | None = None
    """The coefficient of variation of the hyperexponential law, and only of that."""

    _OWNERS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "shape": ("weibull", "gamma", "pareto"),
        "sigma": ("lognormal",),
        "width": ("uniform",),
        "cv": ("hyperexponential",),
    }

    @model_validator(mode="after")
    def _own_keys(self) -> PositiveDistribution:
        """Each law has its own keys."""
        for key, owners in self._OWNERS.items():
            given = getattr(self, key) is not None
            if given and self.law not in owners:
                raise ValueError(f"{key} has no effect on the {self.law} law; leave it out, or take {_either(owners)}")
            if not given and self.law in owners:
                raise ValueError(f"the {self.law} law needs a {key}")
        if self.law == "pareto" and (self.shape or 0.0) <= 1.0:
            raise ValueError("a Pareto law has a mean only if its shape is above 1")
        return self

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """The draws of (row, index)."""
        return self.mean * self._unit.draw(field, rows, index)

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """What is left of the sojourn that a stationary process is in, at any instant: density P(X > x) / mean."""
        return self.mean * self._unit.residual(streams, rows)

    def moment(self, power: int) -> float:
        """E[X^power]; infinity if there is none."""
        return self.mean**power * self._unit.moment(power)

    @property
    def variance(self) -> float:
        """The variance; infinity if there is none."""
        return self.moment(2) - self.mean**2

    def provable(self, power: int) -> bool:
        """Whether an average of X^power can be held to its claim: its own variance is finite."""
        return isfinite(self.moment(2 * power))

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """P(X ≤ x)."""
        return self._unit.cdf(np.asarray(x, float) / self.mean)

    @property
    def _unit(self) -> UnitMeanDistribution:
        """The law with its mean taken out."""
        return _SHAPES[self.law](self)


_SHAPES: dict[str, Callable[[PositiveDistribution], UnitMeanDistribution]] = {
    "exponential": lambda law: Weibull(1.0),
    "weibull": lambda law: Weibull(law.shape or 1.0),
    "gamma": lambda law: Gamma(law.shape or 1.0),
    "pareto": lambda law: Pareto(law.shape or 2.0),
    "lognormal": lambda law: Lognormal(law.sigma or 1.0),
    "uniform": lambda law: Uniform(law.width or 1.0),
    "hyperexponential": lambda law: Hyperexponential(law.cv or 2.0),
    "fixed": lambda law: Fixed(),
}


class DurationDistribution(PositiveDistribution):
    """The law of a time, such as a sojourn."""

    mean: Annotated[Seconds, Field(gt=0)]
    """The mean time."""


class RadiusDistribution(PositiveDistribution):
    """The law of a length."""

    mean: Annotated[Metres, Field(gt=0)]
    """The mean length."""


def _either(laws: tuple[str, ...]) -> str:
    """The laws that a key belongs to."""
    return " or ".join(f"law: {law}" for law in laws)
