"""The channel family: what the air between a user and its tower does to a signal's power.

A link's channel is a list of models, whose gains in dB add up: a path loss, a shadowing, a fading.  A model of another
medium than air also says what noise is heard there (`Channel.noise_dbm`) and how long signals take (`Channel.delay_s`).
A model that fades has a coherence time (`Channel.coherence_s`) and a time for which its gain holds (`Gain.hold_s`).
One that changes in blocks counts them by `netfl.network.periods`, as slots are counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import LIGHT_M_S, Layout
from netfl.registry import Spec
from netfl.streams import Streams


class LinkGain(ABC):
    """A channel at work in one network."""

    @abstractmethod
    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The power gain (a loss is negative) of each user's link to its tower at *time_s*, ``[n]``.

        A function of (user, time): asking again, or in another order, gives the same figures.
        """

    @abstractmethod
    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain that each link exceeds with a probability under 1e-9 at any one time, ``[n]``.

        A user whose best case is not enough to be received is unreachable, and that is a fault.
        """

    @property
    def hold_s(self) -> float:
        """Length of the blocks, from time 0 on, in each of which the gain is constant, or nearly so, in s.

        Infinity for a gain that does not change while a transmission lasts.
        """
        return math.inf


class Channel(Spec):
    """The contract of a channel model."""

    @abstractmethod
    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """The model at work on the links of *sites*."""

    @property
    def speed_m_s(self) -> float:
        """How fast signals travel: as light, unless the medium is another."""
        return LIGHT_M_S

    @property
    def coherence_s(self) -> float:
        """The time after which fading may have changed the gain, in s; infinity if it does not fade."""
        return math.inf

    def delay_s(self, distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """How long a signal takes over links whose ends are *distance_m* apart on the map, ``[n]``."""
        return np.asarray(distance_m / self.speed_m_s)

    def noise_dbm(self, bandwidth_hz: float) -> float | None:
        """The noise of the medium in the band, in place of a receiver's thermal noise; ``None`` for no such noise.

        It is a power at the reference of ``radio.power``, so that an SNR in dB is power + gain - noise.

        Raises:
            netfl.errors.ScenarioError: the model does not hold in a band as wide as *bandwidth_hz*.
        """
        return None
