"""Rare labels for users with low participation: the split of the FED-CVaR-AVG papers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from netfl.errors import Fault, ModelError
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._user_ranking import RankingSource, check_labels, check_ranking
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class RareClasses(Partition):
    """The users with the lowest participation hold certain labels and no others; all others share the rest.

    Each rare label is shared out evenly among the rare users; the examples of all other labels are shuffled and dealt
    out to all other users in equal shares: the split of the FED-CVaR-AVG papers' experiments.

    Example::

        kind: rare_classes
        classes: [8, 9]
        users: 3
        by: rho
    """

    classes: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    """The labels that only the rare users hold."""
    users: Annotated[int, Field(ge=1)]
    """The number of rare users."""
    by: RankingSource = "rho"
    """Source of participation rates: ``rho``, the rates that the access states; ``distance`` from the tower, the
    farthest being the rarest; or ``prerun``, a run of the access without learning."""

    @field_validator("classes")
    @classmethod
    def _check_duplicates(cls, classes: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(classes)) < len(classes):
            raise ValueError("a label is named twice")
        return classes

    @property
    def ranking_source(self) -> RankingSource | None:
        """The key ``by``."""
        return self.by

    @property
    def rare_labels(self) -> tuple[int, ...]:
        """The key ``classes``."""
        return self.classes

    def split(
        self, labels: NDArray[np.int64], users: int, ranking: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Deal the rare labels out one by one, the others together."""
        if ranking is None:
            raise ModelError("rare_classes", "the order of the users is not known")
        dealer = RowDealer(users, streams.rng("rare_classes"))
        dealer.deal(np.flatnonzero(~np.isin(labels, self.classes)), ranking[: -self.users])
        for label in self.classes:
            dealer.deal(np.flatnonzero(labels == label), ranking[-self.users :])
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield faults of the number of rare users and labels, and of the ranking."""
        if self.users >= facts.users:
            yield Fault(
                "users", f"as many rare users as the scenario's {facts.users} users, or more", self.users, "take fewer"
            )
        if facts.classes is not None:
            yield from self._check_labels(facts.classes)
        yield from check_ranking(self.by, facts)

    def laws(self) -> tuple[Law, ...]:
        """State that only a permutation is drawn."""
        return (Law.none("which labels a user holds is given; which examples, a random permutation"),)

    def _check_labels(self, classes: int) -> Iterator[Fault]:
        yield from check_labels(self.classes, classes)
        if len(self.classes) >= classes:
            problem = f"{len(self.classes)} rare labels of {classes} leave none for the other users"
            yield Fault("classes", problem, remedy="name fewer")
