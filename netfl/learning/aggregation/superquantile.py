"""Δ-FL: averages the updates of the users with the largest losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, cast

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.types import ScenarioFacts

_ROUNDING = 1e-12
"""Relative error of a share: 0.29 of 100 examples are 29, although 0.29 has no exact binary form."""


class Superquantile(Aggregation):
    """The mean of the models of the worst users, ``Σ_k n_k θ_k / Σ_k n_k``, over the deliveries with ``F_k ≥ Q``.

    F_k is the mean loss of base_k over the n_k examples of user k.  Q is the (1-α)-quantile of these losses among the
    deliveries of the round, with weights n_k: the smallest one for which the deliveries of at most this loss have at
    least the share 1-α of the examples.  A user at Q counts whole, and the others do nothing.  Each delivery of a user
    in a round counts.  With α = 1, and in a round with one delivery, this is `average`: an access that never delivers
    more is refused.

    Q is that of the round: a rare user counts only when it is delivered, and is compared with those beside it.

    Source: Laguel, Pillutla, Malick and Harchaoui, "A superquantile approach to federated learning with heterogeneous
    devices", CISS 2021, and Pillutla et al., "Federated learning with superquantile aggregation for heterogeneous
    data", Machine Learning 2023.  α is their θ, and 1-α the ``nonconformity_level`` of their program
    (``models/server.py``), whose quantile this is.  There users report their losses first, and only those with F_k ≥ Q
    train and send.  Here all have trained and sent before the server drops them: a round has the airtime, bits and
    energy of `average`.  The quantile under secure aggregation of the second paper is not modelled.

    Example::

        kind: superquantile
        alpha: 0.5
    """

    needs_losses: ClassVar[bool] = True
    alpha: Annotated[float, Field(gt=0, le=1)]
    """Share α of the worst users, weighted by their examples, in (0, 1]."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        return self._shares(updates) @ updates.models, state

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        return current + self._shares(updates) @ (updates.models - current)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return 1.0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if facts.max_deliveries == 1:
            problem = "has no effect: this access delivers one update in a round, and so none is dropped"
            remedy = "use an access that delivers several, or 'average', which is the same here"
            yield Fault("alpha", problem, self.alpha, remedy)

    def _shares(self, updates: Updates) -> Tensor:
        """Return the weight of each update, of the sum 1, ``[k]``."""
        losses = cast("Tensor", updates.losses)  # F_k
        by_loss = losses.argsort(stable=True)
        examples = updates.samples.double()[by_loss].cumsum(0)  # of losses up to this one
        total = examples[-1]
        is_enough = total - examples <= self.alpha * (1 + _ROUNDING) * total
        quantile = losses[by_loss].where(is_enough, math.inf).min()  # Q
        counts = updates.samples.where(losses >= quantile, 0.0)
        return counts / counts.sum()
