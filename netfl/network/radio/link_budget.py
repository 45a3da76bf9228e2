"""Link budget: the signal-to-noise ratio of every user's link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from netfl.errors import prefix_faults
from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._conformance import open_checked
from netfl.network.channel._fading import with_carrier
from netfl.network.channel._measured import OutsideDataError
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.periods import period_from, period_of
from netfl.registry import Spec, is_plugin, stream_keys
from netfl.streams import Streams
from netfl.types import Floats, Ints
from netfl.units import DecibelMilliwatts, Decibels, Hertz

_MAX_PARTS = 4096
"""Largest number of parts of a transmission."""
THERMAL_DBM_HZ = -174.0
"""Thermal noise at about 290 K, in dBm per hertz."""


class Radio(Spec):
    """Radio of users and towers.

    The noise power is -174 dBm/Hz + 10 log10(B) + NF; a link's SNR in dB is power + gain - noise.  Antenna gains and
    cable losses, which only shift the link budget, belong into ``power`` (EIRP plus the tower's antenna gain).
    """

    power: DecibelMilliwatts
    """Power of every user."""
    bandwidth: Annotated[Hertz, Field(gt=0)]
    """B, the noise bandwidth."""
    noise_figure: Annotated[Decibels, Field(ge=0)] = 0.0
    """NF, the increase of the thermal noise by the receiver."""

    @property
    def noise_dbm(self) -> float:
        """Noise power."""
        return THERMAL_DBM_HZ + 10.0 * math.log10(self.bandwidth) + self.noise_figure


class LinkBudget:
    """SNR of all links of a network: power plus the gains of all channels, over the noise.

    Args:
        channels: models of a link's channel, whose gains add up.
        streams: random streams of the network; each channel has its own below them.

    Attributes:
        power_offset_db: power of each user above that of the radio, ``[users]``; ``None`` if no user has another power.

    Raises:
        ScenarioError: a channel is not valid here; keys start with ``channel`` and its number.
    """

    def __init__(self, radio: Radio, channels: Sequence[Channel], layout: Layout, streams: Streams) -> None:
        self.radio = radio
        self.users = layout.users
        self.power_offset_db: Floats | None = None
        self._noise_dbm = _noise_dbm(radio, channels)
        self._channels = [
            channel.fitted(radio.power, self._noise_dbm, radio.bandwidth) for channel in with_carrier(channels)
        ]
        self._layout = layout
        self._streams = streams
        self._gains = self._open(layout, streams)  # to each user's nearest tower
        self._other_gains: dict[str, list[LinkGain]] = {}  # of all users to a tower, by its name
        self._holds_s = sorted({gain.hold_s for gain in self._gains} - {math.inf})
        self._slow_channels = [channel for channel in channels if channel.speed_m_s < LIGHT_M_S]

    def snr_db(self, users: Ints, time_s: ArrayLike, tower: str = "") -> Floats:
        """Return the SNR of each user at *time_s* at *tower*, by default its nearest, without interference, ``[n]``."""
        if not tower or len(self._layout.towers) == 1:
            return self._sum_db(self._gains, users, time_s)
        is_nearest = self._layout.tower_of[users] == self._layout.towers.index(tower)
        if is_nearest.all():
            return self._sum_db(self._gains, users, time_s)
        distant_db = self._sum_db(self._gains_to(tower), users, time_s)
        nearest_db = self._sum_db(self._gains, users, time_s)
        return np.where(is_nearest, nearest_db, distant_db)

    def parts_of(self, start_s: float, end_s: float) -> tuple[Floats, Floats] | None:
        """Divide a time into parts in which every gain is constant; at most 4096, evenly spread.

        Returns:
            The middle of each part, in s, and its share of the time, ``[parts]`` each; ``None`` for a single part.
        """
        # blocks of each gain that begin within the time: numbers first, …, last - 1
        inner_blocks = [
            (period_of(start_s, hold_s) + 1, period_from(end_s, hold_s), hold_s) for hold_s in self._holds_s
        ]
        count = sum(max(0, last - first) for first, last, _ in inner_blocks)
        if not count:
            return None
        if count < _MAX_PARTS:
            inner_edges_s = [hold_s * np.arange(first, last) for first, last, hold_s in inner_blocks]
        else:
            inner_edges_s = [np.linspace(start_s, end_s, _MAX_PARTS + 1)[1:-1]]
        edges_s = np.sort(np.concatenate([[start_s, end_s], *inner_edges_s]))
        middles_s = (edges_s[1:] + edges_s[:-1]) / 2.0
        shares = np.diff(edges_s) / (edges_s[-1] - edges_s[0])
        return middles_s, shares

    def mean_gains_db(self, users: Ints, times_s: Sequence[float]) -> Floats:
        """Return the gain of each channel on each link, averaged over *times_s*, ``[channels, n]``.

        Times after the end of the data of a measured channel do not count for it; the first must be within them.
        """
        means_db = [np.mean(_known_gains_db(gain, users, times_s), axis=0) for gain in self._gains]
        return np.array(means_db).reshape(len(means_db), len(users))

    def mean_snr_db(self, users: Ints, times_s: Sequence[float]) -> Floats:
        """Return the SNR of each user, its gains averaged in dB over *times_s*, ``[n]``."""
        gains_db = self.mean_gains_db(users, times_s)
        return np.asarray(self.radio.power + gains_db.sum(axis=0) - self._noise_dbm)

    def best_snr_db(self, users: Ints) -> Floats:
        """Return an SNR that each user practically never exceeds, ``[n]``."""
        best_db = sum((gain.peak_db(users) for gain in self._gains), np.zeros(len(users)))
        return np.asarray(self.radio.power + best_db - self._noise_dbm)

    def delay_s(self, users: Ints, time_s: float) -> Floats | None:
        """Return the propagation delay to each user's tower, ``[n]``; ``None`` at the speed of light, as negligible."""
        if not self._slow_channels:
            return None
        distance_m = self._layout.distances_m(users, time_s)
        delays_s = [channel.delay_s(distance_m) for channel in self._slow_channels]  # [channels, n]
        return np.asarray(np.max(delays_s, axis=0))

    def _sum_db(self, gains: Sequence[LinkGain], users: Ints, time_s: ArrayLike) -> Floats:
        """Return power + offset + Σ gains - noise of each user, ``[n]``."""
        base_db = self.radio.power - self._noise_dbm
        if self.power_offset_db is None and gains:  # the usual case, with one array less
            snr_db = np.add(base_db, gains[0].gain_db(users, time_s), dtype=float)
            gains = gains[1:]
        else:
            snr_db = np.full(len(users), base_db)
        if self.power_offset_db is not None:
            snr_db += self.power_offset_db[users]
        for gain in gains:
            snr_db += gain.gain_db(users, time_s)
        return snr_db

    def _gains_to(self, tower: str) -> list[LinkGain]:
        """Return the channels of all users to *tower*, opened at the first interference from another cell."""
        if tower not in self._other_gains:
            self._other_gains[tower] = self._open(self._layout.towards(tower), self._streams.at("towards", tower))
        return self._other_gains[tower]

    def _open(self, layout: Layout, streams: Streams) -> list[LinkGain]:
        gains = []
        for index, (channel, key) in enumerate(zip(self._channels, stream_keys(self._channels), strict=True)):
            with prefix_faults(f"channel.{index}"):
                channel_streams = streams.at("channel", *key)
                if is_plugin(channel):
                    gains.append(open_checked(channel, layout, channel_streams))
                else:
                    gains.append(channel.open(layout, channel_streams))
        return gains


def _known_gains_db(gain: LinkGain, users: Ints, times_s: Sequence[float]) -> list[Floats]:
    """Return the gains at the first of *times_s*, up to one that the data of a measured channel do not hold."""
    gains_db: list[Floats] = []
    for time_s in times_s:
        try:
            gains_db.append(gain.gain_db(users, time_s))
        except OutsideDataError:
            if not gains_db:
                raise
            break
    return gains_db


def _noise_dbm(radio: Radio, channels: Sequence[Channel]) -> float:
    """Return the sum of the noises of the media, Σ 10^(noise / 10) in mW; the radio's thermal noise if none has any."""
    noises_dbm = []
    for index, channel in enumerate(channels):
        with prefix_faults(f"channel.{index}"):
            noise_dbm = channel.noise_dbm(radio.bandwidth)
        if noise_dbm is not None:
            noises_dbm.append(noise_dbm)
    if not noises_dbm:
        return radio.noise_dbm
    total_mw = sum(10.0 ** (noise_dbm / 10.0) for noise_dbm in noises_dbm)
    return 10.0 * math.log10(total_mw)
