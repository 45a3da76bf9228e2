"""FedAdam: Adam as the server optimiser."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netfl.learning.aggregation import State, Tensor
from netfl.learning.aggregation._server_optimizer import ServerOptimiser


class Fedadam(ServerOptimiser):
    """The version moves by Adam along the step Δ of another aggregation: ``x + η m / (√v + τ)``.

    ``m ← β1 m + (1-β1) Δ`` and ``v ← β2 v + (1-β2) Δ²``, entry by entry; Δ is the next version of the aggregation
    ``inner``, less x.  m starts at 0 and v at τ², without bias correction.  In a round in which the other aggregation
    makes no step, as most do without deliveries, version, m and v do not change.  t is one more parameter: its steps
    have the size of the others, whatever its own step size was.

    Source: Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2.

    Example::

        kind: fedadam
        server_lr: 0.01
        beta1: 0.9
        beta2: 0.99
        tau: 0.001
    """

    numbers_per_parameter: ClassVar[int] = 2
    server_lr: Annotated[float, Field(gt=0)]
    """Server step size η."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay factor β1 of m."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Decay factor β2 of v."""
    tau: Annotated[float, Field(gt=0, le=1e9)] = 1e-3
    """Adaptivity τ, which limits the steps for small changes."""

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``None``: Adam divides Δ by its size, so that the factor has no bound for small changes."""
        return None

    def open_optimiser(self, current: Tensor) -> State:
        return {"mean": current.new_zeros(len(current)), "square": current.new_full((len(current),), self.tau**2)}

    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        mean = state["mean"].lerp(change, 1 - self.beta1)  # m ← β1 m + (1-β1) Δ
        square = state["square"].lerp(change.square(), 1 - self.beta2)  # v ← β2 v + (1-β2) Δ²
        move = self.server_lr * mean / (square.sqrt() + self.tau)
        return move, {"mean": mean, "square": square}
