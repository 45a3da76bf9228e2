"""Path loss in cities, suburbs and open country: Okumura's measurements, fitted by Hata."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.channel import LinkGain, distance_gain
from netfl.network.channel._path_loss import Outside, PathLoss, friis_db, refuse_outside
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats
from netfl.units import Carrier, Hertz, Metres

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
    out_of_range: Outside = "error"
    """Treatment of users outside of 1 to 20 km: ``error`` refuses them, ``extend`` continues with the same slope."""

    @abstractmethod
    def at_1_km_db(self) -> float:
        """Return the median loss at 1 km."""

    @property
    def carrier_hz(self) -> float:
        return self.frequency

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        refuse_outside(layout, _MIN_M, _MAX_M, self.out_of_range)
        decade_db = 44.9 - 6.55 * math.log10(self.tower_height)
        at_1_km_db = self.at_1_km_db()

        def loss_db(distance_m: Floats) -> Floats:
            distance_km = np.maximum(distance_m, 1.0) / 1000.0
            hata_db = at_1_km_db + decade_db * np.log10(distance_km)
            slant_m = np.hypot(distance_m, self.tower_height - self.user_height)
            return np.maximum(hata_db, friis_db(self.frequency, slant_m))

        return distance_gain(layout, loss_db)


def small_city_db(frequency_mhz: float, user_m: float) -> float:
    """Return the correction a(hm) for small and medium cities; 0 near 1.5 m."""
    log_f = math.log10(frequency_mhz)
    return (1.1 * log_f - 0.7) * user_m - (1.56 * log_f - 0.8)


class OkumuraHata(Hata):
    """Median path loss of Okumura and Hata for large cells, f in MHz, heights hb and hm in m, distance d in km.

    L = 69.55 + 26.16 log10 f - 13.82 log10 hb - a(hm) + (44.9 - 6.55 log10 hb) log10 d in a city, in dB, where
    a(hm) = (1.1 log10 f - 0.7) hm - (1.56 log10 f - 0.8) in a small or medium one, and in a large one
    8.29 (log10 1.54 hm)² - 1.1 up to 300 MHz and 3.2 (log10 11.75 hm)² - 4.97 above.  With the small city's a(hm), a
    suburb loses 2 (log10(f/28))² + 5.4 less, open country 4.78 (log10 f)² - 18.33 log10 f + 40.94 less.

    M. Hata, "Empirical formula for propagation loss in land mobile radio services", IEEE Trans. Veh. Technol. 29
    (1980), p. 317; Rappaport, "Wireless Communications", 2nd ed., §4.10.4 (Hata leaves 200 to 400 MHz open in large
    cities; 300 MHz is Rappaport's).  Valid for 150 to 1500 MHz, hb of 30 to 200 m, hm of 1 to 10 m, and 1 to 20 km.
    Users outside of that range, and moving users, are an error unless ``out_of_range: extend``.  Links to towers other
    than the user's own (interference) may have any length.  The loss is at least that of free space along the slant,
    which matters in open country under high towers and near the tower.

    Example::

        kind: okumura_hata
        frequency: 868 MHz
        area: suburban
        tower_height: 40 m
        out_of_range: extend
    """

    frequency: Annotated[Hertz, Field(ge=150e6, le=1500e6)]
    """f, 150 to 1500 MHz."""
    area: Literal["large_city", "small_city", "suburban", "open"]
    """Surroundings; ``small_city`` includes medium cities."""

    def at_1_km_db(self) -> float:
        mhz = self.frequency / 1e6
        log_f = math.log10(mhz)
        correct = _large_city_db if self.area == "large_city" else small_city_db
        city_db = 69.55 + 26.16 * log_f - 13.82 * math.log10(self.tower_height) - correct(mhz, self.user_height)
        if self.area == "suburban":
            return city_db - 2.0 * math.log10(mhz / 28.0) ** 2 - 5.4
        if self.area == "open":
            return city_db - 4.78 * log_f**2 + 18.33 * log_f - 40.94
        return city_db


def _large_city_db(frequency_mhz: float, user_m: float) -> float:
    """Return the correction a(hm) for large cities; 0 near 1.5 m."""
    if frequency_mhz <= 300.0:
        return 8.29 * math.log10(1.54 * user_m) ** 2 - 1.1
    return 3.2 * math.log10(11.75 * user_m) ** 2 - 4.97
