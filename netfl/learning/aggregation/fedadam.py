"""FedAdam: the server's steps are Adam's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation._server_optimizer import ServerOptimiser

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Fedadam(ServerOptimiser):
    """The version moves by Adam along what another aggregation would add to it: ``x + η m / (√v + τ)``.

    ``m ← β1 m + (1-β1) Δ`` and ``v ← β2 v + (1-β2) Δ²``, entry by entry; Δ is the next version by the aggregation
    ``of``, less x.  m starts at 0 and v at τ²; there is no correction for the start.  A round that the other
    aggregation lets pass, as most do when nobody is heard, leaves version, m and v as they are.  t is one more
    parameter, so its steps have the size of the others', whatever its own step size was.

    Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2.

    Example::

        kind: fedadam
        server_lr: 0.01
        beta1: 0.9
        beta2: 0.99
        tau: 0.001
    """

    server_lr: Annotated[float, Field(gt=0)]
    """The global step size η."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """How slowly m forgets."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """How slowly v forgets."""
    tau: Annotated[float, Field(gt=0, le=1e9)] = 1e-3
    """What keeps steps short where changes are small: τ."""

    def begin(self, current: Tensor) -> State:
        """m, at rest, and v."""
        return {"mean": current.new_zeros(len(current)), "square": current.new_full((len(current),), self.tau**2)}

    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        """``η m / (√v + τ)``."""
        mean = state["mean"].lerp(change, 1 - self.beta1)
        square = state["square"].lerp(change.square(), 1 - self.beta2)
        return self.server_lr * mean / (square.sqrt() + self.tau), {"mean": mean, "square": square}

    @property
    def kept(self) -> int:
        """Both m and v."""
        return 2
