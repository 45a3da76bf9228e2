"""Users that take the tower which is nearest now."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.spec import OnlyWith
from netfl.network.association import Association, TowerChoice
from netfl.network.periods import period_of
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints
from netfl.units import Seconds


class NearestNow(Association):
    """Each user takes the tower that is nearest now.  At the same distance it keeps its tower.

    Example::

        kind: nearest_now
    """

    every: Annotated[Seconds, Field(gt=0), OnlyWith("moves", "any_time")] = 1.0
    """Time between two looks for a nearer tower, from time 0 on."""

    @property
    def follows_position(self) -> bool:
        return True

    def open(self, links: TowerLinks) -> TowerChoice:
        return _NearestNow(links, self.every)


class _NearestNow(TowerChoice):
    def __init__(self, links: TowerLinks, every_s: float) -> None:
        self._links = links
        self._every_s = every_s

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        nearest = self._links.nearest(users, time_s)
        differs = np.flatnonzero((serving >= 0) & (nearest != serving))
        own_m = self._links.distances_m(users[differs], serving[differs], time_s)
        nearest_m = self._links.distances_m(users[differs], nearest[differs], time_s)
        stays = differs[own_m <= nearest_m]
        nearest[stays] = serving[stays]
        return nearest

    def next_s(self, time_s: float) -> float:
        return self._every_s * (period_of(time_s, self._every_s) + 1)
