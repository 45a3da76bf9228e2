'''Routing family: next hop of each tower and router towards the server.

`Routing.open` reads a network once and returns a `RoutingTable`.  The network asks the table for the next hop of each
message, and for the route of a broadcast down to a tower.

To add a model, write a file in this package, or a class in your own package, that derives from `Routing`.  A complete
one::

    class FewestHops(Routing):
        """Fixed routes with the fewest hops.

        Example::

            kind: mylab.fewest_hops:FewestHops
        """

        def open(self, layout, outages, streams):
            paths = networkx.single_source_shortest_path(layout.graph, layout.server)
            return Fixed({node: tuple(reversed(path)) for node, path in paths.items()})


    class Fixed(RoutingTable):
        fixed = True

        def __init__(self, routes):
            self.routes = routes

        def hop(self, node, message, now_s):
            route = self.route(node, now_s)
            return route[1] if route else None

        def route(self, node, now_s):
            return self.routes.get(node, ())
'''

from __future__ import annotations

from abc import ABC, abstractmethod

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.network.layout import Layout
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.streams import Streams
from netfl.types import Law


class RoutingTable(Overridable, ABC):
    """Next hops of one network.  Calls come in the order of time: *now_s* never decreases.

    Attributes:
        fixed: ``True`` if all messages take the same route at all times, which saves calls of `hop`.
    """

    fixed: bool = False

    @abstractmethod
    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        """Return the next hop of *message* at *node*, a tower or a router; ``None`` without a route to the server."""

    @abstractmethod
    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        """Return the nodes of the current best route from *node* to the server, both included; empty without one."""


class Routing(Spec):
    """Base class of routings."""

    @abstractmethod
    def open(self, layout: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        """Return the routing table of *layout*, whose nodes and links fail by *outages*.

        Raises:
            netfl.errors.ScenarioError: a tower has no route to the server, or the model does not fit *layout*.
        """

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


__getattr__ = exported_models(__name__)
