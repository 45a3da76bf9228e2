"""Path loss in cities from 1.5 to 2 GHz: COST 231 extension of Hata's formula."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from netfl.network.channel.okumura_hata import Hata, small_city_db
from netfl.units import Hertz


class Cost231Hata(Hata):
    """Median path loss of COST 231 for large cells, f in MHz, heights hb and hm in m, distance d in km.

    L = 46.3 + 33.9 log10 f - 13.82 log10 hb - a(hm) + (44.9 - 6.55 log10 hb) log10 d + C in dB, with
    a(hm) = (1.1 log10 f - 0.7) hm - (1.56 log10 f - 0.8); C is 0 dB in medium cities and suburban centres with trees,
    3 dB in metropolitan centres.

    COST Action 231, "Digital mobile radio towards future generation systems", final report (1999), §4.4.1.  Valid for
    1500 to 2000 MHz, hb of 30 to 200 m, hm of 1 to 10 m, and 1 to 20 km, with towers above the roofs.  Users outside of
    that range, and moving users, are an error unless ``out_of_range: extend``.  Links to towers other than the user's
    own (interference) may have any length.  The loss is at least that of free space along the slant.

    Example::

        kind: cost231_hata
        frequency: 1.8 GHz
        area: metropolitan
        out_of_range: extend
    """

    frequency: Annotated[Hertz, Field(ge=1500e6, le=2000e6)]
    """f, 1500 to 2000 MHz."""
    area: Literal["medium_city", "metropolitan"]
    """Surroundings; ``medium_city`` includes suburban centres."""

    def at_1_km_db(self) -> float:
        mhz = self.frequency / 1e6
        centre_db = 3.0 if self.area == "metropolitan" else 0.0
        base_db = 46.3 + 33.9 * math.log10(mhz) - 13.82 * math.log10(self.tower_height)
        return base_db - small_city_db(mhz, self.user_height) + centre_db  # L at log10 d = 0
