"""AFL: minimises the loss of the worst mixture of users."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class Afl(Aggregation):
    """Changes are weighted by λ, ``x + Σ_k w_k (θ_k - base_k)``, which rises with the losses of the users.

    The sum is over the K deliveries of the round, and w_k is λ_k by default.  With ``weights: share`` it is
    ``λ_k / Σ_j λ_j`` over these deliveries (1/K if all of these λ are 0), and with ``weights: equal`` it is 1/K,
    whatever λ is.  After that ``λ_k ← λ_k + η_λ F_k`` for the delivered users, with the mean loss F_k of base_k over
    the examples of user k, and λ is projected onto the simplex (non-negative, sum 1).  It starts at 1/N.  Each delivery
    of a user in a round counts, for the version and for λ.  The evaluated model is the mean of all versions but the
    first, with one version for each round without deliveries; before the first round it is version 0.

    Source: Mohri, Sivek and Suresh, "Agnostic federated learning", ICML 2019, Fig. 3.  There all users are delivered
    in every round, each with one step.  Here users without delivery add nothing, so that a round of few deliveries
    makes a short step with the weights λ_k.  ``share`` and ``equal`` are the sampling options 1 and 2 in the code of Li
    et al., "Fair resource allocation in federated learning", ICLR 2020 (``flearn/trainers/fedbase.py``).  Its command
    for AFL has option 2.

    Example::

        kind: afl
        lr_lambda: 0.1
    """

    needs_losses: ClassVar[bool] = True
    lr_lambda: Annotated[float, Field(gt=0)]
    """Step size η_λ of the ascent on λ, in units of 1/loss."""
    weights: Literal["lambda", "share", "equal"] = "lambda"
    """The weights w_k of the changes: λ_k, their shares among the round's deliveries, or equal ones."""

    def open(self, users: int, current: Tensor) -> State:
        return {"weights": current.new_ones(users) / users, "mean": current.clone()}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        lambdas = state["weights"]
        losses = cast("Tensor", updates.losses)
        shares = self._shares(lambdas[updates.users])  # w_k
        following = current + shares @ (updates.models - updates.bases)
        risen = lambdas.index_add(0, updates.users, self.lr_lambda * losses)  # λ_k + η_λ F_k
        return following, {"weights": _projected(risen), "mean": _averaged(state, following, updates.round)}

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        return current, {**state, "mean": _averaged(state, current, index)}

    def reported(self, state: State, current: Tensor) -> Tensor:
        return state["mean"]

    @property
    def has_user_weights(self) -> bool:
        """True for the weights λ_k; shares and equal weights depend on the other deliveries."""
        return self.weights == "lambda"

    def user_weights(self, state: State) -> Tensor | None:
        if not self.has_user_weights:
            return None
        return len(state["weights"]) * state["weights"]

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return 1 for shares and equal weights; Σ λ_k over the deliveries is between 0 and 1, and follows losses."""
        return None if self.weights == "lambda" else 1.0

    def memory(self, users: int, parameters: int) -> int:
        return parameters + 1

    def _shares(self, lambdas: Tensor) -> Tensor:
        """Return the weights w_k of the deliveries, ``[k]``, given their λ_k."""
        if self.weights == "lambda":
            return lambdas
        equal = lambdas.new_ones(len(lambdas)) / len(lambdas)
        if self.weights == "equal":
            return equal
        total = lambdas.sum()
        return (lambdas / total).where(total > 0, equal)


def _averaged(state: State, version: Tensor, index: int) -> Tensor:
    """Return the mean of versions 1 to *index*, of which *version* is the last."""
    return state["mean"].lerp(version, 1 / index)


def _projected(point: Tensor) -> Tensor:
    """Return the nearest point of the simplex, ``max(point - τ, 0)``.

    τ is the largest of ``(s_j - 1) / j``, with the sum s_j of the j largest entries (Duchi et al., ICML 2008).
    """
    ranks = point.new_ones(len(point)).cumsum(0)  # j
    sums = point.sort(descending=True).values.cumsum(0)  # s_j
    threshold = ((sums - 1) / ranks).max()  # τ
    return (point - threshold).clamp(min=0)
