"""FedAU: weights users by their mean interval between participations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from netfl.learning.aggregation import Aggregation, SingleUpdates, State, Tensor, Updates
from netfl.learning.aggregation._intervals import add_round, delivered_users, mean_intervals, open_intervals
from netfl.learning.aggregation._lanes import column, split_states, stack_states


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
        return open_intervals(users, current)

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        weights = self.user_weights(state).to(current)  # ω
        delivered = delivered_users(updates.users, state["ended"])
        change = weights[updates.users] @ (updates.models - updates.bases)
        following = current + self.server_lr / len(weights) * change
        return following, add_round(state, delivered, self.cutoff)

    @classmethod
    def step_together(
        cls, rules: Sequence[Self], states: Sequence[State], current: Tensor, updates: SingleUpdates
    ) -> tuple[Tensor, Sequence[State]]:
        state = stack_states(states)  # [lanes, users] each
        users = updates.users[:, None]
        weights = mean_intervals(state).to(current)
        change = weights.gather(1, users) * updates.changes
        factors = column([rule.server_lr / weights.shape[1] for rule in rules], current)  # η/N
        following = current + factors * change
        delivered = state["ended"].new_zeros(weights.shape).scatter_(1, users, 1).bool()
        cutoffs = column([rule.cutoff or 0 for rule in rules], state["lasting"])  # no interval is 0 rounds long
        return following, split_states(add_round(state, delivered, cutoffs))

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        delivered = state["ended"].new_zeros(len(state["ended"])).bool()
        return current, add_round(state, delivered, self.cutoff)

    def user_weights(self, state: State) -> Tensor:
        return mean_intervals(state)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``None``: the weights follow past deliveries; with a cutoff of 1 they are those of `average_all`."""
        if self.cutoff != 1:
            return None
        return self.server_lr * deliveries / users
