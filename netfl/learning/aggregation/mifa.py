"""MIFA: the mean of the last gradients of all users, with or without delivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from netfl.learning.aggregation import SingleUpdates, State, Tensor, Updates
from netfl.learning.aggregation._lanes import column, stack_states
from netfl.learning.aggregation._per_user_state import PerUserState, pseudo_gradients, store_rows, store_single_rows


class Mifa(PerUserState):
    """The version moves along the mean of all users' last gradients: ``x - η lr_r/N Σ_n G_n``, in every round r.

    ``G_n = (base_n - θ_n) / lr_n`` of the last update of user n, with its step size lr_n; 0 before its first.  N is the
    number of users, and lr_r the step size of the schedule for the newest version, which also applies to remembered
    gradients.  Without a schedule it is the mean of all users' last changes.  A round without deliveries moves the
    version by the remembered gradients.  Of several deliveries of a user in one round, the last is remembered.  t has
    entries in G_n as θ does, with its own step size; a constant t has none.  With a step size of 0, G_n counts as 0.

    Source: Gu et al., "Fast federated learning in the presence of arbitrary device unavailability", NeurIPS 2021,
    algorithm 1 with η = 1.  It begins with a round of all users, which an access may not provide.

    Example::

        kind: mifa
        server_lr: 1
    """

    divides_by_rates: ClassVar[bool] = True

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        sums = pseudo_gradients(updates.models - updates.bases, updates.rates)
        state = store_rows(state, updates.users, sums, updates.has_repeats)
        return self.idle(state, current, updates.round, updates.newest_rates)

    @classmethod
    def step_together(
        cls, rules: Sequence[Self], states: Sequence[State], current: Tensor, updates: SingleUpdates
    ) -> tuple[Tensor, Sequence[State]]:
        sums = pseudo_gradients(updates.changes, updates.rates)
        following = store_single_rows(states, updates.users, sums)
        means = stack_states(following, "mean")["mean"]
        move = column([rule.server_lr for rule in rules], current) * means
        move[:, :-1].mul_(updates.newest_rates[:, :1])
        move[:, -1].mul_(updates.newest_rates[:, 1])
        return current - move, following

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        move = self.server_lr * state["mean"]  # η/N Σ_n G_n, a new tensor
        move[:-1].mul_(newest_rates[0])
        move[-1].mul_(newest_rates[1])
        return current - move, state
