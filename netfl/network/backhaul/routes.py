"""Routes between the towers and the server, and the ports on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.backhaul.port import Link, OutputPort, PortContext, Sink
from netfl.network.counters import LinkUsage
from netfl.network.layout import Layout, NodeId
from netfl.network.message import BroadcastMessage, Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.queue import Queue
from netfl.network.routing import Routing
from netfl.network.routing.shortest_path import ShortestPath
from netfl.streams import Streams


class Routes:
    """Next hops of every tower and router, and a port for each link in use.

    Args:
        sites: Positions and links.
        routing: Routing of messages; by default shortest paths.
        outages: Outages that routers learn of.
        streams: Random streams of routing and queues.

    Raises:
        ScenarioError: The routing does not fit the sites; keys are relative to the routing.
    """

    def __init__(
        self,
        sites: Layout,
        routing: Routing | None = None,
        outages: CombinedOutages | None = None,
        streams: Streams | None = None,
    ) -> None:
        self._sites, self._streams = sites, streams or Streams(0)
        self._table = (routing or ShortestPath()).open(sites, outages or CombinedOutages(), self._streams.at("routing"))
        self._ports: dict[tuple[str, str], OutputPort] = {}
        self._down: dict[tuple[str, str], OutputPort] = {}
        self._sinks: dict[str, Sink] = {}

    def of(self, tower: str, now_s: float = 0.0) -> tuple[str, ...]:
        """Return the nodes from *tower* to the server, both included, on the present route; empty without one."""
        return self._table.route(tower, now_s)

    def numbers(self, tower: str, now_s: float = 0.0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the numbers of the nodes and links on the present route, or else on the default route."""
        route = self.default_route(tower, now_s)
        links = [f"{node}-{after}" for node, after in pairwise(route)]
        return np.array([self._sites.number(name) for name in (*route, *links)])

    def delay_s(self, tower: str, bits: float, now_s: float = 0.0) -> float:
        """Return the time of *bits* on that route: the sum of each link's delay and transmission time."""
        links = [self._sites.graph.edges[link] for link in pairwise(self.default_route(tower, now_s))]
        return float(sum(link["delay_s"] + bits / link["rate_bps"] for link in links))

    def open_ports(
        self, context: PortContext, queue: Queue, server: Sink, *, queues: Mapping[str, Queue] | None = None
    ) -> Mapping[str, Sink]:
        """Open the ports towards the server, and return the sink of each tower and router that has a route.

        Args:
            context: Objects shared by all ports.
            queue: Queue of every port.
            server: Takes messages at the server.
            queues: Other queues for all ports of a node (``router:0``), or for one (``router:0-server``, from and to).

        Raises:
            ScenarioError: A name in *queues* is unknown; keys are those names.
        """
        self._context, self._queue, self._queues = context, queue, queues or {}
        if faults := [*self._unknown_names()]:
            raise ScenarioError(faults)
        self._sinks[self._sites.server] = server
        for start in self._sites.names:
            if self._table.fixed:
                for node, after in reversed([*pairwise(self.of(start))]):
                    if node not in self._sinks:
                        self._sinks[node] = self._open_port(node, after).enter
            elif start != self._sites.server:
                self._sinks[start] = partial(self._forward, start)
        return self._sinks

    def forward_down(self, message: BroadcastMessage) -> None:
        """Send *message* from the server along its route, on which every link has a port of its own."""
        self._pass_on(message.route[0], message)

    def usage(self, now_s: float) -> dict[str, LinkUsage]:
        """Return the counters of each port at *now_s*, by the name of its link, from and to.

        Where routes may change, the result has all links, at least in the direction of the server.
        """
        idle = {} if self._table.fixed else dict.fromkeys(self._sites.links, LinkUsage())
        return idle | {f"{node}-{after}": port.usage(now_s) for (node, after), port in self._ports.items()}

    @property
    def fixed(self) -> bool:
        """True if routes never change."""
        return self._table.fixed

    def queue(self, node: str, after: str) -> Queue:
        """Return the queue of the port at *node* for the link to *after*."""
        return self._queues.get(f"{node}-{after}", self._queues.get(node, self._queue))

    def default_route(self, tower: str, now_s: float) -> tuple[str, ...]:
        """Return the present route or, without one, that of least delay when all is up."""
        return self.of(tower, now_s) or self._sites.route(tower)

    def _pass_on(self, node: str, message: Message) -> None:
        """Pass *message*, a broadcast, on from *node* to the next link of its route, or end its route."""
        assert isinstance(message, BroadcastMessage)
        place = message.route.index(node)
        if place == len(message.route) - 1:
            message.on_arrival()
            return
        link = (node, message.route[place + 1])
        if link not in self._down:
            self._down[link] = self._make_port(*link, partial(self._pass_on, link[1]))
        self._down[link].enter(message)

    def _open_port(self, node: str, after: str) -> OutputPort:
        """Add a port towards the server at *node*, for the link to *after*."""
        self._ports[node, after] = port = self._make_port(node, after, self._sinks[after])
        return port

    def _make_port(self, node: str, after: str, onward: Sink) -> OutputPort:
        """Make a port at *node* for the link to *after*, which passes its messages *onward*."""
        sites, name = self._sites, f"{node}-{after}"
        edge = sites.graph.edges[node, after]
        rate_bps = edge["rate_bps"]
        ends = NodeId(node, sites.number(node)), NodeId(name, sites.number(name))
        buffer = self.queue(node, after).open(rate_bps, self._streams.at("queue", node, after))
        return OutputPort(self._context, Link(*ends, rate_bps, edge["delay_s"]), buffer, onward)

    def _forward(self, node: str, message: Message) -> None:
        now_s = self._context.env.now
        if message.ignore_outages:
            after: str | None = self._sites.route(node)[1]
        else:
            after = self._table.hop(node, message, now_s)
        if after is None:
            self._context.log.record_outcome(message, "lost", now_s, node=node)
        else:
            (self._ports.get((node, after)) or self._open_port(node, after)).enter(message)

    def _unknown_names(self) -> Iterator[Fault]:
        nodes = [name for name in self._sites.names if name != self._sites.server]
        links = [f"{node}-{after}" for node in nodes for after in self._sites.graph.adj[node]]
        for name in self._queues:
            if name not in nodes and name not in links:
                near = links if "-" in name else nodes
                yield Fault(name, "no such tower or router, nor a link from one", None, suggest(name, near))
