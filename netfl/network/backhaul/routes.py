"""Routes between the towers and the server: ports on the way up, delays on the way down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import simpy

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.backhaul.port import Link, OutputPort, Sink
from netfl.network.counters import LinkUsage
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.message import BroadcastMessage, Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue import Queue
from netfl.network.routing import Routing
from netfl.network.routing.shortest_path import ShortestPath
from netfl.streams import Streams


class Routes:
    """Where every tower and router sends on to, and one port for each link that something is sent on.

    Args:
        sites: where everything stands and how it is linked.
        routing: who sends where.
        outages: what routers learn of in time.
        streams: for the draws of routing and queues.

    Raises:
        ScenarioError: the routing does not fit the sites; keys are relative to the routing.
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
        """The nodes from *tower* to the server, both included, on the best way now; empty if none is known."""
        return self._table.route(tower, now_s)

    def numbers(self, tower: str, now_s: float = 0.0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The same as node numbers, and those of the links between; of the usual way if none is known."""
        way = self.usual(tower, now_s)
        links = [f"{one}-{other}" for one, other in pairwise(way)]
        return np.array([self._sites.number(name) for name in (*way, *links)])

    def delay_s(self, tower: str, bits: float, now_s: float = 0.0) -> float:
        """How long *bits* take from the server to *tower* on that way: each link's delay and rate, one by one."""
        links = [self._sites.graph.edges[link] for link in pairwise(self.usual(tower, now_s))]
        return float(sum(link["delay_s"] + bits / link["rate_bps"] for link in links))

    def ports(
        self,
        env: simpy.Environment,
        queue: Queue,
        presence: NodeState,
        ledger: EventLog,
        server: Sink,
        *,
        queues: Mapping[str, Queue] | None = None,
    ) -> Mapping[str, Sink]:
        """What takes the messages of each tower and router that has a way; the last ports hand them to *server*.

        Args:
            env: the clock.
            queue: the waiting room of every port.
            presence: who is up.
            ledger: where fates go.
            server: what takes the messages in the end.
            queues: other waiting rooms for all ports of a node (``router:0``), or for one (``router:0-server``, from
                and to).

        Raises:
            ScenarioError: a name in *queues* that there is not; keys are those names.
        """
        self._shared = _Shared(env, queue, queues or {}, presence, ledger)
        if faults := [*self._strangers(queues or {})]:
            raise ScenarioError(faults)
        self._sinks[self._sites.server] = server
        for start in self._sites.names:
            if self._table.fixed:
                for node, after in reversed([*pairwise(self.of(start))]):
                    if node not in self._sinks:
                        self._sinks[node] = self._port(node, after).enter
            elif start != self._sites.server:
                self._sinks[start] = partial(self._forward, start)
        return self._sinks

    def carry(self, parcel: BroadcastMessage) -> None:
        """Let *parcel* set out on its way down, on which every link has a port for this direction, too."""
        self._pass_on(parcel.way[0], parcel)

    def usage(self, now_s: float) -> dict[str, LinkUsage]:
        """What each port has done by *now_s*, by its link's name, from and to.

        Where messages may go other ways later, all links are told, in the direction of the server at least.
        """
        idle = {} if self._table.fixed else dict.fromkeys(self._sites.links, LinkUsage())
        return idle | {f"{node}-{after}": port.usage(now_s) for (node, after), port in self._ports.items()}

    @property
    def fixed(self) -> bool:
        """Whether all messages of a node take the same way at all times."""
        return self._table.fixed

    def queue(self, node: str, after: str) -> Queue:
        """The waiting room of the port at *node* for the link to *after*."""
        shared = self._shared
        return shared.queues.get(f"{node}-{after}", shared.queues.get(node, shared.queue))

    def usual(self, tower: str, now_s: float) -> tuple[str, ...]:
        """The best way now or, if none is known, the one of least delay when all is up."""
        return self.of(tower, now_s) or self._sites.route(tower)

    def _pass_on(self, node: str, message: Message) -> None:
        """*message*, a parcel, is at *node*: at the end of its way, or enters the port for the next link."""
        assert isinstance(message, BroadcastMessage)
        place = message.way.index(node)
        if place == len(message.way) - 1:
            message.arrived()
            return
        link = (node, message.way[place + 1])
        if link not in self._down:
            self._down[link] = self._made(*link, partial(self._pass_on, link[1]))
        self._down[link].enter(message)

    def _port(self, node: str, after: str) -> OutputPort:
        """A new port at *node* for the link to *after*."""
        self._ports[node, after] = port = self._made(node, after, self._sinks[after])
        return port

    def _made(self, node: str, after: str, onward: Sink) -> OutputPort:
        """A port at *node* for the link to *after*, which hands its messages *onward*."""
        shared, sites, name = self._shared, self._sites, f"{node}-{after}"
        link = sites.graph.edges[node, after]
        rate_bps, numbers = link["rate_bps"], ((node, sites.number(node)), (name, sites.number(name)))
        return OutputPort(
            shared.env,
            Link(*numbers, rate_bps=rate_bps, delay_s=link["delay_s"]),
            buffer=self.queue(node, after).open(rate_bps, self._streams.at("queue", node, after)),
            presence=shared.presence,
            ledger=shared.ledger,
            onward=onward,
        )

    def _forward(self, node: str, message: Message) -> None:
        """Send *message* on from *node* by the way that is best now."""
        shared = self._shared
        immune = message.immune  # for it nothing is down: it takes the way of least delay, dead or not
        after = self._sites.route(node)[1] if immune else self._table.hop(node, message, shared.env.now)
        if after is None:
            shared.ledger.land(message, "lost", shared.env.now, node=node)
        else:
            (self._ports.get((node, after)) or self._port(node, after)).enter(message)

    def _strangers(self, queues: Mapping[str, Queue]) -> Iterator[Fault]:
        """Names of queues that belong to no port."""
        nodes = [name for name in self._sites.names if name != self._sites.server]
        links = [f"{node}-{after}" for node in nodes for after in self._sites.graph.adj[node]]
        for name in queues:
            if name not in nodes and name not in links:
                near = links if "-" in name else nodes
                yield Fault(name, "no such tower or router, nor a link from one", None, suggest(name, near))


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all ports share."""

    env: simpy.Environment
    queue: Queue
    queues: Mapping[str, Queue]
    presence: NodeState
    ledger: EventLog
