"""Distributions of the number of examples of users."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.partition._allocation import whole_portions
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law

_PARAMETERS = {"power_law": "exponent", "lognormal": "sigma"}


class Sizes(Spec):
    """The number of examples of each user: ``least``, and a share of the others in proportion to a random weight W.

    ``power_law``: Pareto weights, P(W > w) = w^-exponent for w >= 1.  ``lognormal``: ln W is normal with standard
    deviation ``sigma``.
    """

    law: Literal["power_law", "lognormal"]
    """The distribution of the weights."""
    exponent: Annotated[float, Field(ge=0.1, le=100)] | None = None
    """The exponent of ``power_law``; the smaller, the more uneven."""
    sigma: Annotated[float, Field(gt=0, le=5)] | None = None
    """The standard deviation of ``lognormal``; the larger, the more uneven."""
    least: Annotated[int, Field(ge=1)] = 1
    """Fewest examples of a user."""

    @model_validator(mode="after")
    def _check_parameters(self) -> Sizes:
        for law, name in _PARAMETERS.items():
            if (getattr(self, name) is not None) is not (law == self.law):
                raise ValueError(f"'{name}' is for the law {law}, which takes it")
        return self

    def draw_weights(self, streams: Streams, users: int) -> NDArray[np.float64]:
        """Draw the weight of each user."""
        field, ids = streams.field("size"), np.arange(users)
        if self.exponent is not None:
            return np.asarray(field.uniform(ids) ** (-1.0 / self.exponent))
        return np.asarray(np.exp((self.sigma or 0.0) * field.normal(ids)))

    def draw_counts(self, streams: Streams, users: int, examples: int) -> NDArray[np.int64]:
        """Draw the number of each user's examples, *examples* in all.

        Raises:
            ScenarioError: there are too few examples.
        """
        rest = examples - self.least * users
        if rest < 0:
            problem = f"{users} users cannot hold this many of {examples} examples each"
            raise ScenarioError([Fault("sizes.least", problem, self.least, "take fewer users, or more data")])
        return self.least + whole_portions(rest, self.draw_weights(streams, users))

    def weight_law(self) -> Law:
        """State the distribution of the weights."""
        from scipy import stats

        known: Any = stats.pareto(self.exponent) if self.exponent is not None else stats.lognorm(self.sigma)
        return Law("weight of a user's size", "as the law says, in its closed form", self.draw_weights, cdf=known.cdf)
