"""The outage family: times at which users, towers, routers and links are down.

A node that is down neither sends nor receives.  A transmission is lost if either end is down at any time of it, unless
the outage spares uploads.  A user that is down continues to compute.  A network may have several outages: a node is
up when it is up in all of them.

To write an outage, derive a class from `Outage` and define `Outage.open`, which returns a `NodeAvailability`, and
``laws``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import Layout
from netfl.registry import Spec
from netfl.streams import Streams

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class NodeAvailability(ABC):
    """The states of a network's nodes, as a function of (node, time) that may be asked in any order.

    Nodes are numbered as in `Layout`, including links.  Nodes that the outage does not affect are always up.
    """

    @property
    def is_exact(self) -> bool:
        """True if `next_change` only returns instants at which the state changes."""
        return True

    @property
    def is_metered(self) -> bool:
        """True if states depend on the activity of users, which `train` and `transmit` then report."""
        return False

    @abstractmethod
    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        """Return whether each node is up at *time_s*, ``[n]``; at the instant of a change the new state holds."""

    @abstractmethod
    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        """Return the first instant after *time_s* at which each node changes, ``[n]``; infinity if never.

        If not `is_exact`, the result may be an earlier instant before which nothing changes.
        """

    def train(self, users: Ints, time_s: ArrayLike, samples: ArrayLike) -> None:  # noqa: B027
        """Report that each of *users* trains on *samples* examples at *time_s*."""

    def transmit(self, users: Ints, time_s: ArrayLike, bits: ArrayLike) -> None:  # noqa: B027
        """Report that each of *users* starts to transmit *bits* at *time_s*."""


class Outage(Spec):
    """Base class of all outages."""

    spares: Literal["nothing", "uploads"] = "nothing"
    """Transmissions that it spares: ``nothing``: it interrupts all; ``uploads``: a transmission that has begun
    continues although the outage begins meanwhile, so the outage acts between uploads only."""

    def changes_hz(self, users: int) -> float:
        """Return the approximate rate at which nodes go down or up, to estimate the work; 0 if it is low."""
        return 0.0

    @abstractmethod
    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Return the states of the nodes of *layout* under this outage."""
