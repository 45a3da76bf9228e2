"""Shadowing by obstacles: a gain in dB with a normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.channel import BlockGain, Channel, LinkGain, StaticGain
from netfl.network.channel._correlation_laws import autocorrelation, gain_series
from netfl.network.channel._motion_pace import MotionPace, is_near
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels, Seconds

_CHANGE_M = 10.0, 500.0
"""Distances within which shadowing changes: some 10 m in streets, some 100 m in suburbs."""


class LognormalShadowing(Channel):
    """Independent shadowing of each user: a gain in dB with the distribution N(0, σ²).

    Without ``coherence`` a user's gain is drawn once, as for static users.  With it, each block of that length has an
    independent draw.  The mean of the linear gain is
    exp((σ ln10 / 10)² / 2), more than 1: shadowing in dB has no mean, in watts it has.  T. S. Rappaport, "Wireless
    Communications", 2nd ed., §4.9; σ of 4 to 12 dB is measured outdoors.

    Example::

        kind: lognormal_shadowing
        sigma: 6 dB
    """

    sigma: Annotated[Decibels, Field(gt=0, le=40)]
    """Standard deviation σ."""
    coherence: Annotated[Seconds, Field(gt=0)] | None = None
    """Duration of a draw; the whole run by default."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        field = streams.field("shadowing")
        if self.coherence is None:
            return StaticGain(self.sigma * field.normal(np.arange(layout.users)))
        peak_db = self.sigma * NormalDist().inv_cdf(1.0 - 1e-9)
        return BlockGain(lambda users, block: self.sigma * field.normal(users, block), self.coherence, peak_db)

    @property
    def coherence_s(self) -> float:
        return math.inf if self.coherence is None else self.coherence

    def motion_misfit(self, pace: MotionPace) -> str:
        remedy = "take correlated_shadowing, which follows the positions"
        if self.coherence is None:
            return f"a user keeps its shadowing, though users move; {remedy}"
        slowest_m_s, fastest_m_s = pace.speeds_m_s
        near_m, far_m = _CHANGE_M
        if is_near(self.coherence, (near_m / fastest_m_s, far_m / slowest_m_s)):
            return ""
        shortest_m = slowest_m_s * self.coherence
        longest_m = fastest_m_s * self.coherence
        return (
            f"users move by {shortest_m:.3g} to {longest_m:.3g} m in its coherence of {self.coherence:.3g} s, but "
            f"shadowing changes within {near_m:g} to {far_m:g} m; {remedy}"
        )

    def laws(self) -> tuple[Law, ...]:
        series = gain_series(self)
        statistics = []
        if self.coherence is not None:
            lags_s = (self.coherence, 3.0 * self.coherence)
            moments = (0.0, self.sigma**2)
            statistics = [autocorrelation("0 from block to block", series, lambda lag_s: 0.0, lags_s, moments)]
        return (
            Law(
                "gain in dB",
                "N(0, σ²), independent for each user and each block",
                draw=lambda streams, size: series(streams, size, np.array([7.3 * (self.coherence or 0.0)])).ravel(),
                mean=0.0,
                variance=self.sigma**2,
                cdf=np.vectorize(NormalDist(0.0, self.sigma).cdf, otypes=[float]),
                distribution=f"norm(0, {self.sigma:g})",
                statistics=tuple(statistics),
            ),
        )
