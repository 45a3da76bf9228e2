"""The server averages over everybody, and counts those whom it did not hear as unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class AverageAll(Aggregation):
    """The version moves by the mean over all N users of their changes: ``x + η/N Σ_k (θ_k - base_k)``.

    The sum runs over the round's deliveries: who is not heard counts as unchanged.  The "average all" of Wang and Ji,
    "A lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024; its steps
    are short where few users take part.

    Example::

        kind: average_all
        server_lr: 10
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """How much the change of each user counts."""
        return {"weights": current.new_ones(users)}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """All changes, divided by the number of all users."""
        return current + self.server_lr / len(state["weights"]) * (updates.models - updates.bases).sum(0), state

    def user_weights(self, state: State) -> Tensor:
        """1 for everyone."""
        return state["weights"]

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing"),)
