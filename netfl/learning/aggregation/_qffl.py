"""The rule of q-FFL: weights are powers of the loss, and the step size follows from an estimated curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Updates

if TYPE_CHECKING:
    from torch import Tensor


_TINY = 1e-10
"""Added to losses, so that every power exists; as in the experiments of the paper."""


class QfflAggregation(Aggregation):
    """``x ← x - Σ_k Δ_k / Σ_k h_k`` of `qfedavg` and `qfedsgd`."""

    q: Annotated[float, Field(ge=0)]
    """Fairness parameter q; 0 gives the mean of the changes."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """Add the weighted changes.  ``F^q`` in both sums is relative to the largest, to avoid overflow."""
        changes, inverse = updates.models - updates.bases, 1 / updates.rates[:, 0]
        losses = cast("Tensor", updates.losses) + _TINY
        power = (losses / losses.max()) ** self.q
        slopes = inverse**2 * changes[:, :-1].square().sum(1)
        curvature = power * (self.q / losses * slopes + inverse)
        return current + (power * inverse / curvature.sum()) @ changes, state

    @property
    def needs_losses(self) -> bool:
        """True: the rule uses F_k."""
        return True
