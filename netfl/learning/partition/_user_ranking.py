"""Partitions that couple data to participation."""

from __future__ import annotations

from collections.abc import Iterator

from netfl.errors import Fault
from netfl.learning.data import Labels
from netfl.learning.partition import Partition, RankingSource
from netfl.types import ScenarioFacts


class RankedPartition(Partition):
    """A partition that gives certain labels to the users with the lowest participation."""

    classes: Labels | None
    """Labels of the users with the lowest participation."""
    by: RankingSource = "rho"
    """Source of participation rates: ``rho``, the rates that the access states; ``distance`` from the tower, the
    farthest being the rarest; or ``prerun``, a run of the access without learning."""

    @property
    def ranking_source(self) -> RankingSource:
        return self.by

    @property
    def rare_labels(self) -> tuple[int, ...]:
        return self.classes or ()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for index, label in enumerate(self.rare_labels):
            if facts.classes is not None and label >= facts.classes:
                problem = f"the data have labels 0 to {facts.classes - 1}"
                yield Fault(f"classes.{index}", problem, label, "use one of them")
        yield from ranking_faults(self.by, facts)


def ranking_faults(by: RankingSource, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the error of a source of the ranking, the key ``by``, that the access does not have."""
    if by == "rho" and not (facts.rho_known or facts.ranked):
        remedy = "use distance or prerun" if facts.placed else "use prerun"
        yield Fault("by", "this access does not state participation rates", by, remedy)
    if by == "distance" and not (facts.placed or facts.ranked):
        remedy = "use rho or prerun" if facts.rho_known else "use prerun"
        yield Fault("by", "the users of this access have no positions", by, remedy)
