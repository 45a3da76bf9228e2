"""FedAU: the server makes up for rare users by how long it has had to wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Fedau(Aggregation):
    """Changes count by the mean interval at which their users take part: ``x + η/N Σ_k ω_k (θ_k - base_k)``.

    The sum runs over the round's deliveries, N is the number of all users.  ω_k is the mean length, in rounds, of user
    k's intervals so far: an interval ends with a round in which the user takes part, or when it is ``cutoff`` rounds
    long.  One that ends in this round counts from the next round on; before the first has ended, ω_k = 1.  Rounds in
    which nobody is heard count, and a user that is heard several times in one round takes part in it once, with the sum
    of its changes.

    For users that take part independently with probability p, ω tends to ``(1 - (1-p)^K) / p``, K the cutoff: to 1/p
    without one.  With a cutoff of 1 it is `average_all`.

    Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024,
    algorithms 1 and 2.

    Example::

        kind: fedau
        cutoff: 50
        server_lr: 1
    """

    cutoff: Annotated[int, Field(ge=1)] | None = None
    """The longest that an interval can be, in rounds: K; by default there is no limit."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """How many intervals of each user have ended, their sum, and the length of the one that lasts: all 0."""
        none = current.new_zeros(users).long()
        return {"ended": none, "total": none, "lasting": none}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The weighted changes; the weights are those of the rounds before."""
        weights = self.user_weights(state).to(current)
        there = state["ended"].new_zeros(len(weights)).bool()
        there[updates.users] = True
        change = weights[updates.users] @ (updates.models - updates.bases)
        return current + self.server_lr / len(weights) * change, self._waited(state, there)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """The intervals go on."""
        return current, self._waited(state, state["ended"].new_zeros(len(state["ended"])).bool())

    def user_weights(self, state: State) -> Tensor:
        """ω."""
        ended, total = state["ended"], state["total"]
        return (total.double() / ended.clamp(min=1)).where(ended > 0, 1.0)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its weights are tested against algorithm 2, step by step"),)

    def _waited(self, state: State, there: Tensor) -> State:
        """What *state* becomes with one more round, in which those are heard who are *there*, ``[users]``."""
        lasting = state["lasting"] + 1
        ends = there if self.cutoff is None else there | (lasting == self.cutoff)
        total = state["total"] + lasting * ends
        return {"ended": state["ended"] + ends, "total": total, "lasting": lasting * ~ends}
