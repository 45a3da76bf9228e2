"""Scattered waves that reach a moving user: a complex gain in continuous time, by a sum of sinusoids."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.streams import Field, Streams

SINUSOIDS = 128
"""Waves of each user, where a scenario does not say how many."""

_KEPT = 2**24
"""Angles and phases that are kept at most, 8 bytes each; those of more users are drawn at each call."""
_CHUNK = 2**19
"""Sinusoids that are summed at a time."""


class Scatter:
    """The gain h of many scattered waves, with E[|h|²] = 1: a function of (user, time), in any order of asking.

    h(t) = N^(-1/2) Σ exp(i (2π f t cos α_n + φ_n)) over n = 1 … N, where the angle of arrival α_n is uniform on the
    n-th of N equal parts of the circle and the phase φ_n is uniform, all independent (Xiao, Zheng and Beaulieu, IEEE
    Trans. Wireless Commun. 5(12), 2006).  Exact for every N: E[h(t) h*(t+τ)] = J0(2π f τ), and |h|² has the mean 1 over
    time for each user by itself.  In the limit of large N only: the Gaussian law; E[|h|⁴] is 2 - 1/N.

    Args:
        users: the number of users.
        doppler_hz: f, the largest Doppler shift.
        sinusoids: N.
        streams: where angles and phases come from.
    """

    def __init__(self, users: int, doppler_hz: float, sinusoids: int, streams: Streams) -> None:
        self._angles, self._phases = streams.field("angle"), streams.field("phase")
        self._doppler_hz, self._sinusoids = doppler_hz, sinusoids
        self._place = np.full(users, -1)
        self._most = min(users, _KEPT // (2 * sinusoids))
        self._kept, self._waves = 0, np.empty((0, 2, sinusoids))

    def gain(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.complex128]:
        """The gain of each user at *time_s*, ``[n]``."""
        times = np.broadcast_to(np.asarray(time_s, float), users.shape)
        gain = np.empty(len(users), complex)
        step = max(1, _CHUNK // self._sinusoids)
        for start in range(0, len(users), step):
            some = slice(start, start + step)
            omega, phase = np.moveaxis(self._of(users[some]), 1, 0)
            turn = omega * times[some, None] + phase
            gain[some].real, gain[some].imag = np.cos(turn).sum(axis=1), np.sin(turn).sum(axis=1)
        return np.asarray(gain / math.sqrt(self._sinusoids))

    def _of(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Each user's angular frequencies and phases, ``[n, 2, sinusoids]``, kept while there is room."""
        unseen = users[self._place[users] < 0]
        if unseen.size and self._kept < self._most:
            self._keep(np.unique(unseen)[: self._most - self._kept])
        place = self._place[users]
        if place.size and place.min() >= 0:
            return np.asarray(self._waves[place])
        found = np.empty((len(users), 2, self._sinusoids))
        found[place >= 0] = self._waves[place[place >= 0]]
        found[place < 0] = self._draw(users[place < 0])
        return found

    def _keep(self, users: NDArray[np.int64]) -> None:
        """Remember the waves of *users*, in an array that doubles when it is full."""
        wanted = self._kept + len(users)
        if wanted > len(self._waves):
            room = np.empty((min(self._most, max(wanted, 2 * len(self._waves))), 2, self._sinusoids))
            room[: self._kept] = self._waves[: self._kept]
            self._waves = room
        self._waves[self._kept : wanted] = self._draw(users)
        self._place[users] = np.arange(self._kept, wanted)
        self._kept = wanted

    def _draw(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Angular frequencies and phases, keyed by (user, sinusoid)."""
        number = np.arange(self._sinusoids)
        angle = (number + _uniform(self._angles, users, number)) * (2.0 * math.pi / self._sinusoids)
        phase = 2.0 * math.pi * _uniform(self._phases, users, number)
        return np.stack([2.0 * math.pi * self._doppler_hz * np.cos(angle), phase], axis=1)


def _uniform(field: Field, users: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.float64]:
    """A uniform draw for each (user, sinusoid), ``[n, sinusoids]``."""
    return field.uniform(users[:, None], number)
