"""Traffic that nothing can disturb, played a stretch of time at a time: its packets need no events.

That is so where packets enter at towers and routers alone, all messages of a node take the same way, all ports are
first in, first out, and nothing is ever down.  Ports are played one after the other, those far from the server first,
each with all packets of a stretch.  The figures are those that events would give, but for rounding where an instant is
more than twice the one before.
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
"""Packets of a stretch, about."""


def can_batch(parts: NetworkConfig, routes: Routes, ledger: EventLog) -> bool:
    """Whether all that *parts* carry can be computed so, and nobody asks for each hop to be recorded.

    Who is first must not hang on events at one instant.  With Poisson arrivals it does not, where rooms have no end or
    sizes are exponential; packets of one size come to a second link at the very instants at which others leave it.
    """
    queues = (parts.queue, *parts.queues.values())
    plain = all(_plain(queue) for queue in queues)
    poisson = all(type(traffic) is Poisson and traffic.enters != "users" for traffic in parts.traffic)
    even = any(traffic.size.law == "fixed" for traffic in parts.traffic)
    alone = parts.service is None and parts.presence.is_always_up and routes.fixed and not ledger.wants("forwarded")
    return alone and poisson and plain and not (even and any(queue_capacity(queue) is not None for queue in queues))


def _plain(queue: Queue) -> bool:
    """Whether *queue* is first in, first out, with room for so many packets."""
    return type(queue) is DropTail and queue.capacity_bytes is None


def queue_capacity(queue: Queue) -> int | None:
    """For how many packets *queue* has room; ``None`` for no limit."""
    return queue.capacity if isinstance(queue, DropTail) else None


class FastPathTraffic:
    """All traffic of a network, played a stretch at a time.

    Args:
        parts: what the network is built of; they must `fits`.
        routes: its routes.
        ledger: where packets are counted.
    """

    def __init__(self, parts: NetworkConfig, routes: Routes, ledger: EventLog) -> None:
        self._ledger, self._now_s, self._rate_hz = ledger, 0.0, 0.0
        sites = parts.sites
        self._number = sites.number
        self._server, self._after = sites.server, dict[str, str]()
        for start in sites.names:
            self._after |= dict(reversed([*pairwise(routes.of(start))]))
        self._lines: dict[str, FastPathPort] = {}
        for node, after in self._after.items():
            link, queue = sites.graph.edges[node, after], routes.queue(node, after)
            self._lines[node] = FastPathPort(node, link["rate_bps"], link["delay_s"], queue_capacity(queue), ledger)
        self._sources: dict[str, list[PacketSource]] = {node: [] for node in self._lines}
        self._far_first = sorted(self._lines, key=lambda node: -len(routes.of(node)))

    def enter(self, name: str, blocks: Iterator[Block], rate_hz: float) -> None:
        """Let the packets of *blocks*, so many a second, enter at *name*."""
        self._sources[name].append(PacketSource(self._number(name), blocks))
        self._rate_hz += rate_hz

    def play(self, until_s: float) -> None:
        """Let the clock go on to *until_s*."""
        stretch_s = _PACKETS / self._rate_hz if self._rate_hz else until_s
        while self._now_s < until_s:
            self._now_s = min(until_s, self._now_s + stretch_s)
            self._stretch(self._now_s)

    def usage(self, now_s: float) -> Mapping[str, LinkUsage]:
        """What each port has done by *now_s*, the instant up to which was played."""
        return {f"{node}-{self._after[node]}": line.usage(now_s) for node, line in self._lines.items()}

    def _stretch(self, by_s: float) -> None:
        """Play what comes by then."""
        for node in self._far_first:
            own = [source.take(by_s) for source in self._sources[node]]
            for packets in own:
                self._ledger.offer_all(packets.sender, packets.bits)
            self._lines[node].carry(merge_packets([*own, *self._coming(node, by_s)]))
            self._lines[node].settle(by_s)
        there = merge_packets([*self._coming(self._server, by_s)])
        self._ledger.land_all("delivered", there.time_s, there.sender, there.bits, there.born_s, node=self._server)

    def _coming(self, node: str, by_s: float) -> Iterator[PacketArray]:
        """What other nodes have sent to *node*."""
        return (self._lines[before].take(by_s) for before, after in self._after.items() if after == node)
