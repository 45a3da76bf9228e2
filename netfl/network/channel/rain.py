"""Attenuation by rain over an area, in changing weather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.core.spec import OnlyWith
from netfl.errors import Fault, ScenarioError
from netfl.network.channel import LinkGain
from netfl.network.channel._markov_chain import MAX_STATES, Chain, MarkovChannel
from netfl.network.layout import Layout
from netfl.network.periods import periods_of
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Extent, Hertz, Metres

Polarization = Literal["horizontal", "vertical", "circular"]


class _Curve(NamedTuple):
    """A curve of Recommendation ITU-R P.838-3 (2005): Gaussians a exp(-((x - b) / c)²) and a line in x = log10 f."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    slope: float
    intercept: float

    def at(self, log_ghz: float) -> float:
        """Return the sum of the Gaussians and the line at x = *log_ghz*."""
        gaussians = np.array(self.a) * np.exp(-(((log_ghz - np.array(self.b)) / self.c) ** 2))
        return float(gaussians.sum() + self.slope * log_ghz + self.intercept)


_K_H = _Curve(
    a=(-5.33980, -0.35351, -0.23789, -0.94158),
    b=(-0.10008, 1.26970, 0.86036, 0.64552),
    c=(1.13098, 0.45400, 0.15354, 0.16817),
    slope=-0.18961,
    intercept=0.71147,
)
_K_V = _Curve(
    a=(-3.80595, -3.44965, -0.39902, 0.50167),
    b=(0.56934, -0.22911, 0.73042, 1.07319),
    c=(0.81061, 0.51059, 0.11899, 0.27195),
    slope=-0.16398,
    intercept=0.63297,
)
_A_H = _Curve(
    a=(-0.14318, 0.29591, 0.32177, -5.37610, 16.1721),
    b=(1.82442, 0.77564, 0.63773, -0.96230, -3.29980),
    c=(-0.55187, 0.19822, 0.13164, 1.47828, 3.43990),
    slope=0.67849,
    intercept=-1.95537,
)
_A_V = _Curve(
    a=(-0.07771, 0.56727, -0.20238, -48.2991, 48.5833),
    b=(2.33840, 0.95545, 1.14520, 0.791669, 0.791459),
    c=(-0.76284, 0.54039, 0.26809, 0.116226, 0.116479),
    slope=-0.053739,
    intercept=0.83433,
)


class Rain(MarkovChannel):
    """Rain attenuation γ(R) d of a link of length d inside an area with a rain rate of R mm/h, equal for all its users.

    γ = k R^α in dB/km: Recommendation ITU-R P.838-3, eq. (1), with k and α of its equations (2) to (5) for horizontal
    paths, at 1 to 1000 GHz; or with ``k`` and ``alpha`` as given.  R follows the state of the weather, a stationary
    Markov chain that all users of the area share (see ``markov`` for ``transitions``, ``generator`` and ``block``).
    Rain cells are of limited extent: of a longer link, only ``max_length`` is in the rain.  A link is inside the area
    if its user is there at that time.

    Example::

        kind: rain
        rates: [0, 5, 40]
        transitions: [[0.98, 0.02, 0], [0.1, 0.85, 0.05], [0, 0.2, 0.8]]
        block: 5 min
        frequency: 26 GHz
    """

    rates: Annotated[tuple[Annotated[float, Field(ge=0, le=300)], ...], Field(min_length=2, max_length=MAX_STATES)]
    """R in each state of the weather, in mm/h: drizzle 1, heavy rain 25, cloudbursts over 100."""
    frequency: Annotated[Hertz, Field(ge=1e9, le=1e12)] | None = None
    """Carrier frequency, which gives k and α."""
    polarization: Annotated[Polarization | None, OnlyWith("frequency")] = None
    """``horizontal``, ``vertical`` or ``circular``, only with ``frequency``; horizontal, the worst, by default."""
    k: Annotated[float, Field(gt=0)] | None = None
    """k in dB/km at 1 mm/h, instead of ``frequency``; together with ``alpha``."""
    alpha: Annotated[float, Field(gt=0, le=3)] | None = None
    """α, instead of ``frequency``; together with ``k``."""
    max_length: Annotated[Metres, Field(gt=0)] = 5000.0
    """Maximum length of a link in the rain."""
    center: tuple[Metres, Metres] | None = None
    """Centre [x, y] of the area; together with ``radius``.  By default the area is unbounded."""
    radius: Annotated[Extent, Field(gt=0)] | None = None
    """Radius of the area; together with ``center``."""

    @model_validator(mode="after")
    def _check_attenuation(self) -> Rain:
        if (self.k is None) != (self.alpha is None) or (self.k is None) == (self.frequency is None):
            raise ValueError("the attenuation is not defined; give either frequency, or k together with alpha")
        if (self.center is None) != (self.radius is None):
            raise ValueError("one of center and radius is missing; give both, or neither")
        return self

    @property
    def carrier_hz(self) -> float | None:
        return self.frequency

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        gain = _RainGain(self, Chain(self.matrix, streams.field("weather")), layout)
        if not layout.moving and not gain.inside(np.arange(layout.users), 0.0).any():
            raise ScenarioError([Fault("radius", "no user is inside the area", self.radius, "enlarge or move it")])
        return gain

    def laws(self) -> tuple[Law, ...]:
        return (self._law("specific attenuation in dB/km", self.specific_db_km),)

    @property
    def specific_db_km(self) -> Floats:
        """γ in each state in dB/km, ``[states]``."""
        k = self.k
        alpha = self.alpha
        if k is None or alpha is None:
            k, alpha = coefficients(self.frequency or 0.0, self.polarization or "horizontal")
        rain_rates = np.array(self.rates)  # R
        return np.asarray(k * rain_rates**alpha)

    @property
    def _states(self) -> Sequence[float]:
        return self.rates


class _RainGain(LinkGain):
    def __init__(self, model: Rain, weather: Chain, layout: Layout) -> None:
        self._model = model
        self._weather = weather
        self._layout = layout
        self._specific_db_km = model.specific_db_km

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        # all users share row 0 of the weather: one state for each block
        blocks, block_of = np.unique(periods_of(time_s, self._model.block), return_inverse=True)
        state = self._weather.state(np.zeros(len(blocks), np.int64), blocks)[block_of]
        wet_m = np.minimum(self._layout.distances_m(users, time_s), self._model.max_length)
        rain_db = -self._specific_db_km[state] * wet_m / 1000.0  # -γ d
        return np.where(self.inside(users, time_s), rain_db, 0.0)

    @property
    def hold_s(self) -> float:
        return self._model.block

    def peak_db(self, users: Ints) -> Floats:
        """Return the gain in the best weather: 0 dB for moving users, which may leave the area or reach their tower."""
        if self._layout.moving:
            return np.zeros(len(users))
        wet_m = np.minimum(self._layout.distance_m[users], self._model.max_length)
        return np.where(self.inside(users, 0.0), -self._specific_db_km.min() * wet_m / 1000.0, 0.0)

    def inside(self, users: Ints, time_s: ArrayLike) -> Bools:
        """Return whether each user is in the area, ``[n]``."""
        if self._model.center is None or self._model.radius is None:
            return np.ones(len(users), bool)
        paths = self._layout.paths
        places = self._layout.user_xy_m[users] if paths is None else paths.xy_m(users, time_s)
        east_m, north_m = (places - np.array(self._model.center)).T
        return np.asarray(np.hypot(east_m, north_m) <= self._model.radius)


def coefficients(frequency_hz: float, polarization: Polarization) -> tuple[float, float]:
    """Return k and α of γ = k R^α, in dB/km for R in mm/h, on a horizontal path at 1 to 1000 GHz.

    Recommendation ITU-R P.838-3 (2005), equations (2) to (5): for circular polarisation k = (kH + kV) / 2 and
    α = (kH αH + kV αV) / (2 k).
    """
    log_ghz = float(np.log10(frequency_hz / 1e9))
    k_h = 10.0 ** _K_H.at(log_ghz)
    k_v = 10.0 ** _K_V.at(log_ghz)
    a_h = _A_H.at(log_ghz)
    a_v = _A_V.at(log_ghz)
    if polarization == "horizontal":
        return k_h, a_h
    if polarization == "vertical":
        return k_v, a_v
    return (k_h + k_v) / 2.0, (k_h * a_h + k_v * a_v) / (k_h + k_v)
