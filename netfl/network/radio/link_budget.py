"""Link budget: the signal-to-noise ratio of every user's link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from netfl.errors import prefix_faults
from netfl.network.channel import Channel, LinkGain
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.periods import period_from, period_of
from netfl.registry import Spec, kind_of
from netfl.streams import Streams
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
        radio: Radio of users and towers.
        channels: Models of a link's channel, whose gains add up.
        sites: Positions.
        streams: Random streams of the network; each channel has its own below them.

    Attributes:
        users: Number of users.

    Raises:
        ScenarioError: A channel is not valid here; keys start with ``channel`` and its number.
    """

    def __init__(self, radio: Radio, channels: Sequence[Channel], sites: Layout, streams: Streams) -> None:
        self.radio, self.users = radio, sites.users
        self._channels, self._sites, self._streams = tuple(channels), sites, streams
        self._gains = self._open(sites, streams)
        self._holds_s = sorted({gain.hold_s for gain in self._gains} - {math.inf})
        self._other_gains: dict[str, list[LinkGain]] = {}
        noises = []
        for index, channel in enumerate(channels):
            with prefix_faults(f"channel.{index}"):
                noises.append(channel.noise_dbm(radio.bandwidth))
        known = [noise for noise in noises if noise is not None]
        self._noise_dbm = _sum_dbm(known) if known else radio.noise_dbm
        self._slow = [channel for channel in channels if channel.speed_m_s < LIGHT_M_S]

    def snr_db(self, users: NDArray[np.int64], time_s: ArrayLike, tower: str = "") -> NDArray[np.float64]:
        """Return the SNR of each user at *time_s* at *tower*, by default its nearest, without interference, ``[n]``."""
        if not tower or not self._has_several_towers:
            return self._sum_db(self._gains, users, time_s)
        is_nearest = self._sites.cell[users] == self._sites.towers.index(tower)
        if is_nearest.all():
            return self._sum_db(self._gains, users, time_s)
        distant_db = self._sum_db(self._gains_to(tower), users, time_s)
        return np.where(is_nearest, self._sum_db(self._gains, users, time_s), distant_db)

    def parts_of(self, start_s: float, end_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Divide a time into parts in which every gain is constant; at most 4096, evenly spread.

        Returns:
            The middle of each part, in s, and its share of the time, ``[parts]`` each; ``None`` for a single part.
        """
        inner = [(period_of(start_s, hold_s) + 1, period_from(end_s, hold_s), hold_s) for hold_s in self._holds_s]
        count = sum(max(0, last - first) for first, last, _ in inner)
        if not count:
            return None
        if count < _MAX_PARTS:
            edges_s = [hold_s * np.arange(first, last) for first, last, hold_s in inner]
        else:
            edges_s = [np.linspace(start_s, end_s, _MAX_PARTS + 1)[1:-1]]
        at_s = np.sort(np.concatenate([[start_s, end_s], *edges_s]))
        return (at_s[1:] + at_s[:-1]) / 2.0, np.diff(at_s) / (at_s[-1] - at_s[0])

    def best_snr_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return an SNR that each user practically never exceeds, ``[n]``."""
        best_db = sum((gain.peak_db(users) for gain in self._gains), np.zeros(len(users)))
        return np.asarray(self.radio.power + best_db - self._noise_dbm)

    def delay_s(self, users: NDArray[np.int64], time_s: float) -> NDArray[np.float64] | None:
        """Return the propagation delay to each user's tower, ``[n]``; ``None`` at the speed of light, as negligible."""
        if not self._slow:
            return None
        distance_m = self._sites.distances_m(users, time_s)
        return np.asarray(np.max([channel.delay_s(distance_m) for channel in self._slow], axis=0))

    def _sum_db(self, gains: Sequence[LinkGain], users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Return power and gains over the noise, ``[n]``."""
        snr_db = np.full(len(users), self.radio.power - self._noise_dbm)
        for gain in gains:
            snr_db += gain.gain_db(users, time_s)
        return snr_db

    @cached_property
    def _has_several_towers(self) -> bool:
        return len(self._sites.towers) > 1

    def _gains_to(self, tower: str) -> list[LinkGain]:
        """Return the channels of all users to *tower*, opened at the first interference from another cell."""
        if tower not in self._other_gains:
            self._other_gains[tower] = self._open(self._sites.towards(tower), self._streams.at("towards", tower))
        return self._other_gains[tower]

    def _open(self, sites: Layout, streams: Streams) -> list[LinkGain]:
        gains = []
        for index, channel in enumerate(self._channels):
            with prefix_faults(f"channel.{index}"):
                gains.append(channel.open(sites, streams.at("channel", index, kind_of(type(channel)))))
        return gains


def _sum_dbm(powers_dbm: Sequence[float]) -> float:
    return 10.0 * math.log10(sum(10.0 ** (power / 10.0) for power in powers_dbm))
