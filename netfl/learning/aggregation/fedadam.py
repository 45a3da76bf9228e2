"""FedAdam: Adam as the server optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import State
from netfl.learning.aggregation._server_optimizer import ServerOptimiser

if TYPE_CHECKING:
    from torch import Tensor


class Fedadam(ServerOptimiser):
    """The version moves by Adam along the step Δ of another aggregation: ``x + η m / (√v + τ)``.

    ``m ← β1 m + (1-β1) Δ`` and ``v ← β2 v + (1-β2) Δ²``, entry by entry; Δ is the next version of the aggregation
    ``of``, less x.  m starts at 0 and v at τ², without bias correction.  In a round in which the other aggregation
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

    server_lr: Annotated[float, Field(gt=0)]
    """Server step size η."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay factor β1 of m."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Decay factor β2 of v."""
    tau: Annotated[float, Field(gt=0, le=1e9)] = 1e-3
    """Adaptivity τ, which limits the steps for small changes."""

    def open_optimiser(self, current: Tensor) -> State:
        """Return m = 0 and v = τ²."""
        return {"mean": current.new_zeros(len(current)), "square": current.new_full((len(current),), self.tau**2)}

    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        """Return ``η m / (√v + τ)``."""
        mean = state["mean"].lerp(change, 1 - self.beta1)
        square = state["square"].lerp(change.square(), 1 - self.beta2)
        return self.server_lr * mean / (square.sqrt() + self.tau), {"mean": mean, "square": square}

    @property
    def numbers_per_parameter(self) -> int:
        """2: m and v."""
        return 2
