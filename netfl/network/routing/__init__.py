"""The routing family: where each tower and router sends on what is meant for the server.

`Routing.open` looks at a network once and gives a `Table`, which the routes ask for each message's next hop, and for
the way that a broadcast takes down to a tower.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from netfl.network.layout import Layout
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.registry import Spec
from netfl.streams import Streams


class RoutingTable(ABC):
    """The next hops of one network as its clock goes on: no call's *now_s* may be earlier than that of the one before.

    Attributes:
        fixed: whether all messages take the same way at all times, which saves asking.
    """

    fixed: bool = False

    @abstractmethod
    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        """Where *node*, a tower or a router, sends *message*; ``None`` where it knows no way to the server."""

    @abstractmethod
    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        """The nodes from *node* to the server, both included, on the way that is best now; empty if there is none."""


class Routing(Spec):
    """The contract of a routing."""

    @abstractmethod
    def open(self, sites: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        """The next hops on *sites*, parts of which *outages* take down.

        Raises:
            netfl.errors.ScenarioError: a tower has no way to the server, or what is said does not fit *sites*.
        """
