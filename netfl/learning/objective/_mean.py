"""Objectives whose loss of a mini-batch is the mean of its examples' losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.learning.objective import Objective
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor


class MeanLoss(Objective):
    """Every example counts the same, and there is no t."""

    @staticmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Each example counts the same."""
        return share, t.new_zeros(t.shape)

    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """The expected loss of whom the server hears."""
        return float(losses @ rho)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an objective draws nothing; its gradient is tested against a calculation of its own"),)
