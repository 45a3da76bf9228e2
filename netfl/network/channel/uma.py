"""Urban macro cell of 3GPP TR 38.901."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.network.channel._tr38901 import LIGHT_M_S, PerLink, Tr38901Channel, two_slope_loss
from netfl.units import Metres

_TOWER_M = 25.0
"""hb, the only tower height of the scenario."""


class Uma(Tr38901Channel):
    """Urban macro cell (UMa) of 3GPP TR 38.901 V16, Tables 7.4.1-1 and 7.4.2-1: towers of 25 m, users outdoors.

    fc in GHz, lengths in m, losses in dB; hb = 25, hu the user's height, d on the ground, s = √(d² + (hb - hu)²),
    breakpoint dBP = 4 (hb - hE)(hu - hE) fc / c.  In line of sight 28 + 22 log10 s + 20 log10 fc up to dBP, and
    28 + 40 log10 s + 20 log10 fc - 9 log10(dBP² + (hb - hu)²) beyond; else the larger of that and
    13.54 + 39.08 log10 s + 20 log10 fc - 0.6 (hu - 1.5).

    hE is 1 m with probability 1 / (1 + C(d)), else one of 12, 15, … up to hu - 1.5 (12 at least); with D = d/100,
    C(d) = C' (5/4) D³ exp(-d/150) beyond 18 m, C' = ((hu - 13)/10)^1.5 above 13 m, else 0.  A link is in line of sight
    with probability 1 up to 18 m and (18/d + exp(-d/63)(1 - 18/d))(1 + C(d)) beyond, at most 1.

    Each link of a user and a tower keeps its draws for the whole run: it is in line of sight while u is below that
    probability, and likewise for hE.  It also keeps its shadowing, N(0, σ²) in dB with σ = 4, or 6 out of sight,
    independent from link to link.  For moving users, the report's shadowing decorrelates over 37 m, or 50 m out of
    sight (Table 7.5-6): set ``shadowing: false`` and add a correlated shadowing for that.

    Valid for 0.5 to 100 GHz and d of 10 m to 5 km.  Nearer than 10 m the loss is that at 10 m.  Users farther away
    than 5 km, and moving users, are an error unless ``out_of_range: extend``; links to towers other than the user's own
    may have any length.

    Example::

        kind: uma
        frequency: 3.5 GHz
    """

    SIGMAS_DB: ClassVar[tuple[float, float]] = (4.0, 6.0)

    user_height: Annotated[Metres, Field(ge=1.5, le=22.5)] = 1.5
    """hu, 1.5 to 22.5 m."""

    @property
    def heights_m(self) -> tuple[float, float]:
        return _TOWER_M, self.user_height

    def los_probability(self, flat_m: PerLink) -> PerLink:
        d = np.maximum(flat_m, 18.0)
        street_probability = 18.0 / d + np.exp(-d / 63.0) * (1.0 - 18.0 / d)
        return np.minimum(street_probability * (1.0 + self._height_factor(flat_m)), 1.0)

    def los_loss_db(self, flat_m: PerLink, surroundings: PerLink) -> PerLink:
        ground_m = self._ground_m(flat_m, surroundings)
        break_m = 4.0 * (_TOWER_M - ground_m) * (self.user_height - ground_m) * self.frequency / LIGHT_M_S
        return two_slope_loss(self, 28.0, 22.0, flat_m, break_m)

    def nlos_loss_db(self, flat_m: PerLink) -> PerLink:
        lower_db = 13.54 + 20.0 * math.log10(self.ghz) - 0.6 * (self.user_height - 1.5)
        return np.asarray(lower_db + 39.08 * np.log10(self.slant_m(flat_m)))

    def _height_factor(self, flat_m: PerLink) -> PerLink:
        """Return C(d) = C' (5/4) D³ exp(-d/150), D = d/100."""
        c = max((self.user_height - 13.0) / 10.0, 0.0) ** 1.5  # C'
        return np.where(flat_m > 18.0, 1.25 * c * (flat_m / 100.0) ** 3 * np.exp(-flat_m / 150.0), 0.0)

    def _ground_m(self, flat_m: PerLink, surroundings: PerLink) -> PerLink:
        """Return hE, the effective height of the surroundings: 1 m with probability 1 / (1 + C(d)), else a roof's."""
        low_probability = 1.0 / (1.0 + self._height_factor(flat_m))
        roofs_m = np.arange(12.0, max(self.user_height - 1.5, 12.0) + 1e-9, 3.0)
        uniform = (surroundings - low_probability) / np.maximum(1.0 - low_probability, 1e-300)  # on (0, 1) if not low
        roof = np.clip(uniform * len(roofs_m), 0, len(roofs_m) - 1).astype(np.int64)
        return np.where(surroundings < low_probability, 1.0, roofs_m[roof])
