"""What Rayleigh, Rician and Nakagami fading share: how fast they fade, in blocks or by Doppler shifts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._correlation_laws import autocorrelation, crossing_rate, fade_duration
from netfl.network.channel._gains import BlockGain
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import RandomField, Streams
from netfl.types import Law, StatisticClaim
from netfl.units import Carrier, Hertz, Seconds, Unit

# Scattered waves that reach a moving user: a complex gain in continuous time, by a sum of sinusoids.


SINUSOIDS = 128
"""Waves of each user, where a scenario does not say how many."""

_KEPT = 2**24
"""Angles and phases that are kept at most, 8 bytes each; those of more users are drawn at each call."""
_CHUNK = 2**19
"""Sinusoids that are summed at a time."""


class SumOfSinusoids:
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


def _uniform(field: RandomField, users: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.float64]:
    """A uniform draw for each (user, sinusoid), ``[n, sinusoids]``."""
    return field.uniform(users[:, None], number)


LAGS = (0.08, 0.16, 0.25, 0.4)
"""Lags at which correlations are tested, in periods of the largest Doppler shift: around J0's steepest descent."""
LEVELS = (0.3, 0.6, 1.0)
"""Amplitudes whose crossings are tested, over the root mean square amplitude."""
HOLD = 1.0 / 16.0
"""How long a gain in continuous time counts as constant, in periods of the largest Doppler shift."""
STEP = 0.01
"""Time between looks at a series, in periods of the largest Doppler shift."""
_RARE = 0.05
"""Levels that are crossed less often in a period are not tested: too few fades to judge by."""


class Fading(Channel):
    """Small-scale fading in blocks, or in continuous time by Doppler shifts."""

    coherence: Annotated[Seconds, Field(gt=0)] | None = None
    """Block fading: how long a draw holds; about 0.4 / (Doppler spread)."""
    doppler: Annotated[Hertz, Field(gt=0)] | None = None
    """f, the largest Doppler shift, in place of ``coherence``: fading in continuous time (Clarke, Jakes)."""
    speed: Annotated[float, Unit("m/s"), Field(gt=0, le=LIGHT_M_S / 1000)] | None = None
    """v, in place of ``doppler``: f = v / wavelength, for the ``frequency``."""
    frequency: Carrier | None = None
    """The carrier frequency, only with ``speed``."""
    sinusoids: Annotated[int, Field(ge=16, le=4096)] | None = None
    """N, scattered waves of each user, only without ``coherence``; 128 if not given."""

    @model_validator(mode="after")
    def _one_pace(self) -> Fading:
        """One source of how fast it fades, and nothing without effect."""
        if [self.coherence, self.doppler, self.speed].count(None) != 2:
            raise ValueError("give coherence, or doppler, or speed with frequency, exactly one of them")
        if (self.speed is None) != (self.frequency is None):
            raise ValueError("speed and frequency go together: the Doppler shift is speed × frequency / c")
        if self.coherence is not None and self.sinusoids is not None:
            raise ValueError("sinusoids has no effect on block fading; leave it out, or give doppler for coherence")
        return self

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """Draws keyed by (user, block), or by (user, scattered wave)."""
        if self.coherence is None:
            return DopplerGain(self._amplifier(sites.users, streams), self._peak_db, HOLD / self.doppler_hz)
        field = streams.field("fading")
        return BlockGain(lambda users, block: self._block_db(field, users, block), self.coherence, self._peak_db)

    @property
    def coherence_s(self) -> float:
        """That of the blocks, or 0.4 / f."""
        return 0.4 / self.doppler_hz if self.coherence is None else self.coherence

    @property
    def doppler_hz(self) -> float:
        """f; 0 for block fading."""
        if self.speed is not None and self.frequency is not None:
            return self.speed * self.frequency / LIGHT_M_S
        return self.doppler or 0.0

    @abstractmethod
    def _block_db(self, field: Any, users: NDArray[np.int64], block: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Gains drawn from *field*, keyed by (user, block)."""

    @abstractmethod
    def _amplifier(self, users: int, streams: Streams) -> Power:
        """The power gain in continuous time."""

    @property
    @abstractmethod
    def _peak_db(self) -> float:
        """Exceeded with a probability under 1e-9."""

    @property
    def _waves(self) -> int:
        """N."""
        return self.sinusoids or SINUSOIDS

    def _law(self, statement: str, distribution: Any, figures: tuple[StatisticClaim, ...] = ()) -> Law:
        """The law of the power gain, at an instant of each of many users, and over time where it goes on in it."""
        pace = self.coherence or 1.0 / self.doppler_hz
        kind = "independent for each user and each block" if self.coherence else "independent for each user"

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            users = np.arange(size)
            return self._power(size, streams, users, users * pace)

        if self.coherence is not None:
            lags_s, moments = (self.coherence, 3.0 * self.coherence), (1.0, float(distribution.var()))
            figures = (autocorrelation("0 from block to block", self._series, lambda lag_s: 0.0, lags_s, moments),)
        return Law("power gain", f"{statement}, {kind}", draw, distribution=distribution, figures=figures)

    def _power(self, size: int, streams: Streams, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The power gains in a network of *size* users."""
        gain = self.open(Layout(nx.Graph(), np.zeros((size, 2))), streams)
        return np.asarray(10.0 ** (gain.gain_db(users, time_s) / 10.0))

    def _series(self, streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The power gains of *size* users over time."""
        users = np.repeat(np.arange(size), len(times_s))
        return self._power(size, streams, users, np.tile(times_s, size)).reshape(size, -1)

    def _correlation(self, formula: str, rho: Callable[[float], float], variance: float) -> StatisticClaim:
        """The claim that the power at two instants has the correlation *rho* of f τ; its mean is 1."""
        rescaled = partial(_rescaled, rho, self.doppler_hz)
        lags_s = [lag / self.doppler_hz for lag in LAGS]
        return autocorrelation(formula, self._series, rescaled, lags_s, (1.0, variance))

    def _fades(
        self, formula: str, rate: Callable[[float], float], below: Callable[[float], float]
    ) -> tuple[StatisticClaim, StatisticClaim]:
        """The claims of *rate* falls below amplitude ρ in 1/f, and that *below* is the share of time there."""
        f = self.doppler_hz
        powers = [level**2 for level in LEVELS if rate(level) >= _RARE]
        return (
            crossing_rate(formula, self._series, lambda x: f * rate(x**0.5), powers, STEP / f),
            fade_duration(
                "P(amplitude < ρ) / (level-crossing rate)",
                self._series,
                lambda x: below(x**0.5) / (f * rate(x**0.5)),
                powers,
                STEP / f,
            ),
        )


Power = Callable[[NDArray[np.int64], ArrayLike], NDArray[np.float64]]
"""``power(users, time_s)``: the power gain of each user, ``[n]``."""


class DopplerGain(LinkGain):
    """Gains that go on in continuous time.

    Args:
        power: the power gain of (users, time).
        peak_db: exceeded with a probability under 1e-9.
        hold_s: for how long it is nearly constant.
    """

    def __init__(self, power: Power, peak_db: float, hold_s: float) -> None:
        self._power, self._peak_db, self._hold_s = power, peak_db, hold_s

    @property
    def hold_s(self) -> float:
        """A small part of a period of the largest Doppler shift."""
        return self._hold_s

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The power gain in dB; a power too small to have one counts as the smallest that has."""
        return np.asarray(10.0 * np.log10(np.maximum(self._power(users, time_s), np.finfo(float).tiny)))

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same for all users."""
        return np.full(len(users), self._peak_db)


def _rescaled(rho: Callable[[float], float], per_s: float, lag_s: float) -> float:
    """*rho* of a lag in seconds."""
    return rho(lag_s * per_s)
