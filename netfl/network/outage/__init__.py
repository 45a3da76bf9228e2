"""The outage family: when users, towers, routers and links are cut off.

A node that is down neither sends nor receives; a transmission is lost if either end is down at any time of it, unless
the outage spares uploads.  A user that is cut off goes on computing.  A network may have several outages: a node is
up when all of them let it be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import Layout
from netfl.registry import Spec
from netfl.streams import Streams


class NodeAvailability(ABC):
    """When the nodes of one network are up: a function of (node, time), in any order of asking.

    Nodes are numbered as in `Layout`, links among them; those that the outage does not concern are always up.
    """

    @property
    def exact(self) -> bool:
        """Whether `next_change` never gives an instant at which nothing changes."""
        return True

    @property
    def metered(self) -> bool:
        """Whether what users do changes when they are up, so that it must be told with `train` and `transmit`."""
        return False

    @abstractmethod
    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each node is up at *time_s*, ``[n]``; at the instant of a change the new state holds."""

    @abstractmethod
    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The first instant after *time_s* at which each node changes, ``[n]``; infinity if never.

        A timeline that is not `exact` looks ahead only so far: it may give an earlier instant, up to which it is sure
        that nothing changes.
        """

    def train(self, users: NDArray[np.int64], time_s: ArrayLike, samples: ArrayLike) -> None:  # noqa: B027
        """Each of *users* trains on so many samples, at *time_s*; only `metered` timelines care."""

    def transmit(self, users: NDArray[np.int64], time_s: ArrayLike, bits: ArrayLike) -> None:  # noqa: B027
        """Each of *users* begins to transmit so many bits, at *time_s*; only `metered` timelines care."""


class Outage(Spec):
    """The contract of an outage."""

    spares: Literal["nothing", "uploads"] = "nothing"
    """What it leaves alone: ``nothing``: it cuts transmissions off; ``uploads``: a transmission that has begun is
    finished even when the outage begins meanwhile, so that it acts between uploads only."""

    def changes_hz(self, users: int) -> float:
        """Roughly how often a second anybody goes down or comes up, for an estimate of work; 0 if that is seldom."""
        return 0.0

    @abstractmethod
    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """The outage at work on the nodes of *sites*."""
