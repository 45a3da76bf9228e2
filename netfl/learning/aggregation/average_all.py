"""The mean over all users, of whom users without delivery count as unchanged."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class AverageAll(Aggregation):
    """The version moves by the mean over all N users of their changes: ``x + η/N Σ_k (θ_k - base_k)``.

    The sum is over the round's deliveries: a user without delivery counts as unchanged.  Steps are short if few users
    participate.  A part of an update that is lost counts as unchanged, too.

    Source: "average all" in Wang and Ji, "A lightweight method for tackling unknown participation statistics in
    federated averaging", ICLR 2024.

    Example::

        kind: average_all
        server_lr: 10
    """

    accepts_parts: ClassVar[bool] = True
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def open(self, users: int, current: Tensor) -> State:
        return {"weights": current.new_ones(users)}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        users = len(state["weights"])  # N
        change = (updates.models - updates.bases).sum(0)
        return current + self.server_lr / users * change, state

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``η D / N`` for at most D deliveries in a round of N users."""
        return self.server_lr * deliveries / users

    def user_weights(self, state: State) -> Tensor:
        return state["weights"]
