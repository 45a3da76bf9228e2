"""MIFA: the server lets everybody's last gradients count, also of those whom it did not hear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netfl.learning.aggregation._per_user_state import PerUserState, pseudo_gradients, store_rows

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State, Updates


class Mifa(PerUserState):
    """The version moves along the mean of all users' last gradients: ``x - η lr_r/N Σ_n G_n``, in every round r.

    ``G_n = (base_n - θ_n) / lr_n``, of the update that user n last sent, with the step size lr_n that it was made with;
    0 before its first.  N is the number of all users, and lr_r the step size that the schedule has for the newest
    version, so that also what is remembered is taken with the present step.  Without a schedule it is the mean of all
    users' last changes.  A round in which nobody is heard moves the version by what is remembered.  Of a user that is
    heard twice in one round, the later update stays.  t has entries in G_n as θ does, with its own step size; a t that
    stays has none.

    Gu et al., "Fast federated learning in the presence of arbitrary device unavailability", NeurIPS 2021, algorithm 1,
    where η is 1; it begins with a round in which everybody is heard, which an access may not grant.

    Example::

        kind: mifa
        server_lr: 1
    """

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """A step along the mean of the memory, in which the new gradients are."""
        sums = pseudo_gradients(updates.models - updates.bases, updates.rates)
        return self.idle(store_rows(state, updates.users, sums), current, updates.round, updates.newest_rates)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """A step along the mean of the memory as it is."""
        move = self.server_lr * state["mean"]
        move[:-1] *= newest_rates[0]
        move[-1] *= newest_rates[1]
        return current - move, state
