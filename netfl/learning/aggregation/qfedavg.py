"""q-FedAvg: changes of users with a large loss have a larger weight."""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates

_TINY = 1e-10
"""Added to losses, so that every power exists; as in the experiments of the paper."""


class Qfedavg(Aggregation):
    """Changes are weighted by a power of the user's loss: ``x ← x - Σ_k Δ_k / Σ_k h_k``, for the objective of q-FFL.

    The sums are over the round's deliveries.  ``Δ_k = F_k^q Δw_k`` and ``h_k = q F_k^(q-1) ‖Δw_k‖² + L F_k^q``, with
    ``Δw_k = L (base_k - θ_k)``, the user's ``L = 1/lr``, and the mean loss F_k of base_k over the examples of user k
    plus 1e-10.  With q = 0 and one lr it is an `average` with equal weights, if all bases are x.  t moves by the same
    weights; it is not part of the norm.  F_k is the mean loss for any local objective.  As L grows without bound with a
    step size that falls to 0, a round with such an update leaves the version as it is.

    Source: Li et al., "Fair resource allocation in federated learning", ICLR 2020, algorithm 2.

    Example::

        kind: qfedavg
        q: 1
    """

    needs_losses: ClassVar[bool] = True
    divides_by_rates: ClassVar[bool] = True
    q: Annotated[float, Field(ge=0)]
    """Fairness parameter q; 0 gives the mean of the changes."""

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return 1 for q = 0; else ``None``, as the weights follow the losses and the lengths of the changes."""
        return 1.0 if self.q == 0 else None

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """Add the weighted changes.  ``F^q`` in both sums is relative to the largest, to avoid overflow."""
        changes = updates.models - updates.bases
        inverse = 1 / updates.rates[:, 0]  # L
        losses = cast("Tensor", updates.losses) + _TINY  # F_k
        power = (losses / losses.max()) ** self.q  # F_k^q
        squares = inverse**2 * changes[:, :-1].square().sum(1)  # ‖Δw_k‖²
        curvature = power * (self.q / losses * squares + inverse)  # h_k
        move = (power * inverse / curvature.sum()) @ changes  # - Σ_k Δ_k / Σ_k h_k
        return current + move.masked_fill(updates.rates[:, 0].min() <= 0, 0.0), state
