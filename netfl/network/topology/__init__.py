"""The topology family: where users, towers, routers and the server stand, and how they are linked."""

from __future__ import annotations

from abc import abstractmethod

from netfl.network.layout import Layout
from netfl.registry import Spec
from netfl.streams import Streams


class Topology(Spec):
    """The contract of a topology."""

    @abstractmethod
    def open(self, users: int, streams: Streams) -> Layout:
        """Lay the network out for *users* users."""
