"""What a user holds follows how often it is heard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ModelError
from netfl.learning.partition import Partition
from netfl.learning.partition._user_ranking import Rarity, label_faults, order_faults
from netfl.registry import FamilyMember
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Ranked(Partition):
    """The parts of another partition, handed out by how often users are heard.

    The parts are put in order: as the other partition numbers them; or with ``classes`` by the share of those labels
    in them, the smallest first; or with ``sizes`` by how large they are.  The first goes to the user that is heard most
    often, the last to the one that is heard least.  So a mix by Dirichlet's law, shards, or lists of labels are coupled
    to participation: with ``classes: [9]`` label 9 is with the users who are hardly heard, more or less so as the
    other partition mixes labels.

    Example::

        kind: ranked
        of: {kind: dirichlet, concentration: 0.3}
        by: rho
        classes: [9]
    """

    of: Annotated[Partition, FamilyMember()]
    """The partition whose parts are handed out."""
    by: Rarity = "rho"
    """What says how often a user is heard: ``rho``, the rates that the access states; ``distance`` from its tower, the
    farthest the rarest; or ``prerun``, a run of the access alone, without learning."""
    classes: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """The labels whose holders are heard least."""
    sizes: Literal["falling", "rising"] | None = None
    """In place of ``classes``: whether who is heard least holds least (``falling``) or most (``rising``)."""

    @model_validator(mode="after")
    def _one_order(self) -> Ranked:
        """Refuse two orders of the parts, and a label that is named twice."""
        if self.classes is not None and self.sizes is not None:
            raise ValueError("classes and sizes are two orders: leave one of them out")
        if len(set(self.classes or ())) < len(self.classes or ()):
            raise ValueError("a label is named twice")
        return self

    @property
    def rarity(self) -> Rarity | None:
        """As the scenario says."""
        return self.by

    @property
    def rare(self) -> tuple[int, ...]:
        """The labels whose holders are heard least."""
        return self.classes or ()

    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Split as the other does, put the parts in order, and hand them out."""
        if order is None:
            raise ModelError("ranked", "the order of the users is not known")
        parts = self.of.split(labels, users, None, streams)
        place = np.argsort([self._place(labels[part]) for part in parts], kind="stable")
        return [parts[part] for part in place[np.argsort(order)]]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Partitions with an order or with users of their own, labels that there are not, an order not to be had."""
        if self.of.goes_by == "user" or self.of.rarity is not None:
            problem = "users hold what is theirs" if self.of.goes_by == "user" else "goes by who is heard itself"
            yield Fault("of", problem, None, "take another partition, or this one alone")
        if facts.classes is not None:
            yield from label_faults(self.rare, facts.classes)
        yield from order_faults(self.by, facts)

    def laws(self) -> tuple[Law, ...]:
        """Those of the other partition."""
        return self.of.laws()

    def _place(self, labels: NDArray[np.int64]) -> float:
        """Where a part with these labels stands, from the one heard most to the one heard least."""
        if self.classes is not None:
            return float(np.isin(labels, self.classes).mean())
        return {"falling": -1.0, "rising": 1.0, None: 0.0}[self.sizes] * len(labels)
