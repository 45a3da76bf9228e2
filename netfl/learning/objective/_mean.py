"""Base class of objectives with equal weights and without t."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.learning.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor


class MeanLoss(Objective):
    """The mean loss of the mini-batch."""

    @staticmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return equal weights."""
        return share, t.new_zeros(t.shape)

    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """Return ``Σ_k ρ_k f_k``."""
        return float(losses @ rho)
