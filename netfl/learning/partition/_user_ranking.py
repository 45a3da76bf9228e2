"""Checks of keys that couple data to participation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from netfl.errors import Fault
from netfl.types import ScenarioFacts

RankingSource = Literal["rho", "distance", "prerun"]
"""Source of the ranking of users by participation: the rates that the access states; the distance from a user's tower,
the farthest being the rarest; or a run of the access without learning."""


def check_ranking(by: RankingSource, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield a fault if the access cannot give the ranking."""
    if by == "rho" and not (facts.rho_known or facts.ranked):
        remedy = "take distance or prerun" if facts.placed else "take prerun"
        yield Fault("by", "this access does not state how often users are heard", by, remedy)
    if by == "distance" and not (facts.placed or facts.ranked):
        remedy = "take rho or prerun" if facts.rho_known else "take prerun"
        yield Fault("by", "the users of this access have no places", by, remedy)


def check_labels(labels: tuple[int, ...], classes: int) -> Iterator[Fault]:
    """Yield a fault for each label that the data do not have."""
    for index, label in enumerate(labels):
        if label >= classes:
            yield Fault(f"classes.{index}", f"the data have labels 0 to {classes - 1}", label, "name one of them")
