"""From power and noise to the signal-to-noise ratio of every user's link."""

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

_MOST_PARTS = 4096
"""Parts of a transmission that are looked at, at most."""
THERMAL_DBM_HZ = -174.0
"""Thermal noise at about 290 K, in dBm per hertz."""


class Radio(Spec):
    """What users send with and towers hear with.

    The noise power is -174 dBm/Hz + 10 log10(B) + NF; a link's SNR in dB is power + gain - noise.  Antenna gains and
    cable losses, which only shift the link budget, belong into ``power`` (EIRP plus the tower's antenna gain).
    """

    power: DecibelMilliwatts
    """Power at which every user sends."""
    bandwidth: Annotated[Hertz, Field(gt=0)]
    """B, the bandwidth in which noise is heard."""
    noise_figure: Annotated[Decibels, Field(ge=0)] = 0.0
    """NF, by how much the receiver's own noise raises the thermal noise."""

    @property
    def noise_dbm(self) -> float:
        """The noise power."""
        return THERMAL_DBM_HZ + 10.0 * math.log10(self.bandwidth) + self.noise_figure


class LinkBudget:
    """The air of one network: the radio and the channels, whose gains add up.

    Args:
        radio: what is sent with.
        channels: the models of a link's channel.
        sites: where everything stands.
        streams: those of the network; the i-th channel draws from its own place below them.

    Attributes:
        users: the number of users.

    Raises:
        ScenarioError: a channel does not hold here; keys start with ``channel`` and its number.
    """

    def __init__(self, radio: Radio, channels: Sequence[Channel], sites: Layout, streams: Streams) -> None:
        self.radio, self.users = radio, sites.users
        self._channels, self._sites, self._streams = tuple(channels), sites, streams
        self._own = self._open(sites, streams)
        self._holds_s = sorted({gain.hold_s for gain in self._own} - {math.inf})
        self._foreign: dict[str, list[LinkGain]] = {}
        noises = []
        for index, channel in enumerate(channels):
            with prefix_faults(f"channel.{index}"):
                noises.append(channel.noise_dbm(radio.bandwidth))
        known = [noise for noise in noises if noise is not None]
        self._noise_dbm = _sum_dbm(known) if known else radio.noise_dbm
        self._slow = [channel for channel in channels if channel.speed_m_s < LIGHT_M_S]

    def snr_db(self, users: NDArray[np.int64], time_s: ArrayLike, tower: str = "") -> NDArray[np.float64]:
        """The SNR at which a tower hears each user at *time_s*, alone on the air, ``[n]``; by default its own tower."""
        if not tower or not self._several:
            return self._heard(self._own, users, time_s)
        own = self._sites.cell[users] == self._sites.towers.index(tower)
        if own.all():
            return self._heard(self._own, users, time_s)
        return np.where(own, self._heard(self._own, users, time_s), self._heard(self._to(tower), users, time_s))

    def parts_of(self, start_s: float, end_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the parts of a time in each of which every gain is constant; ``None`` if that is one part.

        Of more than 4096 parts as many are taken, evenly spread.

        Returns:
            The middle of each part, in s, and its share of the time, ``[parts]`` each.
        """
        inner = [(period_of(start_s, hold_s) + 1, period_from(end_s, hold_s), hold_s) for hold_s in self._holds_s]
        count = sum(max(0, last - first) for first, last, _ in inner)
        if not count:
            return None
        if count < _MOST_PARTS:
            edges_s = [hold_s * np.arange(first, last) for first, last, hold_s in inner]
        else:
            edges_s = [np.linspace(start_s, end_s, _MOST_PARTS + 1)[1:-1]]
        at_s = np.sort(np.concatenate([[start_s, end_s], *edges_s]))
        return (at_s[1:] + at_s[:-1]) / 2.0, np.diff(at_s) / (at_s[-1] - at_s[0])

    def best_snr_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """An SNR that each user exceeds practically never, ``[n]``: who is not received at it is unreachable."""
        best_db = sum((gain.peak_db(users) for gain in self._own), np.zeros(len(users)))
        return np.asarray(self.radio.power + best_db - self._noise_dbm)

    def delay_s(self, users: NDArray[np.int64], time_s: float) -> NDArray[np.float64] | None:
        """How long a signal takes to each user's tower, ``[n]``; ``None`` at the speed of light: no time at all."""
        if not self._slow:
            return None
        distance_m = self._sites.distances_m(users, time_s)
        return np.asarray(np.max([channel.delay_s(distance_m) for channel in self._slow], axis=0))

    def _heard(self, gains: Sequence[LinkGain], users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Power and gains over the noise."""
        snr_db = np.full(len(users), self.radio.power - self._noise_dbm)
        for gain in gains:
            snr_db += gain.gain_db(users, time_s)
        return snr_db

    @cached_property
    def _several(self) -> bool:
        """Whether there is more than one tower."""
        return len(self._sites.towers) > 1

    def _to(self, tower: str) -> list[LinkGain]:
        """The channels from all users to *tower*, made when somebody there is first disturbed from another cell."""
        if tower not in self._foreign:
            self._foreign[tower] = self._open(self._sites.towards(tower), self._streams.at("towards", tower))
        return self._foreign[tower]

    def _open(self, sites: Layout, streams: Streams) -> list[LinkGain]:
        """All channels at work on the links of *sites*."""
        gains = []
        for index, channel in enumerate(self._channels):
            with prefix_faults(f"channel.{index}"):
                gains.append(channel.open(sites, streams.at("channel", index, kind_of(type(channel)))))
        return gains


def _sum_dbm(powers_dbm: Sequence[float]) -> float:
    """The sum of powers."""
    return 10.0 * math.log10(sum(10.0 ** (power / 10.0) for power in powers_dbm))
