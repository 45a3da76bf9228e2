"""What the outdoor scenarios of 3GPP TR 38.901 share: who is in line of sight, its losses, its shadowing."""

from __future__ import annotations

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._path_loss import Outside, link_gain, refuse_outside
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Hertz

Figures = NDArray[np.float64]
"""One figure for each link, ``[n]``."""

LIGHT_M_S = 3.0e8
"""The speed of light that the report reckons breakpoints with (Table 7.4.1-1, note 1)."""
NEAREST_M = 10.0
"""The least distance on the ground; the loss is held nearer by."""


class Tr38901Channel(Channel):
    """A scenario of TR 38.901: each link is in line of sight or not, and loses accordingly.

    Distances d are those on the ground, as the report's d2D; heights make them d3D.
    """

    MOST_M: ClassVar[float]
    """The largest distance on the ground."""
    SIGMAS_DB: ClassVar[tuple[float, float]]
    """Shadowing in line of sight next to the tower, and out of it."""
    LAWFUL_M: ClassVar[tuple[float, ...]] = (21.0, 50.0, 100.0, 500.0)
    """At which distances the law of the line of sight is stated."""

    frequency: Annotated[Hertz, Field(ge=0.5e9, le=100e9)]
    """fc, within the range of the scenario."""
    shadowing: bool = True
    """Whether obstacles scatter the losses around their median; ``false`` for the median alone."""
    outside: Outside = "fault"
    """What to do with users farther away than the tables reach: ``fault`` refuses them, ``extend`` goes on."""

    @property
    @abstractmethod
    def heights_m(self) -> tuple[float, float]:
        """The heights of towers and users."""

    @abstractmethod
    def sight(self, flat_m: Figures) -> Figures:
        """The probability of a line of sight at distances on the ground (Table 7.4.2-1)."""

    @abstractmethod
    def clear_db(self, flat_m: Figures, surroundings: Figures) -> Figures:
        """The median loss in line of sight; *surroundings* are uniform on (0, 1), one for each link."""

    @abstractmethod
    def blocked_db(self, flat_m: Figures) -> Figures:
        """The median loss PL' out of it, before it is compared with that in line of sight."""

    def clear_sigma_db(self, flat_m: Figures) -> Figures:
        """The standard deviation of the shadowing in line of sight."""
        return np.full(len(flat_m), self.SIGMAS_DB[0])

    @property
    def ghz(self) -> float:
        """The frequency fc in GHz."""
        return self.frequency / 1e9

    def slant_m(self, flat_m: Figures) -> Figures:
        """d3D."""
        return np.hypot(flat_m, self.heights_m[0] - self.heights_m[1])

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """Each link with its own draws, which are those of (user, tower) and stay for good.

        Raises:
            netfl.errors.ScenarioError: users beyond the tables' reach, unless the model is to be extended to them.
        """
        refuse_outside(sites, 0.0, self.MOST_M, self.outside)
        links = _Links(self, sites.cell, streams)
        return link_gain(sites, links.loss_db, links.least_db)

    def laws(self) -> tuple[Law, ...]:
        """The share of links in line of sight at some distances, and the shadowing in either state."""
        sights = (self._sight_at(distance_m) for distance_m in self.LAWFUL_M)
        if not self.shadowing:
            return tuple(sights)
        near, far = zip((True, False), (NEAREST_M, self.MOST_M), self.SIGMAS_DB, strict=True)
        return (*sights, self._scatter(*near), self._scatter(*far))

    def _sight_at(self, distance_m: float) -> Law:
        """Which of many links of one length are in line of sight."""
        share = float(self.sight(np.array([distance_m]))[0])

        def draw(streams: Streams, size: int) -> Figures:
            links = _Links(self, np.zeros(size, np.int64), streams)
            return links.seen(np.arange(size), np.full(size, distance_m)).astype(float)

        statement = f"1 with the probability {share:.6g} of TR 38.901, Table 7.4.2-1, else 0, independent for each link"
        quantity = f"line of sight at {distance_m:g} m"
        return Law(quantity, statement, draw=draw, mean=share, variance=share * (1.0 - share))

    def _scatter(self, seen: bool, distance_m: float, sigma_db: float) -> Law:
        """The shadowing of links of one length, of those that are in line of sight or those that are not."""

        def draw(streams: Streams, size: int) -> Figures:
            users, flat_m = np.arange(2 * size), np.full(2 * size, distance_m)
            models = self, self.model_copy(update={"shadowing": False})
            links, median = (_Links(model, np.zeros(2 * size, np.int64), streams) for model in models)
            shade_db = median.loss_db(users, flat_m) - links.loss_db(users, flat_m)
            return np.asarray(shade_db[links.seen(users, flat_m) == seen])

        return Law(
            f"shadowing {'in' if seen else 'out of'} line of sight in dB",
            f"N(0, σ²), σ = {sigma_db:g} dB at {distance_m:g} m (TR 38.901, Table 7.4.1-1), independent for each link",
            draw=draw,
            mean=0.0,
            variance=sigma_db**2,
            cdf=np.vectorize(NormalDist(0.0, sigma_db).cdf, otypes=[float]),
        )


class _Links:
    """What all users' links to their towers have drawn for good; a draw is keyed by user and tower."""

    def __init__(self, model: Tr38901Channel, towers: NDArray[np.int64], streams: Streams) -> None:
        keys = np.arange(len(towers)), towers
        self._model = model
        self._hidden = streams.field("sight").uniform(*keys)
        self._surroundings = streams.field("surroundings").uniform(*keys)
        self._shade = streams.field("shadowing").normal(*keys) * model.shadowing

    def seen(self, users: NDArray[np.int64], distance_m: Figures) -> NDArray[np.bool_]:
        """Whether links are in line of sight at their distances."""
        return np.asarray(self._hidden[users] < self._model.sight(distance_m))

    def loss_db(self, users: NDArray[np.int64], distance_m: Figures) -> Figures:
        """The losses of links at their distances."""
        model, flat_m = self._model, np.maximum(distance_m, NEAREST_M)
        seen = self.seen(users, flat_m)
        clear_db = model.clear_db(flat_m, self._surroundings[users])
        median_db = np.where(seen, clear_db, np.maximum(clear_db, model.blocked_db(flat_m)))
        sigma_db = np.where(seen, model.clear_sigma_db(flat_m), model.SIGMAS_DB[1])
        return np.asarray(median_db - sigma_db * self._shade[users])

    def least_db(self, users: NDArray[np.int64]) -> Figures:
        """No loss is less: in sight next to the tower, with the wider of the shadowings where that helps."""
        clear_db = self._model.clear_db(np.full(len(users), NEAREST_M), self._surroundings[users])
        return np.asarray(clear_db - self._model.SIGMAS_DB[1] * np.maximum(self._shade[users], 0.0))


def two_slope_loss(
    model: Tr38901Channel, intercept_db: float, slope: float, flat_m: Figures, break_m: Figures
) -> Figures:
    """The loss in line of sight of UMa and UMi: *slope* log10(d3D) up to the breakpoint, 40 log10(d3D) beyond."""
    fall_m2 = (model.heights_m[0] - model.heights_m[1]) ** 2
    slant_log = np.log10(model.slant_m(flat_m))
    far_db = 40.0 * slant_log - 0.5 * (40.0 - slope) * np.log10(break_m**2 + fall_m2)
    return np.asarray(
        intercept_db + 20.0 * math.log10(model.ghz) + np.where(flat_m <= break_m, slope * slant_log, far_db)
    )
