"""Shadowing that is correlated between nearby places."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from netfl.network.channel import Channel, LinkGain, StaticGain
from netfl.network.channel._correlation_laws import autocorrelation
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, Rows, StatisticClaim
from netfl.units import Decibels, Metres, Seconds

_WAVES = 256
"""Plane waves of each landscape."""
_CHUNK = 2**19
"""Waves that are summed at a time."""
_LANDSCAPES = 2500
"""Landscapes that a model draws at a time."""


class CorrelatedShadowing(Channel):
    """A gain in dB with the distribution N(0, σ²) whose correlation between two places r apart is exp(-r / D).

    M. Gudmundson, "Correlation model for shadow fading in mobile radio systems", Electronics Letters 27(23), 1991:
    D of some 10 m in streets, some 100 m in suburbs.  Each tower has an independent landscape.  A user has the gain of
    its place, so that a moving user keeps its shadow for about D.  With ``decorrelation_time`` T the landscape itself
    changes, as by traffic: the correlation over a time τ at one place is exp(-τ / T), and both factors multiply.

    A landscape is a sum of 256 plane waves with random phases, drawn by the spectrum of that correlation (M. Shinozuka
    and G. Deodatis, Appl. Mech. Rev. 44(4), 1991).  Mean, variance and correlation are exact over the draw of the
    landscape; its Gaussian distribution holds for many waves, and tails end at 23 σ.  All users of one tower see one
    landscape: if they are within few D of each other, their mean gain is not 0.

    Example::

        kind: correlated_shadowing
        sigma: 8 dB
        decorrelation_distance: 50 m
    """

    sigma: Annotated[Decibels, Field(gt=0, le=40)]
    """Standard deviation σ."""
    decorrelation_distance: Annotated[Metres, Field(gt=0)]
    """D, the distance at which the correlation is 1/e."""
    decorrelation_time: Annotated[Seconds, Field(gt=0)] | None = None
    """T, the time after which the correlation at one place is 1/e; infinite by default."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        gain = _ShadowingGain(self.sigma, self._field(max(1, len(layout.towers)), streams), layout)
        if layout.moving or self.decorrelation_time is not None:
            return gain
        return StaticGain(gain.gain_db(np.arange(layout.users), 0.0))

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        def series(streams: Streams, size: int, times_s: Floats) -> Floats:
            rows = np.repeat(np.arange(size), len(times_s))
            places = np.zeros((len(rows), 2))
            return self._gains_db(streams, rows, places, np.tile(times_s, size)).reshape(size, -1)

        def draw(streams: Streams, size: int) -> Floats:
            rows = np.arange(_LANDSCAPES)
            times_s = np.zeros(_LANDSCAPES)
            places = np.column_stack([rows % 7, rows % 11]).astype(float) * self.decorrelation_distance
            starts = range(0, size, _LANDSCAPES)
            return np.concatenate([self._gains_db(streams.at(start), rows, places, times_s) for start in starts])

        statistics = [self._distance_claim()]
        if self.decorrelation_time is not None:
            lags_s = [part * self.decorrelation_time for part in (0.2, 0.6, 1.5)]
            over_time = lambda lag_s: math.exp(-lag_s / (self.decorrelation_time or 1.0))  # noqa: E731
            statistics.append(autocorrelation("exp(-τ / T)", series, over_time, lags_s, (0.0, self.sigma**2)))
        law = stats.norm(0.0, self.sigma)
        return (Law("gain in dB", "N(0, σ²) over landscapes", draw, distribution=law, statistics=tuple(statistics)),)

    def _distance_claim(self) -> StatisticClaim:
        parts = (0.1, 0.5, 1.0, 2.0)

        def draw(streams: Streams, size: int) -> Rows:
            rows = np.arange(min(size // 8, _LANDSCAPES))
            places = np.zeros((1 + len(parts), len(rows), 2))
            angle = 0.6 * rows
            for place, part in zip(places[1:], parts, strict=True):
                place[:] = part * self.decorrelation_distance * np.column_stack([np.cos(angle), np.sin(angle)])
            origin, *others = (
                self._gains_db(streams, rows, place, np.zeros(len(rows))) / self.sigma for place in places
            )
            return np.stack([origin * other for other in others], axis=1)

        means = [math.exp(-part) for part in parts]
        return StatisticClaim(
            "correlation over distance", "exp(-r / D)", draw, means, [f"r = {part:g} D" for part in parts]
        )

    def _field(self, rows: int, streams: Streams) -> _GaussianField:
        return _GaussianField(rows, self.decorrelation_distance, self.decorrelation_time or math.inf, streams)

    def _gains_db(self, streams: Streams, rows: Ints, xy_m: Floats, time_s: Floats) -> Floats:
        """Return the gain in landscape number *rows* at each place and time, ``[n]``."""
        return self.sigma * self._field(int(rows.max()) + 1, streams).height(rows, xy_m, time_s)


class _ShadowingGain(LinkGain):
    def __init__(self, sigma_db: float, field: _GaussianField, layout: Layout) -> None:
        self._sigma_db = sigma_db
        self._field = field
        self._layout = layout

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        layout = self._layout
        times_s = np.broadcast_to(np.asarray(time_s, float), users.shape)
        places = layout.user_xy_m[users] if layout.paths is None else layout.paths.xy_m(users, time_s)
        return self._sigma_db * self._field.height(layout.tower_at_start[users], places, times_s)

    def peak_db(self, users: Ints) -> Floats:
        """Return the 1e-9 quantile of the normal distribution, at most the sum of the amplitudes of the waves."""
        peak = min(NormalDist().inv_cdf(1.0 - 1e-9), math.sqrt(2.0 * _WAVES))
        return np.full(len(users), self._sigma_db * peak)


class _GaussianField:
    """Landscapes of mean 0 and variance 1 with the correlation exp(-r / D - τ / T), each a sum of plane waves.

    S(x, t) = sqrt(2 / M) Σ cos(k_m · x + ω_m t + φ_m) over M = 256 waves, drawn by the spectrum of that correlation:
    |k| has the distribution P(|k| ≤ κ) = 1 - (1 + κ² D²)^(-1/2), drawn once from each of M equal parts, k any
    direction, ω the Cauchy distribution of scale 1 / T, φ uniform.  Exact for every M: mean, variance, correlation.  In
    the limit of large M only: the Gaussian distribution; the fourth moment is 3 - 3/(2M).

    Args:
        rows: number of landscapes.
        distance_m: D.
        time_s: T; infinity for landscapes that do not change.
    """

    def __init__(self, rows: int, distance_m: float, time_s: float, streams: Streams) -> None:
        row = np.arange(rows)[:, None]
        m = np.arange(_WAVES)
        length, turn, phase = (streams.field(name).uniform(row, m) for name in ("length", "turn", "phase"))

        # |k| where 1 - (1 + κ² D²)^(-1/2) is (m + U) / M, with a uniform draw U
        self._k = np.sqrt((_WAVES / (_WAVES - m - length)) ** 2 - 1.0) / distance_m
        self._angle = 2.0 * math.pi * turn
        self._phase = 2.0 * math.pi * phase

        # ω where the Cauchy distribution is U; 0 for landscapes that do not change
        pace = 0.5 if math.isinf(time_s) else streams.field("pace").uniform(row, m)
        self._omega = np.tan(math.pi * (np.broadcast_to(pace, length.shape) - 0.5)) / time_s

    def height(self, rows: Ints, xy_m: Floats, time_s: Floats) -> Floats:
        """Return S of each row at a place and time, ``[n]``."""
        height = np.empty(len(rows))
        step = _CHUNK // _WAVES
        for start in range(0, len(rows), step):
            chunk = slice(start, start + step)
            row = rows[chunk]
            x, y = xy_m[chunk].T[..., None]  # [n, 1] each
            t = time_s[chunk, None]
            along = x * np.cos(self._angle[row]) + y * np.sin(self._angle[row])  # x · k / |k|, [n, M]
            height[chunk] = np.cos(self._k[row] * along + self._omega[row] * t + self._phase[row]).sum(axis=1)
        return np.asarray(height * math.sqrt(2.0 / _WAVES))
