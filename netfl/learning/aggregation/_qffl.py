"""The rule of q-FFL: changes count by a power of the loss, and the step shortens by how fast that power changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State

_TINY = 1e-10
"""Is added to losses, so that they have any power; that of the experiments in the paper."""


class QfflAggregation(Aggregation):
    """``x ← x - Σ_k Δ_k / Σ_k h_k`` of `qfedavg` and `qfedsgd`."""

    q: Annotated[float, Field(ge=0)]
    """How much fairness counts: 0 for none, which gives the mean of the changes."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The weighted changes; ``F^q`` is in both sums, and is taken relative to the largest, lest it overflow."""
        changes, inverse = updates.models - updates.bases, 1 / updates.rates[:, 0]
        losses = cast("Tensor", updates.losses) + _TINY
        power = (losses / losses.max()) ** self.q
        slopes = inverse**2 * changes[:, :-1].square().sum(1)
        curvature = power * (self.q / losses * slopes + inverse)
        return current + (power * inverse / curvature.sum()) @ changes, state

    @property
    def needs_losses(self) -> bool:
        """The F_k."""
        return True

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its versions are tested against the paper's, step by step"),)
