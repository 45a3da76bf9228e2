"""The papers' split: rare labels with rarely heard users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from netfl.errors import Fault, ModelError
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._user_ranking import Rarity, label_faults, order_faults
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class RareClasses(Partition):
    """The users least often heard hold certain labels, all of them and no others; the rest is spread over the rest.

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
    """How many users are rare."""
    by: Rarity = "rho"
    """What says how often a user is heard: ``rho``, the rates that the access states; ``distance`` from its tower, the
    farthest the rarest; or ``prerun``, a run of the access alone, without learning."""

    @field_validator("classes")
    @classmethod
    def _once(cls, classes: tuple[int, ...]) -> tuple[int, ...]:
        """Refuse a label that is named twice."""
        if len(set(classes)) < len(classes):
            raise ValueError("a label is named twice")
        return classes

    @property
    def rarity(self) -> Rarity | None:
        """As the scenario says."""
        return self.by

    @property
    def rare(self) -> tuple[int, ...]:
        """The labels that only the rare users hold."""
        return self.classes

    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Deal the rare labels out one by one, the others together."""
        if order is None:
            raise ModelError("rare_classes", "the order of the users is not known")
        hands = RowDealer(users, streams.rng("rare_classes"))
        hands.deal(np.flatnonzero(~np.isin(labels, self.classes)), order[: -self.users])
        for label in self.classes:
            hands.deal(np.flatnonzero(labels == label), order[-self.users :])
        return hands.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Too many rare users or labels, and an order that the access cannot give."""
        if self.users >= facts.users:
            yield Fault(
                "users", f"as many rare users as the scenario's {facts.users} users, or more", self.users, "take fewer"
            )
        if facts.classes is not None:
            yield from self._label_faults(facts.classes)
        yield from order_faults(self.by, facts)

    def laws(self) -> tuple[Law, ...]:
        """Who holds what is given."""
        return (Law.none("which labels a user holds is given; which examples, a random permutation"),)

    def _label_faults(self, classes: int) -> Iterator[Fault]:
        """Labels that the data do not have, or none left for the other users."""
        yield from label_faults(self.classes, classes)
        if len(self.classes) >= classes:
            problem = f"{len(self.classes)} rare labels of {classes} leave none for the other users"
            yield Fault("classes", problem, remedy="name fewer")
