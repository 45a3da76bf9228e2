"""Path loss in cities, suburbs and open country: Okumura's measurements, fitted by Hata."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from netfl.network.channel._hata import Hata, large_city_db, small_city_db
from netfl.units import Hertz


class OkumuraHata(Hata):
    """Median path loss of Okumura and Hata for large cells, f in MHz, heights hb and hm in m, distance d in km.

    L = 69.55 + 26.16 log10 f - 13.82 log10 hb - a(hm) + (44.9 - 6.55 log10 hb) log10 d in a city, in dB, where
    a(hm) = (1.1 log10 f - 0.7) hm - (1.56 log10 f - 0.8) in a small or medium one, and in a large one
    8.29 (log10 1.54 hm)² - 1.1 up to 300 MHz and 3.2 (log10 11.75 hm)² - 4.97 above.  With the small city's a(hm), a
    suburb loses 2 (log10(f/28))² + 5.4 less, open country 4.78 (log10 f)² - 18.33 log10 f + 40.94 less.

    M. Hata, "Empirical formula for propagation loss in land mobile radio services", IEEE Trans. Veh. Technol. 29
    (1980), p. 317; Rappaport, "Wireless Communications", 2nd ed., §4.10.4 (Hata leaves 200 to 400 MHz open in large
    cities; 300 MHz is Rappaport's).  Valid for 150 to 1500 MHz, hb of 30 to 200 m, hm of 1 to 10 m, and 1 to 20 km.
    Users outside of that range, and moving users, are an error unless ``outside: extend``.  Links to towers other than
    the user's own (interference) may have any length.  The loss is at least that of free space along the slant, which
    matters in open country under high towers and near the tower.

    Example::

        kind: okumura_hata
        frequency: 868 MHz
        area: suburban
        tower_height: 40 m
        outside: extend
    """

    frequency: Annotated[Hertz, Field(ge=150e6, le=1500e6)]
    """f, 150 to 1500 MHz."""
    area: Literal["large_city", "small_city", "suburban", "open"]
    """Surroundings; ``small_city`` includes medium cities."""

    def at_1_km_db(self) -> float:
        """Return the median loss at 1 km."""
        mhz = self.frequency / 1e6
        log_f = math.log10(mhz)
        correct = large_city_db if self.area == "large_city" else small_city_db
        city_db = 69.55 + 26.16 * log_f - 13.82 * math.log10(self.tower_height) - correct(mhz, self.user_height)
        if self.area == "suburban":
            return city_db - 2.0 * math.log10(mhz / 28.0) ** 2 - 5.4
        if self.area == "open":
            return city_db - 4.78 * log_f**2 + 18.33 * log_f - 40.94
        return city_db
