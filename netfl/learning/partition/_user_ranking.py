"""The order of the users from the most to the least often heard, and where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from netfl.errors import Fault
from netfl.types import ScenarioFacts

Rarity = Literal["rho", "distance", "prerun"]
"""Where the order is taken from: the rates that the access states; the distance from a user's tower, the farthest being
the rarest; or a run of the access alone, without learning."""


def order_faults(by: Rarity, facts: ScenarioFacts) -> Iterator[Fault]:
    """An order that the access cannot give."""
    if by == "rho" and not (facts.rho_known or facts.ranked):
        remedy = "take distance or prerun" if facts.placed else "take prerun"
        yield Fault("by", "this access does not state how often users are heard", by, remedy)
    if by == "distance" and not (facts.placed or facts.ranked):
        remedy = "take rho or prerun" if facts.rho_known else "take prerun"
        yield Fault("by", "the users of this access have no places", by, remedy)


def label_faults(labels: tuple[int, ...], classes: int) -> Iterator[Fault]:
    """Labels that the data do not have."""
    for at, label in enumerate(labels):
        if label >= classes:
            yield Fault(f"classes.{at}", f"the data have labels 0 to {classes - 1}", label, "name one of them")
