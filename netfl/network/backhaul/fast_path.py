"""Event-free path of traffic: ports carry the packets of whole stretches of time at once.

This is possible where packets enter at towers and routers only, routes never change, all queues are first in, first
out, and there are no outages.  Ports are played one after the other, those far from the server first, each with all
packets of a stretch.  The metrics equal those of the events, except for rounding where a time is more than twice the
one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from netfl.network.backhaul.batch_port import FastPathPort, PacketArray, PacketSource, merge_packets
from netfl.network.backhaul.routes import Routes
from netfl.network.config import NetworkConfig
from netfl.network.counters import LinkUsage
from netfl.network.event_log import EventLog
from netfl.network.queue import Queue
from netfl.network.queue.drop_tail import DropTail
from netfl.network.traffic import Block
from netfl.network.traffic.poisson import Poisson

_PACKETS = 1 << 15
"""Approximate number of packets of a stretch."""


def can_batch(config: NetworkConfig, routes: Routes, log: EventLog) -> bool:
    """Return whether all traffic can take the event-free path: no hop is recorded, and order never depends on ties.

    With Poisson arrivals there are no ties if queues are unlimited or sizes exponential.  Packets of one size reach a
    second link exactly when others leave it.
    """
    queues = (config.queue, *config.queues.values())
    plain = all(_plain(queue) for queue in queues)
    poisson = all(type(traffic) is Poisson and traffic.enters != "users" for traffic in config.traffic)
    even = any(traffic.size.law == "fixed" for traffic in config.traffic)
    alone = config.service is None and config.presence.always_up and routes.fixed and not log.wants("forwarded")
    return alone and poisson and plain and not (even and any(queue_capacity(queue) is not None for queue in queues))


def _plain(queue: Queue) -> bool:
    """Return whether *queue* is first in, first out, with a capacity in packets."""
    return type(queue) is DropTail and queue.capacity_bytes is None


def queue_capacity(queue: Queue) -> int | None:
    """Return the capacity of *queue* in packets; ``None`` for no limit."""
    return queue.capacity if isinstance(queue, DropTail) else None


class FastPathTraffic:
    """All traffic of a network on the event-free path.

    Args:
        config: Parts of the network, for which `can_batch` holds.
        routes: Its routes.
        log: Event log, which counts the packets.
    """

    def __init__(self, config: NetworkConfig, routes: Routes, log: EventLog) -> None:
        self._log, self._now_s, self._rate_hz = log, 0.0, 0.0
        sites = config.sites
        self._number = sites.number
        self._server, self._after = sites.server, dict[str, str]()
        for start in sites.names:
            self._after |= dict(reversed([*pairwise(routes.of(start))]))
        self._ports: dict[str, FastPathPort] = {}
        for node, after in self._after.items():
            link, queue = sites.graph.edges[node, after], routes.queue(node, after)
            self._ports[node] = FastPathPort(node, link["rate_bps"], link["delay_s"], queue_capacity(queue), log)
        self._sources: dict[str, list[PacketSource]] = {node: [] for node in self._ports}
        self._far_first = sorted(self._ports, key=lambda node: -len(routes.of(node)))

    def enter(self, name: str, blocks: Iterator[Block], rate_hz: float) -> None:
        """Let the packets of *blocks*, *rate_hz* a second, enter at node *name*."""
        self._sources[name].append(PacketSource(self._number(name), blocks))
        self._rate_hz += rate_hz

    def play(self, until_s: float) -> None:
        """Carry packets until *until_s*."""
        stretch_s = _PACKETS / self._rate_hz if self._rate_hz else until_s
        while self._now_s < until_s:
            self._now_s = min(until_s, self._now_s + stretch_s)
            self._stretch(self._now_s)

    def usage(self, now_s: float) -> Mapping[str, LinkUsage]:
        """Return the counters of each port at *now_s*, the time of the last `play`."""
        return {f"{node}-{self._after[node]}": port.usage(now_s) for node, port in self._ports.items()}

    def _stretch(self, by_s: float) -> None:
        """Carry the packets of a stretch."""
        for node in self._far_first:
            new = [source.take(by_s) for source in self._sources[node]]
            for packets in new:
                self._log.offer_all(packets)
            self._ports[node].carry(merge_packets([*new, *self._arrivals(node, by_s)]))
            self._ports[node].settle(by_s)
        delivered = merge_packets([*self._arrivals(self._server, by_s)])
        self._log.record_outcomes(delivered, "delivered", self._server)

    def _arrivals(self, node: str, by_s: float) -> Iterator[PacketArray]:
        """Yield the packets that other nodes have sent to *node*."""
        return (self._ports[before].take(by_s) for before, after in self._after.items() if after == node)
