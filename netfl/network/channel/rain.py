"""Attenuation by rain over an area, under weather that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.channel import LinkGain
from netfl.network.channel._markov_chain import STATES, Chain, MarkovChannel
from netfl.network.layout import Layout
from netfl.network.periods import periods_of
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Hertz, Metres

# Specific attenuation by rain: Recommendation ITU-R P.838-3 (2005).


Polarization = Literal["horizontal", "vertical", "circular"]

_K_H = (
    (
        (-5.33980, -0.10008, 1.13098),
        (-0.35351, 1.26970, 0.45400),
        (-0.23789, 0.86036, 0.15354),
        (-0.94158, 0.64552, 0.16817),
    ),
    -0.18961,
    0.71147,
)
_K_V = (
    (
        (-3.80595, 0.56934, 0.81061),
        (-3.44965, -0.22911, 0.51059),
        (-0.39902, 0.73042, 0.11899),
        (0.50167, 1.07319, 0.27195),
    ),
    -0.16398,
    0.63297,
)
_A_H = (
    (
        (-0.14318, 1.82442, -0.55187),
        (0.29591, 0.77564, 0.19822),
        (0.32177, 0.63773, 0.13164),
        (-5.37610, -0.96230, 1.47828),
        (16.1721, -3.29980, 3.43990),
    ),
    0.67849,
    -1.95537,
)
_A_V = (
    (
        (-0.07771, 2.33840, -0.76284),
        (0.56727, 0.95545, 0.54039),
        (-0.20238, 1.14520, 0.26809),
        (-48.2991, 0.791669, 0.116226),
        (48.5833, 0.791459, 0.116479),
    ),
    -0.053739,
    0.83433,
)


def coefficients(frequency_hz: float, polarization: Polarization) -> tuple[float, float]:
    """The coefficients k and α of γ = k R^α, in dB/km for R in mm/h, on a horizontal path; 1 to 1000 GHz."""
    x = float(np.log10(frequency_hz / 1e9))
    k_h, k_v = 10.0 ** _curve(_K_H, x), 10.0 ** _curve(_K_V, x)
    a_h, a_v = _curve(_A_H, x), _curve(_A_V, x)
    if polarization == "horizontal":
        return k_h, a_h
    if polarization == "vertical":
        return k_v, a_v
    return (k_h + k_v) / 2.0, (k_h * a_h + k_v * a_v) / (k_h + k_v)


def _curve(figures: tuple[tuple[tuple[float, float, float], ...], float, float], x: float) -> float:
    """Equations (2) and (3): a sum of Gaussians and a straight line in the logarithm of the frequency."""
    bells, slope, level = figures
    a, b, c = np.array(bells).T
    return float((a * np.exp(-(((x - b) / c) ** 2))).sum() + slope * x + level)


class Rain(MarkovChannel):
    """A loss of γ(R) d for a link of length d inside an area where it rains R mm/h, the same for all users in it.

    γ = k R^α in dB/km: Recommendation ITU-R P.838-3, eq. (1), with k and α of its equations (2) to (5) for horizontal
    paths, at 1 to 1000 GHz; or with ``k`` and ``alpha`` as given.  R follows the state of the weather, a stationary
    Markov chain that all users of the area share (see ``markov`` for ``transitions``, ``generator`` and ``block``).
    Rain cells are of limited extent: of a longer link, only ``extent`` is in the rain.  A link counts as inside the
    area if its user is there at that time.

    Example::

        kind: rain
        rates: [0, 5, 40]
        transitions: [[0.98, 0.02, 0], [0.1, 0.85, 0.05], [0, 0.2, 0.8]]
        block: 5 min
        frequency: 26 GHz
    """

    rates: Annotated[tuple[Annotated[float, Field(ge=0, le=300)], ...], Field(min_length=2, max_length=STATES)]
    """R in each state of the weather, in mm/h: drizzle 1, heavy rain 25, cloudbursts over 100."""
    frequency: Annotated[Hertz, Field(ge=1e9, le=1e12)] | None = None
    """The carrier frequency, from which k and α follow."""
    polarization: Polarization | None = None
    """``horizontal``, ``vertical`` or ``circular``, only with ``frequency``; horizontal, the worst, if not given."""
    k: Annotated[float, Field(gt=0)] | None = None
    """k in dB/km at 1 mm/h, in place of ``frequency``; together with ``alpha``."""
    alpha: Annotated[float, Field(gt=0, le=3)] | None = None
    """α, in place of ``frequency``; together with ``k``."""
    extent: Annotated[Metres, Field(gt=0)] = 5000.0
    """The longest part of a link that is in the rain."""
    center: tuple[Metres, Metres] | None = None
    """Centre [x, y] of the area; together with ``radius``.  Everywhere if not given."""
    radius: Annotated[Metres, Field(gt=0)] | None = None
    """Radius of the area; together with ``center``."""

    @model_validator(mode="after")
    def _one_attenuation(self) -> Rain:
        """One source of the attenuation, one area, and nothing without effect."""
        if (self.k is None) != (self.alpha is None) or (self.k is None) == (self.frequency is None):
            raise ValueError("give frequency, or k together with alpha, exactly one of them")
        if self.polarization is not None and self.frequency is None:
            raise ValueError("polarization has no effect beside k and alpha; leave it out")
        if (self.center is None) != (self.radius is None):
            raise ValueError("center and radius go together")
        return self

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """One chain for the area.

        Raises:
            ScenarioError: nobody is in it, nor can come there.
        """
        gain = _Rain(self, Chain(self.matrix, streams.field("weather")), sites)
        if not sites.moving and not gain.inside(np.arange(sites.users), 0.0).any():
            raise ScenarioError([Fault("radius", "no user stands inside the area", self.radius, "widen or move it")])
        return gain

    def laws(self) -> tuple[Law, ...]:
        """Stationary weather, with the chain's transitions."""
        return (self._law("specific attenuation in dB/km", self.specific_db_km),)

    @property
    def specific_db_km(self) -> NDArray[np.float64]:
        """γ in each state, ``[states]``."""
        k, alpha = self.k, self.alpha
        if k is None or alpha is None:
            k, alpha = coefficients(self.frequency or 0.0, self.polarization or "horizontal")
        return np.asarray(k * np.array(self.rates) ** alpha)

    @property
    def _states(self) -> Sequence[float]:
        """The rain rates."""
        return self.rates


class _Rain(LinkGain):
    """The rain at work on the links of one network."""

    def __init__(self, model: Rain, weather: Chain, sites: Layout) -> None:
        self._model, self._weather, self._sites = model, weather, sites
        self._specific_db_km = model.specific_db_km

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Minus γ times the length in the rain, for those who are inside."""
        block, place = np.unique(periods_of(time_s, self._model.block), return_inverse=True)
        state = self._weather.state(np.zeros(len(block), np.int64), block)[place]
        wet_m = np.minimum(self._sites.distances_m(users, time_s), self._model.extent)
        return np.where(self.inside(users, time_s), -self._specific_db_km[state] * wet_m / 1000.0, 0.0)

    @property
    def hold_s(self) -> float:
        """A block of the weather."""
        return self._model.block

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain in the best weather; none is lost by users who may leave the area or come to their tower."""
        if self._sites.moving:
            return np.zeros(len(users))
        wet_m = np.minimum(self._sites.distance_m[users], self._model.extent)
        return np.where(self.inside(users, 0.0), -self._specific_db_km.min() * wet_m / 1000.0, 0.0)

    def inside(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each user is in the area."""
        if self._model.center is None or self._model.radius is None:
            return np.ones(len(users), bool)
        paths, at_start = self._sites.paths, self._sites.user_xy_m
        places = at_start[users] if paths is None else paths.xy_m(users, time_s)
        return np.asarray(np.hypot(*(places - np.array(self._model.center)).T) <= self._model.radius)
