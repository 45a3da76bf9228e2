"""AFL: minimises the loss of the worst mixture of users."""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates

_TINY = 1e-30
"""Smallest sum of weights that is divided by."""


class Afl(Aggregation):
    """Changes are weighted by λ, ``x + Σ_k λ_k (θ_k - base_k)``, which rises with the losses of the users.

    The sum is over the round's deliveries.  Then ``λ_k ← λ_k + η_λ F_k`` for the delivered users, with the mean loss
    F_k of base_k over the examples of user k, and λ is projected onto the simplex (non-negative, sum 1).  It starts at
    1/N.  Each delivery of a user in a round counts, for the version and for λ.  The evaluated model is the mean of all
    versions but the first, with one version for each round without deliveries; before the first round it is version 0.

    Source: Mohri, Sivek and Suresh, "Agnostic federated learning", ICML 2019, Fig. 3.  There all users are delivered
    in every round, each with one step; here users without delivery add nothing.  With few deliveries, Σ λ_k over them
    is small, and so is the step: with one of 30 users in a round, the first steps have a thirtieth of the length.
    ``normalized`` divides by this sum.

    Example::

        kind: afl
        lr_lambda: 0.1
    """

    needs_losses: ClassVar[bool] = True
    lr_lambda: Annotated[float, Field(gt=0)]
    """Step size η_λ of the ascent on λ, in units of 1/loss."""
    normalized: bool = False
    """Divide the weights by Σ λ_k over the round's deliveries, so that few deliveries make no shorter step."""

    def open(self, users: int, current: Tensor) -> State:
        return {"weights": current.new_ones(users) / users, "mean": current.clone()}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        weights = state["weights"]
        delivered = weights[updates.users]
        if self.normalized:
            delivered = delivered / delivered.sum().clamp(min=_TINY)  # no step where all λ_k are 0
        following = current + delivered @ (updates.models - updates.bases)
        risen = weights.index_add(0, updates.users, self.lr_lambda * cast("Tensor", updates.losses))
        return following, {"weights": _projected(risen), "mean": _averaged(state, following, updates.round)}

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        return current, {**state, "mean": _averaged(state, current, index)}

    def reported(self, state: State, current: Tensor) -> Tensor:
        return state["mean"]

    def user_weights(self, state: State) -> Tensor:
        return len(state["weights"]) * state["weights"]

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return 1 if normalized, else ``None``: Σ λ_k over the deliveries is between 0 and 1, and follows losses."""
        return 1.0 if self.normalized else None

    def memory(self, users: int, parameters: int) -> int:
        return parameters + 1


def _averaged(state: State, version: Tensor, index: int) -> Tensor:
    """Return the mean of versions 1 to *index*, of which *version* is the last."""
    return state["mean"].lerp(version, 1 / index)


def _projected(point: Tensor) -> Tensor:
    """Return the nearest point of the simplex, ``max(point - τ, 0)``.

    τ is the largest of ``(s_j - 1) / j``, with the sum s_j of the j largest entries (Duchi et al., ICML 2008).
    """
    ranks = point.new_ones(len(point)).cumsum(0)
    return (point - ((point.sort(descending=True).values.cumsum(0) - 1) / ranks).max()).clamp(min=0)
