"""Users that take the tower which is nearest now."""

from __future__ import annotations

import numpy as np

from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints


class NearestNow(Association):
    """Each user takes the tower that is nearest now.  At the same distance it keeps its tower.

    Example::

        kind: nearest_now
    """

    @property
    def follows_position(self) -> bool:
        return True

    def open(self, links: TowerLinks) -> TowerChoice:
        return _NearestNow(links)


class _NearestNow(TowerChoice):
    def __init__(self, links: TowerLinks) -> None:
        self._links = links

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        nearest = self._links.nearest(users, time_s)
        differs = np.flatnonzero((serving >= 0) & (nearest != serving))
        own_m = self._links.distances_m(users[differs], serving[differs], time_s)
        nearest_m = self._links.distances_m(users[differs], nearest[differs], time_s)
        stays = differs[own_m <= nearest_m]
        nearest[stays] = serving[stays]
        return nearest
