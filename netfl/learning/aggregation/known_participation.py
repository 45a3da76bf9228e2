"""Weights users by the inverse of their known participation probability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, State, Updates
from netfl.network.rates import ZipfChances, chances_of
from netfl.types import ScenarioFacts

if TYPE_CHECKING:
    from torch import Tensor


_LIST: TypeAdapter[tuple[float, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
)


def _read(value: Any) -> object:
    """Select the type by the value, so that an error names the entry."""
    if value is None or isinstance(value, ZipfChances):
        return value
    return ZipfChances.model_validate(value) if isinstance(value, Mapping) else _LIST.validate_python(value)


class KnownParticipation(Aggregation):
    """Changes are weighted by the inverse participation probability: ``x + η/N Σ_k (θ_k - base_k) / p_k``.

    The sum is over the round's deliveries, p_k is the probability that user k participates in a round, and N is the
    number of users.  On average over the participation, all users have the same weight.  `fedau` estimates the weights.

    By default, the access states the probabilities, for each replica its own: the exact long-run shares of rounds in
    which users are delivered (for `cyclic` the rounds of a stretch over those of a cycle).  A user that is never
    delivered has weight 0.  Networks, replays, selections, and a `first` with room for some users only (except for the
    1 of `stationary`) state none.

    Source: the baseline with known participation statistics of Wang and Ji, "A lightweight method for tackling unknown
    participation statistics in federated averaging", ICLR 2024.

    Example::

        kind: known_participation
        probability: [0.5, 0.5, 0.5, 0.2, 0.2, 0.1]
        server_lr: 1
    """

    probability: Annotated[tuple[float, ...] | ZipfChances | None, BeforeValidator(_read)] = None
    """Participation probabilities p_k, one for each user, or ``{zipf: s}`` as in the access `bernoulli`; by default
    those that the access states."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def with_participation(self, rates: NDArray[np.float64] | None) -> Self:
        """Use *rates* of the access, unless the scenario gives probabilities."""
        if self.probability is not None or rates is None:
            return self
        return self.model_copy(update={"probability": tuple(rates.tolist())})

    def open(self, users: int, current: Tensor) -> State:
        """Return the weight 1/p of each user.

        Raises:
            ValueError: the probabilities are unknown.
        """
        if self.probability is None:
            problem = "the probabilities are not known: an aggregation around this one must pass on"
            raise ValueError(f"{problem} 'with_participation'")
        return {"weights": current.new_tensor([1 / p if p > 0 else 0.0 for p in chances_of(self.probability, users)])}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """Add the weighted changes."""
        weights = state["weights"]
        change = weights[updates.users] @ (updates.models - updates.bases)
        return current + self.server_lr / len(weights) * change, state

    def user_weights(self, state: State) -> Tensor:
        """Return ``1 / p``."""
        return state["weights"]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a fault for a list of wrong length, and for missing probabilities."""
        if self.probability is None:
            if not facts.heard_known:
                problem = "missing; this access does not state in what share of the rounds each user is heard"
                yield Fault("probability", problem, None, "give a list, or take 'fedau', which estimates them")
        elif isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or take 'fedau', which estimates them")
