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
            return (Law.none("users are placed as the placement claims"),)
'''

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.files import store_object
from netfl.network.layout import Layout
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

    def warnings(self) -> Iterator[str]:
        """Yield warnings about the topology that hold in each replica."""
        yield from ()

    @classmethod
    def from_object(cls, value: object) -> Mapping[str, Any] | None:
        """Return a NetworkX graph as a topology of kind ``file``.

        Other keys of `netfl.network.topology.file.File`, such as ``placement`` and ``rate``, are beside ``graph`` in
        a mapping, or are attributes of the graph.
        """
        options: Mapping[str, Any] = {"graph": value}
        if isinstance(value, Mapping):
            options = value
        graph = options.get("graph")
        if not isinstance(graph, nx.Graph):
            return None
        from netfl.network.topology._graph_attributes import graph_units  # most scenarios hold no graph

        units = graph_units(graph.graph)
        data = nx.node_link_data(graph, edges="links") | {"graph": units}
        content = json.dumps(data, default=lambda number: number.item()).encode()  # numbers of NumPy
        keys = {key: entry for key, entry in graph.graph.items() if key not in units}
        keys |= {key: entry for key, entry in options.items() if key != "graph"}
        return {"kind": "file", "file": store_object(content, ".json"), **keys}


__getattr__ = exported_models(__name__)
