"""Rates, probabilities and weights of users: by Zipf's law, as a mapping, or as a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.types import Floats, ScenarioFacts

Probabilities = Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
"""Probabilities above 0, one for each user."""


class Zipf(Spec):
    """Rates that decrease as a power of the user's number: ``rho_i`` in proportion to ``(i + 1) ** -zipf``."""

    zipf: Annotated[float, Field(ge=0)]
    """Exponent; 0 makes all rates equal."""

    def weights(self, users: int) -> Floats:
        """Return ``(i + 1) ** -zipf`` of each user, ``[users]``; 1 for the first."""
        return np.asarray(np.arange(1, users + 1, dtype=float) ** -self.zipf)


class ZipfChances(Zipf):
    """Probabilities that decrease as a power of the user's number: ``p_i = highest * (i + 1) ** -zipf``."""

    max_probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability of user 0, the highest."""


def chances_of(probability: ZipfChances | tuple[float, ...] | float, users: int) -> Floats:
    """Return the probability of each user, ``[users]``, from Zipf's law, a list, or one number for all."""
    if isinstance(probability, ZipfChances):
        return probability.max_probability * probability.weights(users)
    if isinstance(probability, float):
        return np.full(users, probability)
    return np.array(probability)


def _by_flow(value: Any) -> Any:
    """Return a list as a mapping from flows, and anything else as it is."""
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return value


_Weight = Annotated[float, Field(gt=0)]
_ByFlow = dict[Annotated[int, Field(ge=0)], _Weight]

Weights = Annotated[_ByFlow, BeforeValidator(_by_flow, json_schema_input_type=_ByFlow | tuple[_Weight, ...])]
"""A mapping from flows, such as ``{0: 3, 7: 0.5}``, or a list for the flows 0, 1, …; other flows have the weight 1."""


def weight_faults(weights: dict[int, float] | None, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the errors of weights of unknown users.  With a duration, flows are numbered and any number is valid."""
    if facts.duration_s is None:
        yield from facts.unknown_users("weights", weights or ())
