"""Data coupled to participation: parts handed out by rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import model_validator

from netfl.core.family_members import FamilyMember
from netfl.errors import Fault
from netfl.learning.data import Labels
from netfl.learning.partition import Partition
from netfl.learning.partition._user_ranking import RankedPartition
from netfl.streams import Streams
from netfl.types import Ints, Law, ScenarioFacts


class Ranked(RankedPartition):
    """The parts of another partition, handed out to users by falling participation.

    The parts are sorted: as the other partition numbers them; with ``classes`` by the share of those labels, the
    smallest first; or with ``sizes`` by their sizes.  The first part goes to the user with the highest participation
    rate, the last to the one with the lowest.  This couples Dirichlet mixes, shards or lists of labels to
    participation: with ``classes: [9]`` users with low participation hold label 9, more or less exclusively as the
    other partition mixes labels.

    Example::

        kind: ranked
        inner: {kind: dirichlet, concentration: 0.3}
        by: rho
        classes: [9]
    """

    inner: Annotated[Partition, FamilyMember()]
    """The partition whose parts are handed out."""
    classes: Labels | None = None
    """Labels of the users with the lowest participation."""
    sizes: Literal["falling", "rising"] | None = None
    """Instead of ``classes``: users with the lowest participation hold the fewest examples (``falling``) or the most
    (``rising``)."""

    @model_validator(mode="after")
    def _check_order(self) -> Ranked:
        if self.classes is not None and self.sizes is not None:
            raise ValueError("classes and sizes both set the order; leave one of them out")
        return self

    @property
    def needs_labels(self) -> bool:
        """True if the other partition needs them, or its parts are sorted by them."""
        return self.inner.needs_labels or self.classes is not None

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        assert ranking is not None  # as `ranking_source` asks for
        parts = self.inner.split(labels, users, None, streams)
        parts_by_rank = np.argsort([self._sort_key(labels[part]) for part in parts], kind="stable")
        rank_of_user = np.argsort(ranking)
        return [parts[part] for part in parts_by_rank[rank_of_user]]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        problem = ""
        if self.inner.grouped_by == "user":
            problem = "the data assign examples to users"
        elif self.inner.ranking_source is not None:
            problem = "itself depends on the participation"
        elif self.inner.user_blocks(facts.users, None):
            problem = "itself names the users of its blocks"
        if problem:
            yield Fault("inner", problem, None, "use another partition, or this one alone")
        yield from super().faults(facts)

    def laws(self) -> tuple[Law, ...]:
        return self.inner.laws()

    def _sort_key(self, labels: Ints) -> float:
        """Return the key by which parts are sorted, the first for the user with the highest participation."""
        if self.classes is not None:
            return float(np.isin(labels, self.classes).mean())
        if self.sizes == "falling":
            return float(-len(labels))
        if self.sizes == "rising":
            return float(len(labels))
        return 0.0  # the order of the other partition
