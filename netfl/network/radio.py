"""From power and noise to the signal-to-noise ratio of every user's link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from netfl.network.channel import Channel
from netfl.network.sites import Sites
from netfl.registry import Spec, kind_of
from netfl.streams import Streams
from netfl.units import DecibelMilliwatts, Decibels, Hertz

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

    def snr_db(self, gain_db: NDArray[np.float64]) -> NDArray[np.float64]:
        """The signal-to-noise ratio of links with these gains."""
        return np.asarray(self.power + gain_db - self.noise_dbm)


class Air:
    """The air of one network: the radio and the channels, whose gains add up.

    Args:
        radio: what is sent with.
        channels: the models of a link's channel.
        sites: where everything stands.
        streams: those of the network; the i-th channel draws from its own place below them.
    """

    def __init__(self, radio: Radio, channels: Sequence[Channel], sites: Sites, streams: Streams) -> None:
        self.radio = radio
        self._gains = [
            channel.open(sites, streams.at("channel", index, kind_of(type(channel))))
            for index, channel in enumerate(channels)
        ]

    def snr_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The SNR at which each user's tower hears it at *time_s*, ``[n]``."""
        return self.radio.snr_db(sum((gain.gain_db(users, time_s) for gain in self._gains), np.zeros(len(users))))

    def best_snr_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """An SNR that each user exceeds practically never, ``[n]``: who is not received at it is unreachable."""
        return self.radio.snr_db(sum((gain.peak_db(users) for gain in self._gains), np.zeros(len(users))))
