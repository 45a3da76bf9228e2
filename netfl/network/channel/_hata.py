"""Path losses of the Hata type: Okumura-Hata and COST 231."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.channel import LinkGain, distance_gain
from netfl.network.channel._path_loss import Outside, PathLoss, friis_db, refuse_outside
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.units import Carrier, Metres

_MIN_M, _MAX_M = 1000.0, 20_000.0
"""Distances over which Okumura's curves were fitted."""


class Hata(PathLoss):
    """L(d) = L(1 km) + (44.9 - 6.55 log10 hb) log10(d / 1 km) in dB, at least the loss of free space."""

    frequency: Carrier
    """f, within the range of the model."""
    tower_height: Annotated[Metres, Field(ge=30, le=200)] = 30.0
    """hb, the tower's antenna above the ground: 30 to 200 m."""
    user_height: Annotated[Metres, Field(ge=1, le=10)] = 1.5
    """hm, the user's antenna above the ground: 1 to 10 m."""
    outside: Outside = "fault"
    """Treatment of users outside of 1 to 20 km: ``fault`` refuses them, ``extend`` continues with the same slope."""

    @abstractmethod
    def at_1_km_db(self) -> float:
        """Return the median loss at 1 km."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        """Return the gains of all links.

        Raises:
            netfl.errors.ScenarioError: users are outside of 1 to 20 km, and ``outside`` is ``fault``.
        """
        refuse_outside(layout, _MIN_M, _MAX_M, self.outside)
        decade_db = 44.9 - 6.55 * math.log10(self.tower_height)
        at_1_km_db = self.at_1_km_db()

        def loss_db(distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
            hata_db = at_1_km_db + decade_db * np.log10(np.maximum(distance_m, 1.0) / 1000.0)
            slant_m = np.hypot(distance_m, self.tower_height - self.user_height)
            return np.maximum(hata_db, friis_db(self.frequency, slant_m))

        return distance_gain(layout, loss_db)


def small_city_db(frequency_mhz: float, user_m: float) -> float:
    """Return the correction a(hm) for small and medium cities; 0 near 1.5 m."""
    log_f = math.log10(frequency_mhz)
    return (1.1 * log_f - 0.7) * user_m - (1.56 * log_f - 0.8)


def large_city_db(frequency_mhz: float, user_m: float) -> float:
    """Return the correction a(hm) for large cities; 0 near 1.5 m."""
    if frequency_mhz <= 300.0:
        return 8.29 * math.log10(1.54 * user_m) ** 2 - 1.1
    return 3.2 * math.log10(11.75 * user_m) ** 2 - 4.97
