"""FedBuff: the mean of buffered changes, with a discount for staleness."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class Fedbuff(Aggregation):
    """The version moves by the discounted mean of the changes: ``x + η/B Σ_k s(τ_k) (θ_k - base_k)``.

    B is the number of the round's deliveries.  The staleness τ is the number of versions since the base of the update:
    ``τ = r - 1 - base`` in round r, 0 for the newest base.  ``s(τ) = (1 + τ)^-a`` with the exponent a.  The discounts
    are not normalized, so a buffer of stale changes moves the version less.  Without staleness and with η = 1 it is an
    `average` with equal weights.

    Source: Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022, algorithm 1 and
    the staleness scaling of its experiments, which have a = 0.5.  The access decides which deliveries make a round.

    Example::

        kind: fedbuff
        server_lr: 1
        exponent: 0.5
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""
    exponent: Annotated[float, Field(ge=0)] = 0.5
    """Exponent a of the staleness discount; 0 for no discount."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        age = (updates.round - updates.base_rounds).to(updates.models)  # 1 + τ
        weights = self.server_lr / len(age) * age**-self.exponent
        return current + weights @ (updates.models - updates.bases), state

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr
