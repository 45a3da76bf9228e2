"""Static gains that differ from one frequency channel to the next, correlated over frequency."""

from __future__ import annotations

import math
from typing import Annotated, Self

import networkx as nx
import numpy as np
from pydantic import Field, PrivateAttr

from netfl.network.channel import Channel, LinkGain, StaticGain
from netfl.network.channel._motion_pace import MotionPace
from netfl.network.layout import Layout
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, Law, StatisticClaim
from netfl.units import Decibels, Hertz


class FrequencySelective(Channel):
    """A static gain of each link on each frequency channel: N(0, spread²) in dB, correlated over frequency.

    A link of a device that does not move can deliver nearly all frames on one channel and few on the next, for months:
    the paths between two places add up in another way at each frequency.  The gains g_i and g_j of one link on channels
    with the centre frequencies f_i and f_j have the correlation exp(-|f_i - f_j| / coherence_bandwidth).  Links, of a
    user and a tower, are independent of each other.  The gain adds up with those of the other models, such as a path
    loss.

    The exponential correlation is that of a Gauss-Markov process, as of shadowing over distance (M. Gudmundson,
    Electronics Letters 27(23), 1991).  It has one parameter, is valid for any set of frequencies, and lets neighbours
    differ less than channels far apart.  A Gaussian law in dB is a description of measured means by channel, and not
    of the two-path fading that is behind them: deep notches are rarer than there.  Valid for users that do not move.

    Frequencies come from the MAC.  `lorawan` has those of its sub-bands; the channel n of `multichannel_aloha`,
    `adaptive_aloha` and `controlled` is at n times the largest bandwidth of a radio.  Only differences matter.  Senders
    know their channels when they choose a mode, where the MAC does not set it.  What has no channel of its own has the
    mean of the gains of its link in dB over the channels: versions on a downlink, acknowledgements, associations,
    power control, and the SNR of which `lorawan` chooses a spreading factor.  A MAC with one channel is refused.

    Example::

        kind: frequency_selective
        spread: 2 dB
        coherence_bandwidth: 400 kHz
    """

    spread: Annotated[Decibels, Field(gt=0, le=40)]
    """Standard deviation of the gain on one channel."""
    coherence_bandwidth: Annotated[Hertz, Field(gt=0)]
    """Distance of two frequencies at which the gains have the correlation 1/e."""

    _centres_hz: tuple[float, ...] = PrivateAttr(default=(0.0,))

    @property
    def is_frequency_selective(self) -> bool:
        return True

    def on_channels(self, centres_hz: Floats) -> Self:
        copy = self.model_copy()
        copy._centres_hz = tuple(centres_hz.tolist())
        return copy

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        gains_db = self._gains_db(streams.field("channel gain"), np.arange(layout.users))
        return _ChannelGains(gains_db)

    def _gains_db(self, field: RandomField, users: Ints) -> Floats:
        """Return the gain of each user's link on each channel, ``[n, channels]``.

        Over the channels in the order of their frequencies, x_k = ρ x_(k-1) + sqrt(1 - ρ²) z_k with
        ρ = exp(-(f_k - f_(k-1)) / B_c) and independent normal z_k.
        """
        centres_hz = np.array(self._centres_hz)
        order = np.argsort(centres_hz, kind="stable")
        steps_hz = np.diff(centres_hz[order])
        rho = np.exp(-steps_hz / self.coherence_bandwidth)  # [channels - 1]
        draws = field.normal(users[:, None], np.arange(len(order)))  # z, [n, channels]
        heights = np.empty_like(draws)  # x, by channel
        heights[:, order[0]] = draws[:, 0]
        for place in range(1, len(order)):
            innovation = math.sqrt(1.0 - rho[place - 1] ** 2) * draws[:, place]
            heights[:, order[place]] = rho[place - 1] * heights[:, order[place - 1]] + innovation
        return np.asarray(self.spread * heights)

    def motion_misfit(self, pace: MotionPace) -> str:
        return "a link keeps its gains on all channels, though users move; leave it out, or take rayleigh"

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        parts = (0.25, 1.0, 2.0)  # of the coherence bandwidth
        model = self.on_channels(np.array([2.0, *(2.0 + part for part in parts)]) * self.coherence_bandwidth)

        def draw(streams: Streams, size: int) -> Floats:
            layout = Layout(nx.Graph(), np.zeros((size, 2)))
            gain = model.open(layout, streams)
            users = np.arange(size)
            above_mean_db = gain.channel_gains_db(users)
            assert above_mean_db is not None
            return np.asarray(gain.gain_db(users, 0.0)[:, None] + above_mean_db)

        def products(streams: Streams, size: int) -> Floats:
            heights = draw(streams, size) / self.spread
            return np.asarray(heights[:, :1] * heights[:, 1:])

        claim = StatisticClaim(
            "correlation over frequency",
            "exp(-Δf / B_c)",
            products,
            [math.exp(-part) for part in parts],
            [f"Δf = {part:g} B_c" for part in parts],
        )
        return (
            Law(
                "gain of a link on a channel in dB",
                "N(0, spread²), independent between links",
                lambda streams, size: draw(streams, size)[:, 0],
                mean=0.0,
                variance=self.spread**2,
                distribution=stats.norm(0.0, self.spread),
                statistics=(claim,),
            ),
        )


class _ChannelGains(StaticGain):
    """Gains of links on several channels.

    Args:
        gains_db: gain of each user's link on each channel, ``[users, channels]``.
    """

    def __init__(self, gains_db: Floats) -> None:
        StaticGain.__init__(self, gains_db.mean(axis=1))
        self._above_mean_db = gains_db - self.all_db[:, None]

    def channel_gains_db(self, users: Ints) -> Floats | None:
        return self._above_mean_db[users]
