"""The server makes up for rare users by how often it knows them to take part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, Updates
from netfl.network.rates import ZipfChances, chances_of
from netfl.types import Law, ScenarioFacts

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State

_LIST: TypeAdapter[tuple[float, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
)


def _read(value: Any) -> object:
    """Choose by what is written, so that a fault names the very entry."""
    if value is None or isinstance(value, ZipfChances):
        return value
    return ZipfChances.model_validate(value) if isinstance(value, Mapping) else _LIST.validate_python(value)


class KnownParticipation(Aggregation):
    """Changes count by how rare their users are: ``x + η/N Σ_k (θ_k - base_k) / p_k``.

    The sum runs over the round's deliveries, p_k is the probability that user k takes part in a round, and N the number
    of all users: on average over who takes part, everybody counts the same.  The baseline with known participation
    statistics of Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated
    averaging", ICLR 2024.  `fedau` finds the weights by itself.

    Left out, the probabilities are those that the access states, for each replica its own: the exact shares of rounds
    in which users are heard in the long run (of `cyclic` the rounds of a stretch over those of a cycle).  A user that
    is never heard has weight 0.  Networks, replays, selections, and a `first` with room for some only (but for the 1 of
    `stationary`) state none.

    Example::

        kind: known_participation
        probability: [0.5, 0.5, 0.5, 0.2, 0.2, 0.1]
        server_lr: 1
    """

    probability: Annotated[tuple[float, ...] | ZipfChances | None, BeforeValidator(_read)] = None
    """How likely each user is to take part in a round: p_k, one for each user, or ``{zipf: s}``, as of the access
    `bernoulli`; by default what the access states."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def with_participation(self, heard: NDArray[np.float64] | None) -> Self:
        """With what the access states, where nothing else is said."""
        if self.probability is not None or heard is None:
            return self
        return self.model_copy(update={"probability": tuple(heard.tolist())})

    def open(self, users: int, current: Tensor) -> State:
        """The weight of each user's change.

        Raises:
            ValueError: nobody said how likely users are to take part.
        """
        if self.probability is None:
            problem = "the probabilities are not known: an aggregation around this one must pass on"
            raise ValueError(f"{problem} 'with_participation'")
        return {"weights": current.new_tensor([1 / p if p > 0 else 0.0 for p in chances_of(self.probability, users)])}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The weighted changes."""
        weights = state["weights"]
        change = weights[updates.users] @ (updates.models - updates.bases)
        return current + self.server_lr / len(weights) * change, state

    def user_weights(self, state: State) -> Tensor:
        """``1 / p``."""
        return state["weights"]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A list for another number of users; none where the access states no probabilities."""
        if self.probability is None:
            if not facts.heard_known:
                problem = "missing; this access does not state in what share of the rounds each user is heard"
                yield Fault("probability", problem, None, "give a list, or take 'fedau', which estimates them")
        elif isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or take 'fedau', which estimates them")

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing"),)
