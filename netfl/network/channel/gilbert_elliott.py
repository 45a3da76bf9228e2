"""Channel with a good and a bad state of exponential durations."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._correlation_laws import autocorrelation, gain_series
from netfl.network.channel._markov_chain import Chain
from netfl.network.layout import Layout
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.periods import periods_of
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law
from netfl.units import Decibels, Seconds

_DRAWN_PAIRS = 1 << 12
"""Pairs of sojourns that are drawn one after the other."""
_BLOCK = 1e-6
"""Duration of a state after them, as a share of the shorter mean sojourn."""
_HOLD = 1.0 / 32.0
"""Time for which a state counts as constant within a transmission, as a share of the shorter mean sojourn."""


class GilbertElliott(Channel):
    """Gilbert-Elliott channel: each user's link is good or bad for exponential times, independent of other users.

    A link is good with probability π = g / (g + b), for mean sojourns of g in the good and b in the bad state, and
    starts stationary.  The gain has two values, and at two instants τ apart the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, "Capacity of a burst-noise channel", Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963;
    their chain samples this process at every bit.  For states that change in fixed blocks see ``markov``.

    Up to the time 4096 (g + b) sojourns are drawn one after the other.  From then on the state is a Markov chain in
    blocks of a millionth of min(g, b), with the probabilities above and a new draw from the stationary distribution, so
    that any later time takes the same number of steps.

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
            raise ValueError(f"bad_gain is not below good_gain; write less than {self.good_gain:g} dB")
        return self

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        return _TwoStateGain(self, layout.users, streams)

    @property
    def has_fast_fading(self) -> bool:
        return True

    @property
    def coherence_s(self) -> float:
        return min(self.good, self.bad)

    def laws(self) -> tuple[Law, ...]:
        """Claim the shares π and 1 - π of two gains G apart: mean, variance π (1 - π) G², and exp(-τ (1/g + 1/b))."""
        share = self.good / (self.good + self.bad)  # π
        pace = 1.0 / self.good + 1.0 / self.bad
        step_db = self.good_gain - self.bad_gain  # G
        moments = (self.bad_gain + share * step_db, share * (1.0 - share) * step_db**2)
        series = gain_series(self)

        def late_series(streams: Streams, size: int, times_s: Floats) -> Floats:
            return series(streams, size, self.drawn_until_s + times_s)

        lags_s = [lag / pace for lag in (0.2, 0.6, 1.5)]
        rho = lambda lag_s: math.exp(-lag_s * pace)  # noqa: E731
        statistics = (
            autocorrelation("exp(-τ (1/g + 1/b))", series, rho, lags_s, moments),
            autocorrelation("exp(-τ (1/g + 1/b)), after long", late_series, rho, lags_s, moments),
        )
        gain = Law(
            "gain in dB",
            "good with probability g / (g + b)",
            lambda streams, size: series(streams, size, np.array([1.7 / pace])).ravel(),
            *moments,
            distribution=f"P({self.good_gain:g}) = {share:.4g}, P({self.bad_gain:g}) = {1.0 - share:.4g}",
            statistics=statistics,
        )
        return (gain, *self.sojourns.laws())

    @property
    def drawn_until_s(self) -> float:
        """Time up to which sojourns are drawn one after the other."""
        return _DRAWN_PAIRS * (self.good + self.bad)

    @property
    def sojourns(self) -> Sojourns:
        """Sojourns in the good state, which is up, and in the bad one."""
        good, bad = (DurationDistribution(distribution="exponential", mean=mean) for mean in (self.good, self.bad))
        return Sojourns(good, bad)


class _TwoStateGain(LinkGain):
    def __init__(self, model: GilbertElliott, users: int, streams: Streams) -> None:
        self._bad_db = model.bad_gain
        self._good_db = model.good_gain
        self._drawn_until_s = model.drawn_until_s
        self._drawn = AlternatingRenewal(np.arange(users), model.sojourns, streams)

        # after that time: P(bad → good) = π (1 - exp(-t (1/g + 1/b))) in a block t, P(good → bad) with 1 - π
        g = model.good
        b = model.bad
        self._block_s = _BLOCK * min(g, b)
        leaves = -np.expm1(-self._block_s * (1.0 / g + 1.0 / b)) / (g + b)
        matrix = np.array([[1.0 - leaves * g, leaves * g], [leaves * b, 1.0 - leaves * b]])
        self._late = Chain(matrix, streams.field("far"))  # 1 is good

    @property
    def hold_s(self) -> float:
        return self._block_s / _BLOCK * _HOLD

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        times_s = np.broadcast_to(np.asarray(time_s, float), users.shape)
        is_late = times_s >= self._drawn_until_s
        if not is_late.any():
            is_good = self._drawn.up(users, times_s)
        else:
            is_good = np.empty(users.shape, bool)
            is_good[~is_late] = self._drawn.up(users[~is_late], times_s[~is_late])
            late_blocks = periods_of(times_s[is_late] - self._drawn_until_s, self._block_s)
            is_good[is_late] = self._late.state(users[is_late], late_blocks) == 1
        return np.where(is_good, self._good_db, self._bad_db)

    def peak_db(self, users: Ints) -> Floats:
        return np.full(len(users), self._good_db)
