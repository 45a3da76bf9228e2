"""Empirical risk: the mean loss, what FedAvg minimises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.learning.objective import Objective
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor


class Erm(Objective):
    """The mean loss of the mini-batch.

    Globally ``Σ_k ρ_k f_k``, with f_k the mean loss of user k and ρ_k its share of what is heard (McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017).  It has no t.

    Example::

        kind: erm
    """

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
