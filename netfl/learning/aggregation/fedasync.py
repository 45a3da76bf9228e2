"""FedAsync: mixes each delivered model into the version, stale models with a smaller weight."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from netfl.core.spec import OnlyWith
from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class Fedasync(Aggregation):
    """Each delivered model is mixed into the version: ``x ← (1 - α_τ) x + α_τ θ_k`` with ``α_τ = α s(τ)``.

    The staleness τ is the number of versions since the base of the update: ``τ = r - 1 - base`` in round r, 0 for the
    newest base.  ``constant``: s(τ) = 1; ``polynomial``: ``s(τ) = (1 + τ)^-a``; ``hinge``: ``s(τ) = 1`` up to τ = b,
    and ``1 / (a (τ - b) + 1)`` above.

    Source: Xie, Koyejo and Gupta, "Asynchronous federated optimization", 2019, algorithm 1 and section 5.2.  There each
    delivery makes a version; here the deliveries of a round are mixed in one after the other, in the order of their
    arrival.  The algorithm counts staleness from the version that is being made, so that the newest base has τ = 1;
    here an update from the newest base keeps its full weight.

    Example::

        kind: fedasync
        alpha: 0.6
        staleness: polynomial
        a: 0.5
    """

    alpha: Annotated[float, Field(gt=0, le=1)]
    """Weight α of a model with staleness 0, in (0, 1]; with 1 and one delivery, the model is the next version."""
    staleness: Literal["constant", "polynomial", "hinge"] = "constant"
    """Discount s of the staleness."""
    a: Annotated[Annotated[float, Field(gt=0)] | None, OnlyWith("staleness", "polynomial", "hinge", needed=True)] = None
    """Rate a of the discount; not for ``constant``."""
    b: Annotated[Annotated[float, Field(ge=0)] | None, OnlyWith("staleness", "hinge", needed=True)] = None
    """Staleness b up to which there is no discount; only for ``hinge``."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        return self.next_buffers(current, updates), state

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        """Mix the delivered models into *current*, buffers like parameters."""
        staleness = updates.round - 1 - updates.base_rounds  # τ
        weights = self.alpha * self._discount(staleness.to(updates.models))
        for weight, model in zip(weights, updates.models, strict=True):
            current = current.lerp(model, weight)
        return current

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``1 - (1-α)^D``, which D deliveries without staleness have together."""
        return 1 - (1 - self.alpha) ** deliveries

    def _discount(self, tau: Tensor) -> Tensor:
        """Return s(τ); a ``constant`` one is a hinge without a slope."""
        if self.staleness == "polynomial":
            return (1 + tau) ** -(self.a or 0)
        excess = (tau - (self.b or 0)).clamp(min=0)
        return 1 / ((self.a or 0) * excess + 1)
