"""A random landscape: a Gaussian field over the plane, and over time, whose correlation falls off exponentially."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams

WAVES = 256
"""Waves of each landscape."""

_CHUNK = 2**19


class Landscape:
    """Landscapes of mean 0 and variance 1 with the correlation exp(-r / D - τ / T), each a sum of plane waves.

    S(x, t) = sqrt(2 / M) Σ cos(k_m · x + ω_m t + φ_m) over M = 256 waves, all drawn at random by the spectrum of that
    correlation: |k| has the law P(|k| ≤ κ) = 1 - (1 + κ² D²)^(-1/2), drawn once from each of M equal parts, k any
    direction, ω the Cauchy law of scale 1 / T, φ uniform.  Exact for every M: mean, variance, correlation.  In the
    limit of large M only: the Gaussian law; the fourth moment is 3 - 3/(2M).

    Args:
        rows: the number of landscapes.
        distance_m: D, at which the correlation is 1/e.
        time_s: T, likewise; infinity for landscapes that stay.
        streams: where waves come from.
    """

    def __init__(self, rows: int, distance_m: float, time_s: float, streams: Streams) -> None:
        row, number = np.arange(rows)[:, None], np.arange(WAVES)
        length, turn, phase = (streams.field(name).uniform(row, number) for name in ("length", "turn", "phase"))
        self._k = np.sqrt((WAVES / (WAVES - number - length)) ** 2 - 1.0) / distance_m
        self._angle, self._phase = 2.0 * math.pi * turn, 2.0 * math.pi * phase
        pace = 0.5 if math.isinf(time_s) else streams.field("pace").uniform(row, number)
        self._omega = np.tan(math.pi * (np.broadcast_to(pace, length.shape) - 0.5)) / time_s

    def height(
        self, rows: NDArray[np.int64], xy_m: NDArray[np.float64], time_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """S of each row at a place and time, ``[n]``."""
        height, step = np.empty(len(rows)), _CHUNK // WAVES
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            row, (x, y), time = rows[some], xy_m[some].T[..., None], time_s[some, None]
            along = x * np.cos(self._angle[row]) + y * np.sin(self._angle[row])
            height[some] = np.cos(self._k[row] * along + self._omega[row] * time + self._phase[row]).sum(axis=1)
        return np.asarray(height * math.sqrt(2.0 / WAVES))
