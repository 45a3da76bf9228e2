"""Relaying of a single delivered model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, SingleUpdates, State, Tensor, Updates
from netfl.types import Floats, Ints, ScenarioFacts


class Relay(Aggregation):
    """The next version is the model and t of the delivered user.

    For one delivery in a round: Σ over users of 1{delivered} (θ_k, t_k), the rule of FED-CVaR-AVG and of FedAvg under a
    random access model that relays one user.

    Example::

        kind: relay
    """

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        if len(updates.models) != 1:
            raise ValueError(f"relay passes on one model, but round {updates.round} delivered {len(updates.models)}")
        return updates.models[0], state

    @classmethod
    def step_together(
        cls, rules: Sequence[Self], states: Sequence[State], current: Tensor, updates: SingleUpdates
    ) -> tuple[Tensor, Sequence[State]]:
        return updates.models, states

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return 1.0

    def merge_weights(self, examples: Ints) -> Floats | None:
        """Return equal weights: a round has one delivery."""
        return np.ones(len(examples))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if facts.max_deliveries > 1:
            problem = f"relay passes on one user's model, but a round can deliver {facts.max_deliveries}"
            remedy = (
                "close rounds after one delivery (first: 1; in a network, round: {kind: first, m: 1}), or use 'average'"
            )
            yield Fault("kind", problem, "relay", remedy)
