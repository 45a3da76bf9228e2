"""A channel that is good or bad, in bursts."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._correlation_laws import autocorrelation
from netfl.network.channel._markov_chain import Chain
from netfl.network.layout import Layout
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.periods import periods_of
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels, Seconds

_NEAR = 1 << 12
"""Pairs of sojourns after which states are no longer walked through."""
_BLOCK = 1e-6
"""How long a state is held from then on, as a share of the shorter sojourn."""
_HOLD = 1.0 / 32.0
"""How long a state counts as held within a transmission, as a share of the shorter mean sojourn."""
_UNEVEN = 1e11
"""How many times as long as the other one sojourn may be; beyond that the other is never seen."""


class GilbertElliott(Channel):
    """Each user's link is good or bad for exponential times, with a gain for each state; users are independent.

    It is good with probability π = g / (g + b), for mean sojourns of g in the good and b in the bad state, and starts
    stationary.  The gain has two values, and at two instants τ apart the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, "Capacity of a burst-noise channel", Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963;
    theirs is the chain of this process looked at every bit.  For states that change in fixed blocks see ``markov``.

    Up to the time 4096 (g + b) sojourns are drawn one after the other.  From then on nothing is walked through, so
    that the channel can be asked after any idle time: the state is drawn once more from its stationary law, and held in
    blocks of a millionth of min(g, b), from one to another of which it changes with the very probabilities above.

    Example::

        kind: gilbert_elliott
        good: 9 s
        bad: 1 s
        bad_gain: -25 dB
    """

    good: Annotated[Seconds, Field(gt=0)]
    """g, the mean time that a link stays good; one over the rate at which it turns bad."""
    bad: Annotated[Seconds, Field(gt=0)]
    """b, the mean time that it stays bad."""
    good_gain: Decibels = 0.0
    """The gain while it is good."""
    bad_gain: Decibels
    """The gain while it is bad, which is less."""

    @model_validator(mode="after")
    def _two_states(self) -> GilbertElliott:
        """Good is better than bad, and both are seen."""
        if not self.bad_gain < self.good_gain:
            raise ValueError(f"bad_gain must be less than good_gain, {self.good_gain:g} dB")
        if max(self.good, self.bad) > _UNEVEN * min(self.good, self.bad):
            raise ValueError(f"good and bad differ by more than a factor of {_UNEVEN:g}: one of them is never seen")
        return self

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """An alternating process for each user."""
        return self._opened(sites.users, streams)

    @property
    def coherence_s(self) -> float:
        """The shorter of the two mean sojourns."""
        return min(self.good, self.bad)

    def laws(self) -> tuple[Law, ...]:
        """Those of the alternating process, and of the gain."""
        share, pace = self.good / (self.good + self.bad), 1.0 / self.good + 1.0 / self.bad
        step_db = self.good_gain - self.bad_gain
        moments = (self.bad_gain + share * step_db, share * (1.0 - share) * step_db**2)

        def series(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            rows = np.arange(size)
            found = self._opened(size, streams).gain_db(np.repeat(rows, len(times_s)), np.tile(times_s, size))
            return found.reshape(size, -1)

        def later(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return series(streams, size, self._near_s + times_s)

        lags_s = [lag / pace for lag in (0.2, 0.6, 1.5)]
        correlation, far = (
            autocorrelation(f"exp(-τ (1/g + 1/b)){word}", at, lambda lag_s: math.exp(-lag_s * pace), lags_s, moments)
            for word, at in (("", series), (", after long", later))
        )
        gain = Law(
            "gain in dB",
            "good with probability g / (g + b)",
            lambda streams, size: series(streams, size, np.array([1.7 / pace])).ravel(),
            *moments,
            distribution=f"P({self.good_gain:g}) = {share:.4g}, P({self.bad_gain:g}) = {1.0 - share:.4g}",
            figures=(correlation, far),
        )
        return (gain, *Sojourns(*self._lifetimes).laws())

    def _opened(self, users: int, streams: Streams) -> LinkGain:
        """The channel of so many users."""
        near = AlternatingRenewal(np.arange(users), Sojourns(*self._lifetimes), streams)
        block_s = _BLOCK * min(self.good, self.bad)
        leaves = -np.expm1(-block_s * (1.0 / self.good + 1.0 / self.bad)) / (self.good + self.bad)
        matrix = np.array(
            [[1.0 - leaves * self.good, leaves * self.good], [leaves * self.bad, 1.0 - leaves * self.bad]]
        )
        far = Chain(matrix, streams.field("far"))
        return _TwoGains(near, far, self._near_s, block_s, (self.bad_gain, self.good_gain))

    @property
    def _near_s(self) -> float:
        """Until when sojourns are drawn one after the other."""
        return _NEAR * (self.good + self.bad)

    @property
    def _lifetimes(self) -> tuple[DurationDistribution, DurationDistribution]:
        """Sojourns good and bad."""
        return DurationDistribution(law="exponential", mean=self.good), DurationDistribution(
            law="exponential", mean=self.bad
        )


class _TwoGains(LinkGain):
    """One gain while a user's state is good, another while it is bad.

    Args:
        near: the states up to *near_s*, up for good.
        far: those from then on, 1 for good.
        near_s: where they meet.
        block_s: how long each state of *far* is held.
        gains_db: of bad, and of good.
    """

    def __init__(
        self, near: AlternatingRenewal, far: Chain, near_s: float, block_s: float, gains_db: tuple[float, float]
    ) -> None:
        self._near, self._far, self._near_s, self._block_s, self._gains_db = near, far, near_s, block_s, gains_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The gain of each user's state."""
        times_s = np.broadcast_to(np.asarray(time_s, float), users.shape)
        far = times_s >= self._near_s
        if not far.any():
            good = self._near.up(users, times_s)
        else:
            good = np.empty(users.shape, bool)
            good[~far] = self._near.up(users[~far], times_s[~far])
            good[far] = self._far.state(users[far], periods_of(times_s[far] - self._near_s, self._block_s)) == 1
        return np.where(good, self._gains_db[1], self._gains_db[0])

    @property
    def hold_s(self) -> float:
        """A small part of the shorter mean sojourn."""
        return self._block_s / _BLOCK * _HOLD

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain while good."""
        return np.full(len(users), self._gains_db[1])
