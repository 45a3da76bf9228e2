"""CLIMB: changes of users whose losses exceed the mean have a larger weight, by dual variables."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.learning.aggregation._last_losses import with_last

_MAX_LAMBDA = 100.0
"""Largest dual variable, as in the program of the authors."""


class Climb(Aggregation):
    """Changes are weighted by dual variables λ: ``x + η/K Σ_k a_k (θ_k - base_k)``, ``a_k = 1 + λ_k - mean λ``.

    The sum is over the K deliveries of the round.  The rule minimises the mean of the users' losses, subject to
    ``F_k - mean F ≤ ε`` for each user.  The λ are 0 at first.  After every P rounds, the primal rounds::

        λ_k ← min(max(λ_k + η_λ/N (F_k - mean F - ε), 0), 100)

    F_k are the losses of before these rounds, so that the weights lag by one step of λ.  N is the number of users.  The
    mean of a_k is 1 over all users, and not over those of a round.  An a_k is negative where the mean of λ exceeds
    1 + λ_k.

    In the paper all users report F_k before the primal rounds.  Here F_k comes with the updates: it is the mean loss of
    base_k over the examples of user k, of the last delivery whose base is a version of before the primal rounds.  A
    user that was never delivered has no F_k: it is left out of mean F, and its λ stays 0.  Each delivery of a user in a
    round counts in the sum, and the last one has its F_k.  Rounds without deliveries count in P.

    Source: Shen, Cervino, Hassani and Ribeiro, "An agnostic approach to federated learning with class imbalance", ICLR
    2022, with the bound of λ, the division by N and the defaults of the authors' program (``core/imbalance_fl.py``,
    ``core/fed_avg.py``).  FedPD in place of FedAvg in the primal rounds is not modelled.

    Example::

        kind: climb
        lr_lambda: 1
        epsilon: 0.1
        primal_rounds: 5
    """

    needs_losses: ClassVar[bool] = True
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""
    lr_lambda: Annotated[float, Field(gt=0)] = 1.0
    """Step size η_λ of the ascent on λ, in units of 1/loss."""
    epsilon: Annotated[float, Field(ge=0)] = 1.0
    """Tolerance ε: the loss above the mean that a user may have, in units of the loss."""
    primal_rounds: Annotated[int, Field(ge=1)] = 5
    """Number P of rounds between two steps of λ."""

    def open(self, users: int, current: Tensor) -> State:
        """Return λ and the losses F_k: the last ones, and those of before the primal rounds; infinite if unknown."""
        unknown = current.new_full((users,), math.inf)
        return {"lambdas": current.new_zeros(users), "losses": unknown, "earlier_losses": unknown}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        weights = self.user_weights(state)[updates.users]  # a_k
        change = weights @ (updates.models - updates.bases)
        following = current + self.server_lr / len(weights) * change

        first_version = (updates.round - 1) // self.primal_rounds * self.primal_rounds  # of the primal rounds
        is_earlier = updates.base_rounds <= first_version
        losses = cast("Tensor", updates.losses)
        reported = {
            "lambdas": state["lambdas"],
            "losses": with_last(state["losses"], updates.users, losses),
            "earlier_losses": with_last(state["earlier_losses"], updates.users, losses, is_earlier),
        }
        return following, self._after_round(reported, updates.round)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        return current, self._after_round(state, index)

    def user_weights(self, state: State) -> Tensor:
        """Return a_k of each user, ``[users]``; 1 is the weight of an average with equal weights."""
        lambdas = state["lambdas"]
        return 1.0 + lambdas - lambdas.mean()

    def _after_round(self, state: State, index: int) -> State:
        """Return the state after round *index*, which may be the last of the primal rounds."""
        if index % self.primal_rounds:
            return state
        lambdas = state["lambdas"]
        losses = state["earlier_losses"]  # F_k
        is_known = losses.isfinite()
        mean = losses.where(is_known, 0.0).sum() / is_known.sum().clamp(min=1)
        rise = self.lr_lambda / len(lambdas) * (losses - mean - self.epsilon)
        risen = (lambdas + rise).clamp(0.0, _MAX_LAMBDA).where(is_known, lambdas)
        return {"lambdas": risen, "losses": state["losses"], "earlier_losses": state["losses"]}
