"""Users who hold more and users who hold less: laws of sizes."""

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

_OWN = {"power_law": "exponent", "lognormal": "sigma"}


class Sizes(Spec):
    """How many examples users hold: ``least`` each, and of all others a share in proportion to a weight.

    ``power_law``: weights W of Pareto's law, P(W > w) = w^-exponent from w = 1 on.  ``lognormal``: ln W is normal with
    standard deviation ``sigma``.
    """

    law: Literal["power_law", "lognormal"]
    """The law of the weights."""
    exponent: Annotated[float, Field(ge=0.1, le=100)] | None = None
    """The exponent of the power law, and only of that; the smaller, the more uneven."""
    sigma: Annotated[float, Field(gt=0, le=5)] | None = None
    """The standard deviation of the lognormal law, and only of that; the larger, the more uneven."""
    least: Annotated[int, Field(ge=1)] = 1
    """What every user holds at least."""

    @model_validator(mode="after")
    def _its_own(self) -> Sizes:
        """Want the law's own parameter, and refuse the other."""
        for law, name in _OWN.items():
            if (getattr(self, name) is not None) is not (law == self.law):
                raise ValueError(f"'{name}' is for the law {law}, which takes it")
        return self

    def weights(self, streams: Streams, users: int) -> NDArray[np.float64]:
        """The weight of each user."""
        field, who = streams.field("size"), np.arange(users)
        if self.exponent is not None:
            return np.asarray(field.uniform(who) ** (-1.0 / self.exponent))
        return np.asarray(np.exp((self.sigma or 0.0) * field.normal(who)))

    def counts(self, streams: Streams, users: int, examples: int) -> NDArray[np.int64]:
        """How many of all *examples* each user holds.

        Raises:
            ScenarioError: there are too few examples.
        """
        rest = examples - self.least * users
        if rest < 0:
            problem = f"{users} users cannot hold this many of {examples} examples each"
            raise ScenarioError([Fault("sizes.least", problem, self.least, "take fewer users, or more data")])
        return self.least + whole_portions(rest, self.weights(streams, users))

    def law_of_weights(self) -> Law:
        """What the weights claim."""
        from scipy import stats

        known: Any = stats.pareto(self.exponent) if self.exponent is not None else stats.lognorm(self.sigma)
        return Law("weight of a user's size", "as the law says, in its closed form", self.weights, cdf=known.cdf)
