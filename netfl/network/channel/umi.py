"""Urban micro cell (street canyon) of 3GPP TR 38.901."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.network.channel._tr38901 import LIGHT_M_S, PerLink, Tr38901Channel, two_slope_loss
from netfl.units import Metres

_TOWER_M = 10.0
"""hb, the only tower height of the scenario."""


class Umi(Tr38901Channel):
    """Urban micro cell (UMi, street canyon) of 3GPP TR 38.901 V16, Tables 7.4.1-1 and 7.4.2-1: towers of 10 m.

    fc in GHz, lengths in m, losses in dB; hb = 10, hu the user's height, outdoors, d on the ground,
    s = √(d² + (hb - hu)²), breakpoint dBP = 4 (hb - 1)(hu - 1) fc / c.  In line of sight
    32.4 + 21 log10 s + 20 log10 fc up to dBP, and 32.4 + 40 log10 s + 20 log10 fc - 9.5 log10(dBP² + (hb - hu)²)
    beyond; else the larger of that and 22.4 + 35.3 log10 s + 21.3 log10 fc - 0.3 (hu - 1.5).

    A link is in line of sight with probability 1 up to 18 m and 18/d + exp(-d/36)(1 - 18/d) beyond.  Each link of a
    user and a tower draws one number u for the whole run, and is in line of sight while u is below that; it also keeps
    its draw of the shadowing, N(0, σ²) in dB with σ = 4, or 7.82 out of sight, independent from link to link.  For
    moving users, the report's shadowing decorrelates over 10 m, or 13 m out of sight (Table 7.5-6): set ``shadowing:
    false`` and add a correlated shadowing for that.

    Valid for 0.5 to 100 GHz and d of 10 m to 5 km.  Nearer than 10 m the loss is that at 10 m.  Users farther away
    than 5 km, and moving users, are an error unless ``out_of_range: extend``; links to towers other than the user's own
    may have any length.

    Example::

        kind: umi
        frequency: 28 GHz
    """

    SIGMAS_DB: ClassVar[tuple[float, float]] = (4.0, 7.82)

    user_height: Annotated[Metres, Field(ge=1.5, le=22.5)] = 1.5
    """hu, 1.5 to 22.5 m."""

    @property
    def heights_m(self) -> tuple[float, float]:
        return _TOWER_M, self.user_height

    def los_probability(self, flat_m: PerLink) -> PerLink:
        d = np.maximum(flat_m, 18.0)
        return np.asarray(18.0 / d + np.exp(-d / 36.0) * (1.0 - 18.0 / d))

    def los_loss_db(self, flat_m: PerLink, surroundings: PerLink) -> PerLink:
        break_m = 4.0 * (_TOWER_M - 1.0) * (self.user_height - 1.0) * self.frequency / LIGHT_M_S  # dBP
        return two_slope_loss(self, 32.4, 21.0, flat_m, np.full(len(flat_m), break_m))

    def nlos_loss_db(self, flat_m: PerLink) -> PerLink:
        lower_db = 22.4 + 21.3 * math.log10(self.ghz) - 0.3 * (self.user_height - 1.5)
        return np.asarray(lower_db + 35.3 * np.log10(self.slant_m(flat_m)))
