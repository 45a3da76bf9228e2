"""Relaying of a single delivered model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, State, Updates
from netfl.types import ScenarioFacts

if TYPE_CHECKING:
    from torch import Tensor


class Relay(Aggregation):
    """The next version is the model and t of the delivered user.

    For one delivery in a round: Σ over users of 1{delivered} (θ_k, t_k), the rule of FED-CVaR-AVG and of FedAvg under a
    random access model that relays one user.

    Example::

        kind: relay
    """

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """Return the delivered model.

        Raises:
            ValueError: there are several deliveries.
        """
        if len(updates.models) != 1:
            raise ValueError(f"relay passes on one model, but round {updates.round} brought {len(updates.models)}")
        return updates.models[0], state

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a fault if a round can bring several deliveries."""
        if facts.max_deliveries > 1:
            yield Fault(
                "kind",
                f"relay passes on one user's model, but a round can bring {facts.max_deliveries}",
                "relay",
                "let a round close with one (first: 1, or round: {kind: first, m: 1} in a network), or use the "
                "aggregation 'average'",
            )
