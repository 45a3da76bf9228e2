"""Channel with a good and a bad state of exponential durations."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._correlation_laws import autocorrelation, gain_series
from netfl.network.channel._markov_chain import Chain
from netfl.network.layout import Layout
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.periods import periods_of
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels, Seconds

_DRAWN_PAIRS = 1 << 12
"""Pairs of sojourns that are drawn one after the other."""
_BLOCK = 1e-6
"""Duration of a state after them, as a share of the shorter mean sojourn."""
_HOLD = 1.0 / 32.0
"""Time for which a state counts as constant within a transmission, as a share of the shorter mean sojourn."""
_MAX_RATIO = 1e11
"""Maximum ratio of the two mean sojourns; beyond that the shorter is never seen."""


class GilbertElliott(Channel):
    """Gilbert-Elliott channel: each user's link is good or bad for exponential times, independent of other users.

    A link is good with probability π = g / (g + b), for mean sojourns of g in the good and b in the bad state, and
    starts stationary.  The gain has two values, and at two instants τ apart the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, "Capacity of a burst-noise channel", Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963;
    their chain samples this process at every bit.  For states that change in fixed blocks see ``markov``.

    Up to the time 4096 (g + b) sojourns are drawn one after the other.  From then on the state is a Markov chain in
    blocks of a millionth of min(g, b), with the probabilities above and a new draw from the stationary law, so that any
    later time takes the same number of steps.

    Example::

        kind: gilbert_elliott
        good: 9 s
        bad: 1 s
        bad_gain: -25 dB
    """

    good: Annotated[Seconds, Field(gt=0)]
    """g, the mean duration of the good state."""
    bad: Annotated[Seconds, Field(gt=0)]
    """b, the mean duration of the bad state."""
    good_gain: Decibels = 0.0
    """Gain in the good state."""
    bad_gain: Decibels
    """Gain in the bad state, which is smaller."""

    @model_validator(mode="after")
    def _check_states(self) -> GilbertElliott:
        if not self.bad_gain < self.good_gain:
            raise ValueError(f"bad_gain must be less than good_gain, {self.good_gain:g} dB")
        if max(self.good, self.bad) > _MAX_RATIO * min(self.good, self.bad):
            raise ValueError(f"good and bad differ by more than a factor of {_MAX_RATIO:g}: one of them is never seen")
        return self

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        """Return gains that follow an alternating process for each user."""
        return self._build_gain(layout.users, streams)

    @property
    def coherence_s(self) -> float:
        """Shorter of the two mean sojourns."""
        return min(self.good, self.bad)

    def laws(self) -> tuple[Law, ...]:
        """Claim the laws of the alternating process, and of the gain."""
        share, pace = self.good / (self.good + self.bad), 1.0 / self.good + 1.0 / self.bad
        step_db = self.good_gain - self.bad_gain
        moments = (self.bad_gain + share * step_db, share * (1.0 - share) * step_db**2)

        def series(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return gain_series(self._build_gain(size, streams), size, times_s)

        def late_series(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return series(streams, size, self._drawn_until_s + times_s)

        lags_s = [lag / pace for lag in (0.2, 0.6, 1.5)]
        rho = lambda lag_s: math.exp(-lag_s * pace)  # noqa: E731
        figures = (
            autocorrelation("exp(-τ (1/g + 1/b))", series, rho, lags_s, moments),
            autocorrelation("exp(-τ (1/g + 1/b)), after long", late_series, rho, lags_s, moments),
        )
        gain = Law(
            "gain in dB",
            "good with probability g / (g + b)",
            lambda streams, size: series(streams, size, np.array([1.7 / pace])).ravel(),
            *moments,
            distribution=f"P({self.good_gain:g}) = {share:.4g}, P({self.bad_gain:g}) = {1.0 - share:.4g}",
            figures=figures,
        )
        return (gain, *Sojourns(*self._lifetimes).laws())

    def _build_gain(self, users: int, streams: Streams) -> LinkGain:
        drawn = AlternatingRenewal(np.arange(users), Sojourns(*self._lifetimes), streams)
        block_s = _BLOCK * min(self.good, self.bad)
        leaves = -np.expm1(-block_s * (1.0 / self.good + 1.0 / self.bad)) / (self.good + self.bad)
        matrix = np.array(
            [[1.0 - leaves * self.good, leaves * self.good], [leaves * self.bad, 1.0 - leaves * self.bad]]
        )
        late = Chain(matrix, streams.field("far"))
        return _TwoStateGain(self, drawn, late, self._drawn_until_s, block_s)

    @property
    def _drawn_until_s(self) -> float:
        return _DRAWN_PAIRS * (self.good + self.bad)

    @property
    def _lifetimes(self) -> tuple[DurationDistribution, DurationDistribution]:
        return DurationDistribution(law="exponential", mean=self.good), DurationDistribution(
            law="exponential", mean=self.bad
        )


class _TwoStateGain(LinkGain):
    """Gain of each user's state.

    Args:
        model: the channel.
        drawn: states up to *drawn_until_s*, up for good.
        late: states from then on, 1 for good.
        drawn_until_s: time at which *late* takes over.
        block_s: duration of each state of *late*.
    """

    def __init__(
        self, model: GilbertElliott, drawn: AlternatingRenewal, late: Chain, drawn_until_s: float, block_s: float
    ) -> None:
        self._bad_db, self._good_db = model.bad_gain, model.good_gain
        self._drawn, self._late, self._drawn_until_s, self._block_s = drawn, late, drawn_until_s, block_s

    @property
    def hold_s(self) -> float:
        return self._block_s / _BLOCK * _HOLD

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        times_s = np.broadcast_to(np.asarray(time_s, float), users.shape)
        is_late = times_s >= self._drawn_until_s
        if not is_late.any():
            good = self._drawn.up(users, times_s)
        else:
            good = np.empty(users.shape, bool)
            good[~is_late] = self._drawn.up(users[~is_late], times_s[~is_late])
            blocks = periods_of(times_s[is_late] - self._drawn_until_s, self._block_s)
            good[is_late] = self._late.state(users[is_late], blocks) == 1
        return np.where(good, self._good_db, self._bad_db)

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(len(users), self._good_db)
