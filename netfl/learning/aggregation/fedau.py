"""FedAU: weights users by their mean interval between participations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class Fedau(Aggregation):
    """Changes are weighted by the mean interval between participations: ``x + η/N Σ_k ω_k (θ_k - base_k)``.

    The sum is over the round's deliveries, and N is the number of users.  ω_k is the mean length, in rounds, of the
    intervals of user k so far.  An interval ends with a round in which the user participates, or when it is ``cutoff``
    rounds long.  An interval that ends in this round counts from the next round on; before the end of the first,
    ω_k = 1.  Rounds without deliveries count.  A user with several deliveries in a round participates once, with the
    sum of its changes.

    For users that participate independently with probability p, ω tends to ``(1 - (1-p)^K) / p`` with the cutoff K,
    and to 1/p without a cutoff.  With a cutoff of 1 it is `average_all`.

    Source: Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated averaging",
    ICLR 2024, algorithms 1 and 2.

    Example::

        kind: fedau
        cutoff: 50
        server_lr: 1
    """

    cutoff: Annotated[int, Field(ge=1)] | None = None
    """Maximum length K of an interval, in rounds; by default there is no limit."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """Return for each user the number of ended intervals, their sum, and the length of the current one: 0."""
        none = current.new_zeros(users).long()
        return {"ended": none, "total": none, "lasting": none}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        weights = self.user_weights(state).to(current)
        delivered = state["ended"].new_zeros(len(weights)).index_fill_(0, updates.users, 1).bool()
        change = weights[updates.users] @ (updates.models - updates.bases)
        return current + self.server_lr / len(weights) * change, self._add_round(state, delivered)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        return current, self._add_round(state, state["ended"].new_zeros(len(state["ended"])).bool())

    def user_weights(self, state: State) -> Tensor:
        ended, total = state["ended"], state["total"]
        return (total.double() / ended.clamp(min=1)).masked_fill(ended == 0, 1.0)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``None``: the weights follow past deliveries; with a cutoff of 1 they are those of `average_all`."""
        return self.server_lr * deliveries / users if self.cutoff == 1 else None

    def _add_round(self, state: State, delivered: Tensor) -> State:
        """Add a round in which the users in the mask *delivered*, ``[users]``, participate."""
        lasting = state["lasting"] + 1
        ends = delivered if self.cutoff is None else delivered | (lasting == self.cutoff)
        total = state["total"] + lasting * ends
        return {"ended": state["ended"] + ends, "total": total, "lasting": lasting.masked_fill(ends, 0)}
