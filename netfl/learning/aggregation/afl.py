"""AFL: the server learns which mix of the users is the worst, and learns for that one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Afl(Aggregation):
    """Changes count by weights λ, ``x + Σ_k λ_k (θ_k - base_k)``, which rise with the losses of their users.

    The sum runs over the round's deliveries.  Then ``λ_k ← λ_k + η_λ F_k`` for those heard, with F_k the mean loss of
    base_k over all that user k holds, and λ is projected onto the simplex (non-negative, of sum 1).  It starts at 1/N.
    A user that is heard twice in one round counts twice, for the version and for λ.  The model that is evaluated is the
    mean of all versions so far but the first, rounds without deliveries counted: version 0 before there is any other.

    Mohri, Sivek and Suresh, "Agnostic federated learning", ICML 2019, figure 3.  There all users are heard in every
    round, each with one step; of whom an access keeps silent, nothing is added here.

    Example::

        kind: afl
        lr_lambda: 0.1
    """

    lr_lambda: Annotated[float, Field(gt=0)]
    """Step size of the ascent on λ: η_λ, in units of one over the loss."""

    def open(self, users: int, current: Tensor) -> State:
        """λ, and the mean of the versions."""
        return {"weights": current.new_ones(users) / users, "mean": current.clone()}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The weighted changes; then the ascent."""
        weights = state["weights"]
        following = current + weights[updates.users] @ (updates.models - updates.bases)
        risen = weights.index_add(0, updates.users, self.lr_lambda * cast("Tensor", updates.losses))
        return following, {"weights": _projected(risen), "mean": _averaged(state, following, updates.round)}

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """The version as it is, which counts once more in the mean."""
        return current, {**state, "mean": _averaged(state, current, index)}

    def reported(self, state: State, current: Tensor) -> Tensor:
        """The mean of the versions."""
        return state["mean"]

    def user_weights(self, state: State) -> Tensor:
        """``N λ``: 1 for everyone at the start."""
        return len(state["weights"]) * state["weights"]

    @property
    def needs_losses(self) -> bool:
        """The F_k."""
        return True

    def memory(self, users: int, parameters: int) -> int:
        """The mean of the versions."""
        return parameters + 1

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its weights are tested against a projection by bisection"),)


def _averaged(state: State, version: Tensor, index: int) -> Tensor:
    """The mean of versions 1 to *index*, of which *version* is the last."""
    return state["mean"].lerp(version, 1 / index)


def _projected(point: Tensor) -> Tensor:
    """The point of the simplex that is nearest to *point*: ``max(point - τ, 0)``.

    τ is the largest of ``(s_j - 1) / j``, s_j the sum of the j largest entries (Duchi et al., ICML 2008).
    """
    ranks = point.new_ones(len(point)).cumsum(0)
    return (point - ((point.sort(descending=True).values.cumsum(0) - 1) / ranks).max()).clamp(min=0)
