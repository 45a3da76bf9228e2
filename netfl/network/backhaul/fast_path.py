"""Event-free path of traffic: ports carry the packets of whole stretches of time at once.

This is possible where packets enter at towers and routers only, routes never change, all queues are first in, first
out, and there are no outages.  Ports are played one after the other, those far from the server first, each with all
packets of a stretch.  The metrics equal those of the events, except for rounding where a time is more than twice the
one before.

A packet's departure is known at its arrival (Lindley's recursion, Proc. Cambridge Phil. Soc. 48, 1952):

    departure = max(arrival, departure of the one before) + size / rate.

A packet that finds the queue full is dropped: that is so while the departure of the (capacity + 1)-th admitted packet
before it lies ahead.  The same numbers are added in the same order as by the events of `OutputPort`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from netfl.network.backhaul.routes import Routes
from netfl.network.config import NetworkConfig
from netfl.network.counters import PacketArray
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import Layout
from netfl.network.queue import Queue
from netfl.network.queue.drop_tail import DropTail
from netfl.network.traffic import Block
from netfl.network.traffic.poisson import Poisson

_PACKETS = 1 << 15
"""Approximate number of packets of a stretch."""


_NONE = PacketArray(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64))


def merge_packets(some: Sequence[PacketArray]) -> PacketArray:
    """Merge packets in the order of time."""
    some = [each for each in some if len(each)]
    if len(some) < 2:
        return some[0] if some else _NONE
    columns = zip(*((each.time_s, each.bits, each.born_s, each.sender) for each in some), strict=True)
    together = PacketArray(*(np.concatenate(column) for column in columns))
    return together[np.argsort(together.time_s, kind="stable")]


class PacketSource:
    """Packets that enter at one node."""

    def __init__(self, node: int, blocks: Iterator[Block]) -> None:
        self._node, self._blocks, self._rest = node, blocks, _NONE

    def take(self, by_s: float) -> PacketArray:
        """Take the packets that arrive before *by_s*."""
        some = [self._rest]
        while not len(some[-1]) or some[-1].time_s[-1] < by_s:
            times_s, bits = next(self._blocks)
            some.append(PacketArray(times_s, bits, times_s, np.full(len(bits), self._node)))
        count = np.searchsorted(some[-1].time_s, by_s)
        some[-1], self._rest = some[-1][:count], some[-1][count:]
        return merge_packets(some)


class FastPathPort:
    """A port and its link, without events.

    Args:
        capacity: Number of packets that may wait; ``None`` for no limit.
    """

    def __init__(self, name: str, rate_bps: float, delay_s: float, capacity: int | None, log: EventLog) -> None:
        self._name, self._rate_bps, self._delay_s, self._capacity, self._log = name, rate_bps, delay_s, capacity, log
        self._sent_s = [-np.inf] * (1 if capacity is None else capacity + 1)  # departures of the last admitted packets
        self._wire = _NONE  # packets not yet taken at the other end
        self._work_s = 0.0

    def carry(self, packets: PacketArray) -> None:
        """Carry packets, all of them later than those before."""
        service_s = packets.bits / self._rate_bps
        if self._capacity is None:
            last_s, pairs = self._sent_s[-1], zip(packets.time_s.tolist(), service_s.tolist(), strict=True)
            sent_s = [last_s := (at_s if at_s > last_s else last_s) + takes_s for at_s, takes_s in pairs]
            self._sent_s = sent_s[-1:] or self._sent_s
        else:
            before = len(self._sent_s)
            sent_s, admitted = _admit(packets.time_s.tolist(), service_s.tolist(), self._sent_s)
            sent_s, self._sent_s = sent_s[before:], sent_s[-before:]
            is_admitted = np.array(admitted, np.bool_)
            self._log.end_packets(packets[~is_admitted], Ending("dropped", self._name))
            packets, service_s = packets[is_admitted], service_s[is_admitted]
        out = replace(packets, time_s=np.array(sent_s))
        self._work_s += float(service_s.sum())
        self._wire = merge_packets([self._wire, replace(out, time_s=out.time_s + self._delay_s)])

    def take(self, by_s: float) -> PacketArray:
        """Take the packets that have reached the other end before *by_s*."""
        count = np.searchsorted(self._wire.time_s, by_s)
        taken, self._wire = self._wire[:count], self._wire[count:]
        return taken

    def busy_by_s(self, now_s: float) -> float:
        """Return the time until *now_s*, the end of the last stretch, during which a packet was being sent."""
        return self._work_s - max(0.0, self._sent_s[-1] - now_s)


def _admit(times_s: list[float], service_s: list[float], before_s: list[float]) -> tuple[list[float], list[bool]]:
    """Return *before_s* with the departures of admitted packets, and whether each packet is admitted."""
    sent_s, admitted, places = [*before_s], [], len(before_s)
    for arrival_s, takes_s in zip(times_s, service_s, strict=True):
        if sent_s[-places] > arrival_s:
            admitted.append(False)
        else:
            last_s = sent_s[-1]
            sent_s.append((arrival_s if arrival_s > last_s else last_s) + takes_s)
            admitted.append(True)
    return sent_s, admitted


def can_batch(config: NetworkConfig, log: EventLog, routes: Routes) -> bool:
    """Return whether all traffic can take the event-free path: no hop is recorded, and order never depends on ties.

    With Poisson arrivals there are no ties if queues are unlimited or sizes exponential.  Packets of one size reach a
    second link exactly when others leave it.
    """
    queues = (config.queue, *config.queues.values())
    plain = all(type(queue) is DropTail and queue.capacity_bytes is None for queue in queues)
    poisson = all(type(traffic) is Poisson and traffic.source != "users" for traffic in config.traffic)
    even = any(traffic.size.distribution == "fixed" for traffic in config.traffic)
    alone = config.service is None and config.node_state.is_always_up and routes.fixed
    limited = any(_capacity(queue) is not None for queue in queues)
    return alone and poisson and plain and not (even and limited) and not log.wants("forwarded")


def _capacity(queue: Queue) -> int | None:
    return queue.capacity if isinstance(queue, DropTail) else None


class FastPathTraffic:
    """Traffic of a network on the event-free path, for which `can_batch` holds."""

    def __init__(self, layout: Layout, log: EventLog, routes: Routes) -> None:
        self._log, self._now_s, self._rate_hz = log, 0.0, 0.0
        self._number, self._server, self._after = layout.number, layout.server, dict[str, str]()
        for start in layout.names:
            self._after |= dict(reversed([*pairwise(routes.of(start))]))
        self._ports: dict[str, FastPathPort] = {}
        for node, after in self._after.items():
            link, capacity = layout.graph.edges[node, after], _capacity(routes.queue(node, after))
            self._ports[node] = FastPathPort(node, link["rate_bps"], link["delay_s"], capacity, log)
        self._sources: dict[str, list[PacketSource]] = {node: [] for node in self._ports}
        self._far_first = sorted(self._ports, key=lambda node: -len(routes.of(node)))

    def enter(self, name: str, blocks: Iterator[Block], rate_hz: float) -> None:
        """Let the packets of *blocks*, *rate_hz* a second, enter at node *name*."""
        self._sources[name].append(PacketSource(self._number(name), blocks))
        self._rate_hz += rate_hz

    def play(self, until_s: float, on_progress: Callable[[float], None]) -> None:
        """Carry packets until *until_s*; call *on_progress* with the time so far."""
        stretch_s = _PACKETS / self._rate_hz if self._rate_hz else until_s
        while self._now_s < until_s:
            by_s = self._now_s = min(until_s, self._now_s + stretch_s)
            for node in self._far_first:
                new = [source.take(by_s) for source in self._sources[node]]
                for packets in new:
                    self._log.packets.offer_all(packets)
                self._ports[node].carry(merge_packets([*new, *self._arrivals(node, by_s)]))
            delivered = merge_packets([*self._arrivals(self._server, by_s)])
            self._log.end_packets(delivered, Ending("delivered", self._server))
            on_progress(by_s)

    def busy_by_s(self, now_s: float) -> dict[str, float]:
        """Return the time until *now_s*, that of the last `play`, during which each port sent, by its link."""
        return {f"{node}-{self._after[node]}": port.busy_by_s(now_s) for node, port in self._ports.items()}

    def _arrivals(self, node: str, by_s: float) -> Iterator[PacketArray]:
        return (self._ports[before].take(by_s) for before, after in self._after.items() if after == node)
