"""Rural macro cell of 3GPP TR 38.901."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.network.channel._tr38901 import LIGHT_M_S, PerLink, Tr38901Channel
from netfl.units import Hertz, Metres


class Rma(Tr38901Channel):
    """Rural macro cell (RMa) of 3GPP TR 38.901 V16, Tables 7.4.1-1 and 7.4.2-1, users outdoors.

    fc in GHz, lengths in m, losses in dB; hb, hu: heights of tower and user, h: of buildings, W: width of streets;
    d on the ground, s = √(d² + (hb - hu)²), breakpoint dBP = 2π hb hu fc / c.  In line of sight
    PL1(s) = 20 log10(40π s fc / 3) + min(0.03 h^1.72, 10) log10 s - min(0.044 h^1.72, 14.77) + 0.002 log10(h) s up to
    dBP, and PL1(dBP) + 40 log10(s / dBP) beyond (as printed, which leaves a step of some hundredths of a dB at dBP);
    else the larger of that and 161.04 - 7.1 log10 W + 7.5 log10 h - (24.37 - 3.7 (h/hb)²) log10 hb +
    (43.42 - 3.1 log10 hb)(log10 s - 3) + 20 log10 fc - (3.2 (log10 11.75 hu)² - 4.97).

    A link is in line of sight with probability 1 up to 10 m and exp(-(d - 10)/1000) beyond.  Each link of a user and a
    tower draws one number u for the whole run, and is in line of sight while u is below that; it also keeps its draw of
    the shadowing, N(0, σ²) in dB with σ = 4 (6 beyond dBP), or 8 out of sight, independent from link to link.  For
    moving users, the report's shadowing decorrelates over 37 m, or 120 m out of sight (Table 7.5-6): set ``shadowing:
    false`` and add a correlated shadowing for that.

    Valid for 0.5 to 30 GHz and d of 10 m to 10 km (5 km out of sight, where the formula is used up to 10 km).  Nearer
    than 10 m the loss is that at 10 m.  Users farther away than 10 km, and moving users, are an error unless
    ``out_of_range: extend``; links to towers other than the user's own may have any length.

    Example::

        kind: rma
        frequency: 700 MHz
    """

    MAX_M: ClassVar[float] = 10_000.0
    SIGMAS_DB: ClassVar[tuple[float, float]] = (4.0, 8.0)
    LAW_DISTANCES_M: ClassVar[tuple[float, ...]] = (50.0, 500.0, 5000.0)

    frequency: Annotated[Hertz, Field(ge=0.5e9, le=30e9)]
    """fc, 0.5 to 30 GHz."""
    tower_height: Annotated[Metres, Field(ge=10, le=150)] = 35.0
    """hb, 10 to 150 m."""
    user_height: Annotated[Metres, Field(ge=1, le=10)] = 1.5
    """hu, 1 to 10 m."""
    building_height: Annotated[Metres, Field(ge=5, le=50)] = 5.0
    """h, the average, 5 to 50 m."""
    street_width: Annotated[Metres, Field(ge=5, le=50)] = 20.0
    """W, the average, 5 to 50 m."""

    @property
    def heights_m(self) -> tuple[float, float]:
        return self.tower_height, self.user_height

    @property
    def break_m(self) -> float:
        """Breakpoint dBP."""
        return 2.0 * math.pi * self.tower_height * self.user_height * self.frequency / LIGHT_M_S

    def los_probability(self, flat_m: PerLink) -> PerLink:
        return np.exp(-np.maximum(flat_m - 10.0, 0.0) / 1000.0)

    def los_loss_db(self, flat_m: PerLink, surroundings: PerLink) -> PerLink:
        slant_m = self.slant_m(flat_m)
        break_m = self.break_m
        beyond_db = self._before_break_db(np.array([break_m])) + 40.0 * np.log10(slant_m / break_m)  # PL2
        return np.where(flat_m <= break_m, self._before_break_db(slant_m), beyond_db)

    def nlos_loss_db(self, flat_m: PerLink) -> PerLink:
        h = self.building_height
        tower_log = math.log10(self.tower_height)
        surroundings_db = 7.5 * math.log10(h) - 7.1 * math.log10(self.street_width)
        tower_db = (24.37 - 3.7 * (h / self.tower_height) ** 2) * tower_log
        user_db = 3.2 * math.log10(11.75 * self.user_height) ** 2 - 4.97
        distance_db = (43.42 - 3.1 * tower_log) * (np.log10(self.slant_m(flat_m)) - 3.0)
        return np.asarray(161.04 + surroundings_db - tower_db + distance_db + 20.0 * math.log10(self.ghz) - user_db)

    def los_sigma_db(self, flat_m: PerLink) -> PerLink:
        return np.where(flat_m <= self.break_m, 4.0, 6.0)

    def _before_break_db(self, slant_m: PerLink) -> PerLink:
        """Return PL1."""
        roughness = self.building_height**1.72  # h^1.72
        free_space_db = 20.0 * np.log10(40.0 * math.pi * self.ghz / 3.0 * slant_m)
        rough_db = min(0.03 * roughness, 10.0) * np.log10(slant_m) - min(0.044 * roughness, 14.77)
        return np.asarray(free_space_db + rough_db + 0.002 * math.log10(self.building_height) * slant_m)
