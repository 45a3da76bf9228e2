"""FedVARP: the server takes the changes of those whom it did not hear to be what they last were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.aggregation._memory import remember
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Fedvarp(Aggregation):
    """The mean change of those heard, corrected by what is remembered: ``x + η (mean_k (Δ_k - y_k) + 1/N Σ_n y_n)``.

    The first mean runs over the round's deliveries, Δ_k is a change, model less base, and y_n the change that user n
    had sent last before this round, 0 before its first; N is the number of all users.  A round in which nobody is heard
    moves the version by the mean of the y.  A user that is heard twice in one round counts twice in the first mean,
    both times beside the y of before the round; its later change is remembered.

    Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated learning",
    UAI 2022, algorithm 1.

    Example::

        kind: fedvarp
        server_lr: 1
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """No change of anybody, and their sum."""
        return {"last": current.new_zeros(users, len(current)), "sum": current.new_zeros(len(current))}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The mean of the memory, corrected where it is known better."""
        last, changes = state["last"], updates.models - updates.bases
        move = (changes - last[updates.users]).mean(0) + state["sum"] / len(last)
        total = state["sum"] + remember(last, updates.users, changes)
        return current + self.server_lr * move, {"last": last, "sum": total}

    def idle(self, state: State, current: Tensor, index: int) -> tuple[Tensor, State]:
        """The mean of the memory."""
        return current + self.server_lr / len(state["last"]) * state["sum"], state

    def memory(self, users: int, parameters: int) -> int:
        """A row for each user, and their sum."""
        return (users + 1) * (parameters + 1)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its versions are tested against algorithm 1, step by step"),)
