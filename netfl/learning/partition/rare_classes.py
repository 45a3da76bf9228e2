"""Rare labels for users with low participation: the split of the FED-CVaR-AVG papers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault
from netfl.learning.data import Labels
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._user_ranking import RankedPartition
from netfl.streams import Streams
from netfl.types import Ints, ScenarioFacts


class RareClasses(RankedPartition):
    """The users with the lowest participation hold certain labels and no others; all others share the rest.

    Each rare label is shared out evenly among the rare users; the examples of all other labels are shuffled and
    distributed out to all other users in equal shares: the split of the FED-CVaR-AVG papers' experiments.

    Example::

        kind: rare_classes
        classes: [8, 9]
        users: 3
        by: rho
    """

    classes: Labels
    """The labels that only the rare users hold."""
    users: Annotated[int, Field(ge=1)]
    """The number of rare users."""

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        assert ranking is not None  # as `ranking_source` asks for
        rare_users = ranking[-self.users :]
        other_users = ranking[: -self.users]
        dealer = RowDealer(users, streams.rng("rare_classes"))
        dealer.deal(np.flatnonzero(~np.isin(labels, self.classes)), other_users)
        for label in self.classes:
            dealer.deal(np.flatnonzero(labels == label), rare_users)
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.users >= facts.users:
            yield Fault(
                "users", f"as many rare users as the scenario's {facts.users} users, or more", self.users, "use fewer"
            )
        yield from super().faults(facts)
        if facts.classes is not None and len(self.classes) >= facts.classes:
            problem = f"{len(self.classes)} rare labels of {facts.classes} leave none for the other users"
            yield Fault("classes", problem, remedy="use fewer")
