"""Routes between the towers and the server, and the ports on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.backhaul.port import Link, OutputPort, Sink
from netfl.network.clock import Clock
from netfl.network.config import NetworkConfig
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.message import BroadcastCopy, Message
from netfl.network.queue import Buffer, Queue
from netfl.streams import Streams
from netfl.types import Ints


class Routes:
    """Next hops of every tower and router, and a port for each link in use.

    Attributes:
        wrap_buffer_down: returns the buffer of a port away from the server, given that of its queue.

    Raises:
        ScenarioError: the routing does not fit the layout; keys are relative to the routing.
    """

    def __init__(self, config: NetworkConfig, env: Clock, log: EventLog, streams: Streams) -> None:
        self.wrap_buffer_down: Callable[[Buffer], Buffer] = lambda buffer: buffer
        self._env = env
        self._log = log
        self._streams = streams
        self._layout = config.layout
        self._node_state = config.node_state
        self._queue = config.queue
        self._queues = config.queues
        self._table = config.routing.open(config.layout, config.outages, streams.at("routing"))
        self._new_port: Callable[..., OutputPort] = OutputPort
        self._sinks: dict[str, Sink] = {}
        # by the names of both ends: the ports towards the server, and those away from it
        self._ports: dict[tuple[str, str], OutputPort] = {}
        self._ports_down: dict[tuple[str, str], OutputPort] = {}

    def of(self, tower: str, now_s: float = 0.0) -> tuple[str, ...]:
        """Return the nodes from *tower* to the server, both included, on the present route; empty without one."""
        return self._table.route(tower, now_s)

    def numbers(self, tower: str, now_s: float = 0.0) -> Ints:
        """Return the numbers of the nodes and links on the present route, or else on the default route."""
        route = self.default_route(tower, now_s)
        links = [f"{node}-{after}" for node, after in pairwise(route)]
        return np.array([self._layout.number(name) for name in (*route, *links)])

    def delay_s(self, tower: str, bits: float, now_s: float = 0.0) -> float:
        """Return the time of *bits* on that route: the sum of each link's delay and transmission time."""
        links = [self._layout.graph.edges[link] for link in pairwise(self.default_route(tower, now_s))]
        return float(sum(link["delay_s"] + bits / link["rate_bps"] for link in links))

    def open_ports(self, server: Sink) -> Mapping[str, Sink]:
        """Open the ports towards *server*, and return the sink of each tower and router that has a route.

        Raises:
            ScenarioError: a name of a queue is unknown; keys are those names.
        """
        faults = [*self._unknown_names()]
        if faults:
            raise ScenarioError(faults)
        self._sinks[self._layout.server] = server
        if self._table.fixed:
            self._open_fixed_ports()
        else:  # the table decides for each message, and ports open with the first
            for name in self._layout.names:
                if name != self._layout.server:
                    self._sinks[name] = partial(self._forward, name)
        return self._sinks

    def forward_down(self, message: BroadcastCopy) -> None:
        """Send *message* from the server along its route, on which every link has a port of its own."""
        self._pass_on(message.route[0], message)

    def busy_by_s(self, now_s: float) -> dict[str, float]:
        """Return the time until *now_s* during which each port sent, by the name of its link, from and to.

        Where routes may change, the result has all links, at least in the direction of the server.
        """
        busy_s: dict[str, float] = {}
        if not self._table.fixed:
            busy_s = dict.fromkeys(self._layout.links, 0.0)
        return busy_s | {f"{node}-{after}": port.busy_by_s(now_s) for (node, after), port in self._ports.items()}

    def queue_lengths(self) -> dict[str, int]:
        """Return the number of messages at each port towards the server, by the name of its link."""
        return {f"{node}-{after}": port.length for (node, after), port in self._ports.items()}

    @property
    def fixed(self) -> bool:
        """True if routes never change."""
        return self._table.fixed

    def queue(self, node: str, after: str) -> Queue:
        """Return the queue of the port at *node* for the link to *after*."""
        for name in (f"{node}-{after}", node):  # that of the link before that of the node
            if name in self._queues:
                return self._queues[name]
        return self._queue

    def default_route(self, tower: str, now_s: float) -> tuple[str, ...]:
        """Return the present route or, without one, that of least delay when all is up."""
        return self.of(tower, now_s) or self._layout.route(tower)

    def _open_fixed_ports(self) -> None:
        """Open the ports of all routes, each of which leads to the next, from the server on."""
        for name in self._layout.names:
            for node, after in reversed([*pairwise(self.of(name))]):
                if node not in self._sinks:
                    self._sinks[node] = self._open_port(node, after).enter

    def _pass_on(self, node: str, message: Message) -> None:
        """Pass *message*, a broadcast, on from *node* to the next link of its route, or end its route."""
        assert isinstance(message, BroadcastCopy)
        hop = message.route.index(node)
        if hop == len(message.route) - 1:
            message.on_arrival(message)
            return
        after = message.route[hop + 1]
        port = self._ports_down.get((node, after))
        if port is None:
            port = self._make_port(node, after, partial(self._pass_on, after), self.wrap_buffer_down)
            self._ports_down[node, after] = port
        port.enter(message)

    def _open_port(self, node: str, after: str) -> OutputPort:
        """Open a port towards the server."""
        port = self._make_port(node, after, self._sinks[after])
        self._ports[node, after] = port
        return port

    def _make_port(
        self, node: str, after: str, onward: Sink, wrap: Callable[[Buffer], Buffer] = lambda buffer: buffer
    ) -> OutputPort:
        """Return a port at *node* for the link to *after*, whose messages continue at *onward*."""
        edge = self._layout.graph.edges[node, after]
        link_name = f"{node}-{after}"
        link = Link(
            NodeId(node, self._layout.number(node)),
            NodeId(link_name, self._layout.number(link_name)),
            edge["rate_bps"],
            edge["delay_s"],
        )
        buffer = self.queue(node, after).open(edge["rate_bps"], self._streams.at("queue", node, after))
        return self._new_port(
            self._env,
            self._log,
            self._node_state,
            self._streams.field("tie", link_name),
            link,
            wrap(buffer),
            onward,
        )

    def _forward(self, node: str, message: Message) -> None:
        """Send *message* from *node* to its present next hop; without one it is lost."""
        after = self._next_hop(node, message)
        if after is None:
            message.end(self._log, Ending("lost", node), self._env.now)
            return
        port = self._ports.get((node, after))
        if port is None:
            port = self._open_port(node, after)
        port.enter(message)

    def _next_hop(self, node: str, message: Message) -> str | None:
        """Return the node to which *node* passes *message* now; ``None`` without a route."""
        return self._table.hop(node, message, self._env.now)

    def _unknown_names(self) -> Iterator[Fault]:
        """Yield an error for each queue whose name is that of no node or link."""
        nodes = [name for name in self._layout.names if name != self._layout.server]
        links = [f"{node}-{after}" for node in nodes for after in self._layout.graph.adj[node]]
        for name in self._queues:
            if name not in nodes and name not in links:
                similar = links if "-" in name else nodes
                yield Fault(name, "no such tower or router, nor a link from one", None, suggest(name, similar))
