"""How long a node stays up or down, and how far a disaster reaches: positive laws, given by their mean."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.outage._shapes import (
    Fixed,
    Gamma,
    Hyperexponential,
    Lognormal,
    Pareto,
    Shape,
    Uniform,
    Weibull,
)
from netfl.registry import Spec
from netfl.streams import Field as RandomField
from netfl.streams import Streams
from netfl.units import Metres, Seconds


class Positive(Spec, ABC):
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
    def _own_keys(self) -> Positive:
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
    def _unit(self) -> Shape:
        """The law with its mean taken out."""
        return _SHAPES[self.law](self)


_SHAPES: dict[str, Callable[[Positive], Shape]] = {
    "exponential": lambda law: Weibull(1.0),
    "weibull": lambda law: Weibull(law.shape or 1.0),
    "gamma": lambda law: Gamma(law.shape or 1.0),
    "pareto": lambda law: Pareto(law.shape or 2.0),
    "lognormal": lambda law: Lognormal(law.sigma or 1.0),
    "uniform": lambda law: Uniform(law.width or 1.0),
    "hyperexponential": lambda law: Hyperexponential(law.cv or 2.0),
    "fixed": lambda law: Fixed(),
}


class Lifetime(Positive):
    """The law of a time, such as a sojourn."""

    mean: Annotated[Seconds, Field(gt=0)]
    """The mean time."""


class Extent(Positive):
    """The law of a length."""

    mean: Annotated[Metres, Field(gt=0)]
    """The mean length."""


def _either(laws: tuple[str, ...]) -> str:
    """The laws that a key belongs to."""
    return " or ".join(f"law: {law}" for law in laws)
