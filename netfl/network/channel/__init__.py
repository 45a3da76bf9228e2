"""The channel family: what the air between a user and its tower does to a signal's power.

A link's channel is a list of models, whose gains in dB add up: a path loss, a shadowing, a fading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.sites import Sites
from netfl.registry import Spec
from netfl.streams import Streams


class Gain(ABC):
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


class Channel(Spec):
    """The contract of a channel model."""

    @abstractmethod
    def open(self, sites: Sites, streams: Streams) -> Gain:
        """The model at work on the links of *sites*."""
