"""How long a node stays up or down: four laws, each a mean times a draw of mean 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, gamma, log
from statistics import NormalDist
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.registry import Spec
from netfl.streams import Field as RandomField
from netfl.streams import Streams
from netfl.units import Seconds


class Lifetime(Spec):
    """The law of a sojourn time: ``exponential``, ``weibull``, ``lognormal`` or ``fixed``, given by its mean.

    Weibull: P(X > x) = exp(-(x/λ)^k) with λ = mean / Γ(1 + 1/k); k < 1 has many short and few very long sojourns.
    Lognormal: ln X is normal with standard deviation σ and mean ln(mean) - σ²/2.
    """

    law: Literal["exponential", "weibull", "lognormal", "fixed"]
    """Which law."""
    mean: Annotated[Seconds, Field(gt=0)]
    """The mean sojourn."""
    shape: Annotated[float, Field(ge=0.2, le=100)] | None = None
    """The shape k of the Weibull law, and only of that."""
    sigma: Annotated[float, Field(gt=0, le=5)] | None = None
    """The standard deviation σ of the logarithm, of the lognormal law only."""

    @model_validator(mode="after")
    def _own_keys(self) -> Lifetime:
        """Each law has its own keys."""
        for key, owner in (("shape", "weibull"), ("sigma", "lognormal")):
            given = getattr(self, key) is not None
            if given and self.law != owner:
                raise ValueError(f"{key} has no effect on the {self.law} law; leave it out, or take law: {owner}")
            if not given and self.law == owner:
                raise ValueError(f"the {owner} law needs a {key}")
        return self

    def draw_s(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """The sojourns of (row, index)."""
        return self.mean * self._unit.draw(field, rows, index)

    def residual_s(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """What is left of the sojourn that a stationary process is in, at any instant: density P(X > x) / mean."""
        return self.mean * self._unit.residual(streams, rows)

    def moment_s(self, power: int) -> float:
        """E[X^power], of a sojourn X."""
        return self.mean**power * self._unit.moment(power)

    @property
    def variance_s2(self) -> float:
        """The variance of a sojourn."""
        return self.moment_s(2) - self.mean**2

    def cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(X ≤ x)."""
        return self._unit.cdf(np.asarray(x) / self.mean)

    @property
    def _unit(self) -> _Unit:
        """The law with its mean taken out."""
        match self.law:
            case "weibull":
                return _Weibull(self.shape or 1.0)
            case "lognormal":
                return _Lognormal(self.sigma or 1.0)
            case "fixed":
                return _Fixed()
        return _Weibull(1.0)


class _Unit(Protocol):
    """A positive random number of mean 1."""

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        """Draws keyed by (row, index)."""

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        """A draw of the equilibrium residual for each row; a row's does not depend on how many follow it."""

    def moment(self, power: int) -> float:
        """E[Z^power]."""

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Z ≤ z)."""


@dataclass(frozen=True, slots=True)
class _Weibull:
    """Z = E^(1/k) / Γ(1 + 1/k) with E exponential; k = 1 is the exponential law."""

    k: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        return field.exponential(rows, index) ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        # the density is proportional to exp(-(zΓ)^k): the k-th root of a gamma variable of shape 1/k
        return streams.rng().gamma(1.0 / self.k, size=rows) ** (1.0 / self.k) / gamma(1.0 + 1.0 / self.k)

    def moment(self, power: int) -> float:
        return gamma(1.0 + power / self.k) / gamma(1.0 + 1.0 / self.k) ** power

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return -np.expm1(-((np.maximum(z, 0.0) * gamma(1.0 + 1.0 / self.k)) ** self.k))


@dataclass(frozen=True, slots=True)
class _Lognormal:
    """Z = exp(σN - σ²/2) with N standard normal."""

    sigma: float

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.exp(self.sigma * field.normal(rows, index) - self.sigma**2 / 2.0))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        # a uniform part of the length-biased law, which is lognormal again, its logarithm σ² higher
        part = streams.field("part").uniform(np.arange(rows))
        return part * np.exp(self.sigma * streams.field("whole").normal(np.arange(rows)) + self.sigma**2 / 2.0)

    def moment(self, power: int) -> float:
        return exp(self.sigma**2 * power * (power - 1) / 2.0)

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        law = NormalDist(-(self.sigma**2) / 2.0, self.sigma)
        return np.array([law.cdf(log(one)) if one > 0.0 else 0.0 for one in np.ravel(z)]).reshape(np.shape(z))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Z = 1."""

    def draw(self, field: RandomField, rows: ArrayLike, index: ArrayLike) -> NDArray[np.float64]:
        return np.ones(np.broadcast_shapes(np.shape(rows), np.shape(index)))

    def residual(self, streams: Streams, rows: int) -> NDArray[np.float64]:
        return streams.field().uniform(np.arange(rows))

    def moment(self, power: int) -> float:
        return 1.0

    def cdf(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(z >= 1.0, float)
