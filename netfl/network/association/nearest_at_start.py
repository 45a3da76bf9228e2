"""Users that keep the tower which is nearest at the start."""

from __future__ import annotations

import math
from collections.abc import Iterator

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints, ScenarioFacts


class NearestAtStart(Association):
    """Each user keeps the tower that is nearest at time 0, wherever it goes.

    Example::

        kind: nearest_at_start
    """

    @property
    def can_move(self) -> bool:
        return False

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from no_effect(self, ["moves", "on_move"], "as users keep their tower")

    def open(self, links: TowerLinks) -> TowerChoice:
        return _NearestAtStart(links)


class _NearestAtStart(TowerChoice):
    def __init__(self, links: TowerLinks) -> None:
        self._links = links

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        return self._links.nearest(users, 0.0)

    def next_s(self, time_s: float) -> float:
        return math.inf
