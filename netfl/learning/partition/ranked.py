"""Data coupled to participation: parts handed out by rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ModelError
from netfl.learning.partition import Partition
from netfl.learning.partition._user_ranking import RankingSource, check_labels, check_ranking
from netfl.registry import FamilyMember
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Ranked(Partition):
    """The parts of another partition, handed out to users by falling participation.

    The parts are sorted: as the other partition numbers them; with ``classes`` by the share of those labels, the
    smallest first; or with ``sizes`` by their sizes.  The first part goes to the user with the highest participation
    rate, the last to the one with the lowest.  This couples Dirichlet mixes, shards or lists of labels to
    participation: with ``classes: [9]`` users with low participation hold label 9, more or less exclusively as the
    other partition mixes labels.

    Example::

        kind: ranked
        of: {kind: dirichlet, concentration: 0.3}
        by: rho
        classes: [9]
    """

    of: Annotated[Partition, FamilyMember()]
    """The partition whose parts are handed out."""
    by: RankingSource = "rho"
    """Source of participation rates: ``rho``, the rates that the access states; ``distance`` from the tower, the
    farthest being the rarest; or ``prerun``, a run of the access without learning."""
    classes: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """Labels of the users with the lowest participation."""
    sizes: Literal["falling", "rising"] | None = None
    """Instead of ``classes``: users with the lowest participation hold the fewest examples (``falling``) or the most
    (``rising``)."""

    @model_validator(mode="after")
    def _check_order(self) -> Ranked:
        if self.classes is not None and self.sizes is not None:
            raise ValueError("classes and sizes are two orders: leave one of them out")
        if len(set(self.classes or ())) < len(self.classes or ()):
            raise ValueError("a label is named twice")
        return self

    @property
    def ranking_source(self) -> RankingSource | None:
        """The key ``by``."""
        return self.by

    @property
    def rare_labels(self) -> tuple[int, ...]:
        """The key ``classes``."""
        return self.classes or ()

    def split(
        self, labels: NDArray[np.int64], users: int, ranking: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Split as the other partition does, sort the parts, and hand them out."""
        if ranking is None:
            raise ModelError("ranked", "the order of the users is not known")
        parts = self.of.split(labels, users, None, streams)
        place = np.argsort([self._sort_key(labels[part]) for part in parts], kind="stable")
        return [parts[part] for part in place[np.argsort(ranking)]]

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield faults of the other partition, of unknown labels and of the ranking."""
        if self.of.grouped_by == "user" or self.of.ranking_source is not None:
            problem = "users hold what is theirs" if self.of.grouped_by == "user" else "goes by who is heard itself"
            yield Fault("of", problem, None, "take another partition, or this one alone")
        if facts.classes is not None:
            yield from check_labels(self.rare_labels, facts.classes)
        yield from check_ranking(self.by, facts)

    def laws(self) -> tuple[Law, ...]:
        """State the laws of the other partition."""
        return self.of.laws()

    def _sort_key(self, labels: NDArray[np.int64]) -> float:
        if self.classes is not None:
            return float(np.isin(labels, self.classes).mean())
        return {"falling": -1.0, "rising": 1.0, None: 0.0}[self.sizes] * len(labels)
