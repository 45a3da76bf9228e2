"""FedAvgM: the server's steps have momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation._server_optimizer import ServerOptimiser

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Fedavgm(ServerOptimiser):
    """The version moves by what another aggregation would add to it, with momentum: ``v ← β v + Δ``, ``x + η v``.

    Δ is the next version by the aggregation ``of``, less x.  v starts at 0.  With β = 0 and η = 1 the version is that
    of the other aggregation.  A round that it lets pass, as most do when nobody is heard, leaves version and v as they
    are.  t is one more parameter.

    Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual classification",
    2019; in Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2 with SGD as the server's optimiser.

    Example::

        kind: fedavgm
        momentum: 0.9
        of: average
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """How much of the step before is added to each: β."""

    def begin(self, current: Tensor) -> State:
        """v, at rest."""
        return {"velocity": current.new_zeros(len(current))}

    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        """``η v``."""
        velocity = self.momentum * state["velocity"] + change
        return self.server_lr * velocity, {"velocity": velocity}

    @property
    def kept(self) -> int:
        """Only v."""
        return 1
