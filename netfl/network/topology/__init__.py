'''The topology family: positions of users, towers, routers and the server, and the links between them.

To write a topology, add a file to this package, or a class to a package of your own, that derives from `Topology`.
`Topology.open` returns a `netfl.network.layout.Layout` of a graph and the users' positions.  Nodes of the graph have
the attributes ``role`` (``server``, ``router`` or ``tower``), ``x_m`` and ``y_m``; links have ``rate_bps`` and
``delay_s``.  There is one server, and every tower has a route to it.  ``laws`` states the distributions of what is
drawn, which a test checks.

A complete topology, with two towers at one server::

    class Pair(Topology):
        """Two towers, each linked to the server between them, and users uniform in a disk around it.

        Example::

            kind: mylab.pair:Pair
            distance: 1 km
        """

        distance: Annotated[Metres, Field(gt=0)]
        """Distance of each tower to the server."""

        def open(self, users, streams):
            graph = nx.Graph()
            graph.add_node("server", role="server", x_m=0.0, y_m=0.0)
            for index, x_m in enumerate((-self.distance, self.distance)):
                graph.add_node(f"tower:{index}", role="tower", x_m=x_m, y_m=0.0)
                graph.add_edge("server", f"tower:{index}", rate_bps=1e9, delay_s=0.005)
            towers_xy_m = np.array([[-self.distance, 0.0], [self.distance, 0.0]])
            return Layout(graph, Disk(radius=self.distance).open(users, towers_xy_m, streams.at("users")))

        def laws(self):
            return (Law.none("users stand as the placement claims"),)
'''

from __future__ import annotations

from abc import abstractmethod

from netfl.network.layout import Layout
from netfl.registry import Spec
from netfl.streams import Streams


class Topology(Spec):
    """The contract of a topology."""

    @abstractmethod
    def open(self, users: int, streams: Streams) -> Layout:
        """Return the layout of one replica.

        Args:
            users: number of users.
            streams: this replica's random streams for the topology.

        Raises:
            netfl.errors.ScenarioError: there is no such network; keys relative to the topology.
        """
