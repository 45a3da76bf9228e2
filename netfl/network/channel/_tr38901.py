"""Outdoor scenarios of 3GPP TR 38.901: line of sight, path loss and shadowing."""

from __future__ import annotations

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.network.channel import Channel, LinkGain, NearLimit, link_gain
from netfl.network.channel._motion_pace import MotionPace
from netfl.network.channel._path_loss import Outside, refuse_outside
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Hertz

PerLink = Floats
"""One value for each link, ``[n]``."""

LIGHT_M_S = 3.0e8
"""Speed of light in the report's breakpoints (Table 7.4.1-1, note 1)."""
_MIN_M = 10.0
"""Minimum distance on the ground; nearer users have the loss at this distance."""


class Tr38901Channel(Channel):
    """A scenario of TR 38.901: each link is in line of sight (LOS) or not (NLOS), with a path loss for each state.

    Distances d are those on the ground, as the report's d2D; heights make them d3D.
    """

    MAX_M: ClassVar[float] = 5000.0
    """Maximum distance on the ground."""
    SIGMAS_DB: ClassVar[tuple[float, float]]
    """Standard deviation of the shadowing, LOS next to the tower and NLOS."""
    LAW_DISTANCES_M: ClassVar[tuple[float, ...]] = (21.0, 50.0, 100.0, 500.0)
    """Distances at which the probability of LOS is tested."""

    frequency: Annotated[Hertz, Field(ge=0.5e9, le=100e9)]
    """fc, within the range of the scenario."""
    shadowing: bool = True
    """Random shadowing around the median loss; ``false`` for the median alone."""
    out_of_range: Outside = "error"
    """Treatment of users beyond the maximum distance: ``error`` refuses them, ``extend`` continues with the formula."""

    @property
    def has_path_loss(self) -> bool:
        return True

    @property
    @abstractmethod
    def heights_m(self) -> tuple[float, float]:
        """Heights of towers and users."""

    @abstractmethod
    def los_probability(self, flat_m: PerLink) -> PerLink:
        """Return the probability of LOS at distances on the ground (Table 7.4.2-1)."""

    @abstractmethod
    def los_loss_db(self, flat_m: PerLink, surroundings: PerLink) -> PerLink:
        """Return the median LOS loss; *surroundings* are uniform on (0, 1), one for each link."""

    @abstractmethod
    def nlos_loss_db(self, flat_m: PerLink) -> PerLink:
        """Return the median NLOS loss PL', before the comparison with the LOS loss."""

    def los_sigma_db(self, flat_m: PerLink) -> PerLink:
        """Return the standard deviation of the LOS shadowing."""
        return np.full(len(flat_m), self.SIGMAS_DB[0])

    @property
    def ghz(self) -> float:
        """Frequency fc in GHz."""
        return self.frequency / 1e9

    def slant_m(self, flat_m: PerLink) -> PerLink:
        """Return d3D."""
        return np.hypot(flat_m, self.heights_m[0] - self.heights_m[1])

    @property
    def carrier_hz(self) -> float:
        return self.frequency

    @property
    def near_limit(self) -> NearLimit:
        return NearLimit(_MIN_M)

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        refuse_outside(layout, 0.0, self.MAX_M, self.out_of_range)
        links = _Links(self, layout.tower_at_start, streams)
        return link_gain(layout, links.loss_db, links.min_loss_db)

    def motion_misfit(self, pace: MotionPace) -> str:
        if not self.shadowing:
            return ""
        return (
            "a user keeps its shadowing, though users move; set shadowing: false and take correlated_shadowing, "
            "which follows the positions"
        )

    def laws(self) -> tuple[Law, ...]:
        los_laws = tuple(self._los_law(distance_m) for distance_m in self.LAW_DISTANCES_M)
        if not self.shadowing:
            return los_laws
        los_sigma_db, nlos_sigma_db = self.SIGMAS_DB
        return (
            *los_laws,
            self._shadowing_law(True, _MIN_M, los_sigma_db),
            self._shadowing_law(False, self.MAX_M, nlos_sigma_db),
        )

    def _los_law(self, distance_m: float) -> Law:
        share = float(self.los_probability(np.array([distance_m]))[0])

        def draw(streams: Streams, size: int) -> PerLink:
            links = _Links(self, np.zeros(size, np.int64), streams)
            return links.is_los(np.arange(size), np.full(size, distance_m)).astype(float)

        statement = f"1 with the probability {share:.6g} of TR 38.901, Table 7.4.2-1, else 0, independent for each link"
        quantity = f"line of sight at {distance_m:g} m"
        return Law(quantity, statement, draw=draw, mean=share, variance=share * (1.0 - share))

    def _shadowing_law(self, los: bool, distance_m: float, sigma_db: float) -> Law:
        def draw(streams: Streams, size: int) -> PerLink:
            users = np.arange(2 * size)
            flat_m = np.full(2 * size, distance_m)
            towers = np.zeros(2 * size, np.int64)
            links = _Links(self, towers, streams)
            median_links = _Links(self.model_copy(update={"shadowing": False}), towers, streams)
            shadow_db = median_links.loss_db(users, flat_m) - links.loss_db(users, flat_m)
            return np.asarray(shadow_db[links.is_los(users, flat_m) == los])

        return Law(
            f"shadowing {'in' if los else 'out of'} line of sight in dB",
            f"N(0, σ²), σ = {sigma_db:g} dB at {distance_m:g} m (TR 38.901, Table 7.4.1-1), independent for each link",
            draw=draw,
            mean=0.0,
            variance=sigma_db**2,
            cdf=np.vectorize(NormalDist(0.0, sigma_db).cdf, otypes=[float]),
        )


class _Links:
    """Draws of the links of all users to their towers, keyed by user and tower."""

    def __init__(self, model: Tr38901Channel, towers: Ints, streams: Streams) -> None:
        users = np.arange(len(towers))
        self._model = model
        self._los_draw = streams.field("sight").uniform(users, towers)
        self._surroundings = streams.field("surroundings").uniform(users, towers)
        self._shadow = streams.field("shadowing").normal(users, towers) * model.shadowing

    def is_los(self, users: Ints, distance_m: PerLink) -> Bools:
        return np.asarray(self._los_draw[users] < self._model.los_probability(distance_m))

    def loss_db(self, users: Ints, distance_m: PerLink) -> PerLink:
        """Return PL_LOS - σ_LOS X in line of sight, else max(PL_LOS, PL'_NLOS) - σ_NLOS X, X being N(0, 1), ``[n]``."""
        model = self._model
        flat_m = np.maximum(distance_m, _MIN_M)
        is_los = self.is_los(users, flat_m)
        los_db = model.los_loss_db(flat_m, self._surroundings[users])
        nlos_db = np.maximum(los_db, model.nlos_loss_db(flat_m))
        median_db = np.where(is_los, los_db, nlos_db)
        sigma_db = np.where(is_los, model.los_sigma_db(flat_m), model.SIGMAS_DB[1])
        return np.asarray(median_db - sigma_db * self._shadow[users])

    def min_loss_db(self, users: Ints) -> PerLink:
        """Return the LOS loss next to the tower, less a positive shadow with the larger σ."""
        los_db = self._model.los_loss_db(np.full(len(users), _MIN_M), self._surroundings[users])
        return np.asarray(los_db - self._model.SIGMAS_DB[1] * np.maximum(self._shadow[users], 0.0))


def two_slope_loss(
    model: Tr38901Channel, intercept_db: float, slope: float, flat_m: PerLink, break_m: PerLink
) -> PerLink:
    """Return the LOS loss of UMa and UMi: *slope* log10(d3D) up to the breakpoint, 40 log10(d3D) beyond.

    PL1 = a + s log10 d3D + 20 log10 fc, and PL2 = a + 40 log10 d3D + 20 log10 fc - (40 - s)/2 log10(dBP² + (hb - hu)²),
    with the intercept a and the slope s (Table 7.4.1-1).
    """
    tower_m, user_m = model.heights_m
    slant_log = np.log10(model.slant_m(flat_m))
    near_db = slope * slant_log
    beyond_db = 40.0 * slant_log - 0.5 * (40.0 - slope) * np.log10(break_m**2 + (tower_m - user_m) ** 2)
    return np.asarray(intercept_db + 20.0 * math.log10(model.ghz) + np.where(flat_m <= break_m, near_db, beyond_db))
