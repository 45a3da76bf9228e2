"""FedVARP: the server takes the changes of those whom it did not hear to be what they last were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netfl.learning.aggregation._per_user_state import PerUserState, store_rows

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State, Updates


class Fedvarp(PerUserState):
    """The mean change of those heard, corrected by what is remembered: ``x + η (mean_k (Δ_k - y_k) + 1/N Σ_n y_n)``.

    The first mean runs over the round's deliveries, Δ_k is a change, model less base, and y_n the change that user n
    had sent last before this round, 0 before its first; N is the number of all users.  A round in which nobody is heard
    moves the version by the mean of the y.  A user that is heard twice in one round counts twice in the first mean,
    both times beside the y of before the round; its later change is remembered.  Changes are kept as they were sent:
    the paper is taken to have a constant step size; with a schedule each y_n has the step size that it was made with.

    Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated learning",
    UAI 2022, algorithm 1.

    Example::

        kind: fedvarp
        server_lr: 1
    """

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The mean of the memory, corrected where it is known better."""
        changes = updates.models - updates.bases
        move = (changes - state["last"][updates.users]).mean(0) + state["mean"]
        return current + self.server_lr * move, store_rows(state, updates.users, changes)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """The mean of the memory."""
        return current + self.server_lr * state["mean"], state
