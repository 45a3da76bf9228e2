"""Empirical risk: the mean loss, which FedAvg minimises."""

from __future__ import annotations

from collections.abc import Mapping

from netfl.learning.objective import Objective, Tensor
from netfl.types import Floats


class Erm(Objective):
    """The mean loss of the mini-batch.  It has no t.

    Globally ``Σ_k ρ_k f_k``, with the mean loss f_k of user k and its share ρ_k of the deliveries.

    Source: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.

    Example::

        kind: erm
    """

    @staticmethod
    def gradient_weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return share, t.new_zeros(t.shape)

    @property
    def has_equal_weights(self) -> bool:
        """True, except for a derived class with other weights."""
        return type(self).gradient_weights is Erm.gradient_weights

    @property
    def largest_weight(self) -> float | None:
        """1, except for a derived class with other weights."""
        return 1.0 if self.has_equal_weights else None

    def value(self, losses: Floats, rho: Floats, t: float) -> float:
        return float(losses @ rho)
