"""A gain that follows from the distance between a user and its tower."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.channel import Gain
from netfl.network.channel._static import StaticGain
from netfl.network.sites import Sites

Loss = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""``loss(distance_m)``: the loss in dB at each distance, ``[n]``."""


def by_distance(sites: Sites, loss_db: Loss) -> Gain:
    """The gains of links that lose *loss_db* of their distance: found once where users stand still."""
    return _Moving(sites, loss_db) if sites.moving else StaticGain(-loss_db(sites.distance_m))


class _Moving(Gain):
    """Gains that change as users move."""

    def __init__(self, sites: Sites, loss_db: Loss) -> None:
        self._sites, self._loss_db = sites, loss_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The gain where each user is at *time_s*."""
        return -self._loss_db(self._sites.distances_m(users, time_s))

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain next to the tower, where any user may come to."""
        return -self._loss_db(np.zeros(len(users)))
