"""The outage family: when users, towers and routers are cut off.

A node that is down neither sends nor receives; a transmission is lost if either end is down at any time of it.
A user that is cut off goes on computing.  A network may have several outages: a node is up when all of them let it be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.sites import Sites
from netfl.registry import Spec
from netfl.streams import Streams


class Timeline(ABC):
    """When the nodes of one network are up: a function of (node, time), in any order of asking.

    Nodes are numbered as in `Sites`; those that the outage does not concern are always up.
    """

    @abstractmethod
    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each node is up at *time_s*, ``[n]``; at the instant of a change the new state holds."""

    @abstractmethod
    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The first instant after *time_s* at which each node changes, ``[n]``; infinity if never."""


class Outage(Spec):
    """The contract of an outage."""

    @abstractmethod
    def open(self, sites: Sites, streams: Streams) -> Timeline:
        """The outage at work on the nodes of *sites*."""
