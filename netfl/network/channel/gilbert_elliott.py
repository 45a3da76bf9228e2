"""A channel that is good or bad, in bursts."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.claims import Law
from netfl.network.channel import Channel, Gain
from netfl.network.outage._alternating import Alternating, process_laws
from netfl.network.outage._lifetimes import Lifetime
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.timelaws import autocorrelation
from netfl.units import Decibels, Seconds


class GilbertElliott(Channel):
    """Each user's link is good or bad for exponential times, with a gain for each state; users are independent.

    It is good with probability π = g / (g + b), for mean sojourns of g in the good and b in the bad state, and starts
    stationary.  The gain has two values, and at two instants τ apart the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, "Capacity of a burst-noise channel", Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963;
    theirs is the chain of this process looked at every bit.  For states that change in fixed blocks see ``markov``.

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
    def _good_is_better(self) -> GilbertElliott:
        """Good is better than bad."""
        if not self.bad_gain < self.good_gain:
            raise ValueError(f"bad_gain must be less than good_gain, {self.good_gain:g} dB")
        return self

    def open(self, sites: Sites, streams: Streams) -> Gain:
        """An alternating process for each user."""
        process = Alternating(np.arange(sites.users), *self._lifetimes, streams)
        return _TwoGains(process, self.good_gain, self.bad_gain)

    def laws(self) -> tuple[Law, ...]:
        """Those of the alternating process, and of the gain."""
        share, pace = self.good / (self.good + self.bad), 1.0 / self.good + 1.0 / self.bad
        step_db = self.good_gain - self.bad_gain
        moments = (self.bad_gain + share * step_db, share * (1.0 - share) * step_db**2)

        def series(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            rows = np.arange(size)
            gain = _TwoGains(Alternating(rows, *self._lifetimes, streams), self.good_gain, self.bad_gain)
            found = gain.gain_db(np.repeat(rows, len(times_s)), np.tile(times_s, size))
            return found.reshape(size, -1)

        lags_s = [lag / pace for lag in (0.2, 0.6, 1.5)]
        correlation = autocorrelation(
            "exp(-τ (1/g + 1/b))", series, lambda lag_s: math.exp(-lag_s * pace), lags_s, moments
        )
        gain = Law(
            "gain in dB",
            "good with probability g / (g + b)",
            lambda streams, size: series(streams, size, np.array([1.7 / pace])).ravel(),
            *moments,
            distribution=f"P({self.good_gain:g}) = {share:.4g}, P({self.bad_gain:g}) = {1.0 - share:.4g}",
            figures=(correlation,),
        )
        return (gain, *process_laws(*self._lifetimes))

    @property
    def _lifetimes(self) -> tuple[Lifetime, Lifetime]:
        """Sojourns good and bad."""
        return Lifetime(law="exponential", mean=self.good), Lifetime(law="exponential", mean=self.bad)


class _TwoGains(Gain):
    """One gain while a user's process is up, another while it is down."""

    def __init__(self, process: Alternating, up_db: float, down_db: float) -> None:
        self._process, self._up_db, self._down_db = process, up_db, down_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The gain of each user's state."""
        return np.where(self._process.up(users, time_s), self._up_db, self._down_db)

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain while good."""
        return np.full(len(users), self._up_db)
