"""FedAvgM: momentum as the server optimiser."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netfl.learning.aggregation import State, Tensor
from netfl.learning.aggregation._server_optimizer import ServerOptimiser
from netfl.types import Floats, Ints


class Fedavgm(ServerOptimiser):
    """The version moves with momentum along the step Δ of another aggregation: ``v ← β v + Δ``, ``x + η v``.

    Δ is the next version of the aggregation ``inner``, less x.  v starts at 0.  With β = 0 and η = 1 the version is
    that of the other aggregation.  In a round in which that makes no step, as most do without deliveries, version and v
    do not change.  t is one more parameter.

    Source: Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019; in Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2 with SGD as the
    server's optimiser.

    Example::

        kind: fedavgm
        momentum: 0.9
        inner: average
    """

    numbers_per_parameter: ClassVar[int] = 1
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum β: the factor of the previous step."""

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``η / (1-β)`` times that of the inner aggregation: the limit of many equal steps Δ."""
        inner = self.inner.largest_weight(users, deliveries)
        if inner is None:
            return None
        return self.server_lr / (1 - self.momentum) * inner

    def merge_weights(self, examples: Ints) -> Floats | None:
        """Return those of the inner aggregation: momentum is a weighted sum of its steps."""
        return self.inner.merge_weights(examples)

    def open_optimiser(self, current: Tensor) -> State:
        return {"velocity": current.new_zeros(len(current))}

    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        velocity = self.momentum * state["velocity"] + change  # v ← β v + Δ
        return self.server_lr * velocity, {"velocity": velocity}
