"""Weights users by the inverse of their known participation probability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import Field

from netfl.core.rates import Probabilities, ZipfChances, chances_of
from netfl.core.spec import ByForm
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, SingleUpdates, State, Tensor, Updates
from netfl.learning.aggregation._lanes import column, stack_states
from netfl.types import Floats, ScenarioFacts


class KnownParticipation(Aggregation):
    """Changes are weighted by the inverse participation probability: ``x + η/N Σ_k (θ_k - base_k) / p_k``.

    The sum is over the round's deliveries, p_k is the probability that user k participates in a round, and N is the
    number of users.  On average over the participation, all users have the same weight.  `fedau` estimates the weights.

    By default, the access states the probabilities, for each replica its own: the exact long-run shares of rounds in
    which users are delivered (for `cyclic` the rounds of a stretch over those of a cycle).  A user that is never
    delivered has weight 0.  Networks, replays, selections, and a `deliveries` with room for some users only (except for
    the 1 of `stationary`) state none.

    Source: the baseline with known participation statistics of Wang and Ji, "A lightweight method for tackling unknown
    participation statistics in federated averaging", ICLR 2024.

    Example::

        kind: known_participation
        probability: [0.5, 0.5, 0.5, 0.2, 0.2, 0.1]
        server_lr: 1
    """

    probability: Annotated[Annotated[Probabilities | ZipfChances, ByForm()] | None, PerUser("{zipf: 1.0}")] = None
    """Participation probabilities p_k, one for each user, or ``{zipf: s}`` as in the access `bernoulli`; by default
    those that the access states."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def with_participation(self, rates: Floats | None) -> Self:
        if self.probability is not None or rates is None:
            return self
        return self.model_copy(update={"probability": tuple(rates.tolist())})

    def open(self, users: int, current: Tensor) -> State:
        if self.probability is None:
            problem = "the probabilities are not known: an outer aggregation must forward the call to"
            raise ValueError(f"{problem} 'with_participation'")
        chances = chances_of(self.probability, users)
        return {"weights": current.new_tensor([1 / p if p > 0 else 0.0 for p in chances])}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        weights = state["weights"]
        change = weights[updates.users] @ (updates.models - updates.bases)
        return current + self.server_lr / len(weights) * change, state

    @classmethod
    def step_together(
        cls, rules: Sequence[Self], states: Sequence[State], current: Tensor, updates: SingleUpdates
    ) -> tuple[Tensor, Sequence[State]]:
        weights = stack_states(states)["weights"]  # [lanes, users]
        change = weights.gather(1, updates.users[:, None]) * updates.changes
        factors = column([rule.server_lr / weights.shape[1] for rule in rules], current)  # η/N
        return current + factors * change, states

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``η/N Σ 1/p_k`` over the D users of smallest p_k; ``None`` if the probabilities are not known."""
        if self.probability is None:
            return None
        weights = [1 / float(p) for p in chances_of(self.probability, users) if p > 0]
        weights.sort(reverse=True)
        return self.server_lr / users * math.fsum(weights[:deliveries])

    def user_weights(self, state: State) -> Tensor:
        return state["weights"]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.probability is None:
            if not facts.participation_known:
                problem = "missing; this access does not state the participation rate of each user"
                yield Fault("probability", problem, None, "give a list, or use 'fedau', which estimates them")
        elif isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or use 'fedau', which estimates them")
