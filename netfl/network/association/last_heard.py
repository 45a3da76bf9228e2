"""Users that take the tower which heard them last with the strongest signal."""

from __future__ import annotations

from typing import Literal

import numpy as np

from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints


class LastHeard(Association):
    """Each user takes the tower that has received its last frame with the strongest signal.

    So a server of LoRaWAN answers by the gateway that heard an uplink best.  It is for networks in which several towers
    hear a user (``receivers``).  At the start a user has the nearest one, which it keeps until a frame of it is
    received.  The signal of a frame has its fading.

    Example::

        kind: last_heard
    """

    moves: Literal["when_idle"] = "when_idle"
    """Users move as a version is about to be sent to them, while they have nothing under way."""

    @property
    def follows_reception(self) -> bool:
        return True

    def open(self, links: TowerLinks) -> TowerChoice:
        return _LastHeard(links)


class _LastHeard(TowerChoice):
    def __init__(self, links: TowerLinks) -> None:
        self._links = links

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        towers = self._links.last_heard(users, serving)
        known = np.where(towers >= 0, towers, serving)
        if (known >= 0).all():
            return known
        return np.where(known >= 0, known, self._links.nearest(users, time_s))

    def next_s(self, time_s: float) -> float:
        return np.inf
