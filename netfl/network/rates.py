"""Rates and probabilities of users by Zipf's law, instead of a list."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.registry import Spec


class Zipf(Spec):
    """Rates that decrease as a power of the user's number: ``rho_i`` in proportion to ``(i + 1) ** -zipf``."""

    zipf: Annotated[float, Field(ge=0)]
    """Exponent; 0 makes all rates equal."""

    def weights(self, users: int) -> NDArray[np.float64]:
        """Return ``(i + 1) ** -zipf`` of each user, ``[users]``; 1 for the first."""
        return np.asarray(np.arange(1, users + 1, dtype=float) ** -self.zipf)


class ZipfChances(Zipf):
    """Probabilities that decrease as a power of the user's number: ``p_i = highest * (i + 1) ** -zipf``."""

    highest: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Probability of user 0, the highest."""


def chances_of(probability: ZipfChances | tuple[float, ...] | float, users: int) -> NDArray[np.float64]:
    """Return the probability of each user, ``[users]``, from Zipf's law, a list, or one number for all."""
    if isinstance(probability, ZipfChances):
        return probability.highest * probability.weights(users)
    return np.full(users, probability) if isinstance(probability, float) else np.array(probability)
