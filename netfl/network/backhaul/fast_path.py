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


_NONE = PacketArray(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


def merge_packets(arrays: Sequence[PacketArray]) -> PacketArray:
    """Merge packets in the order of time."""
    arrays = [packets for packets in arrays if len(packets)]
    if not arrays:
        return _NONE
    if len(arrays) == 1:
        return arrays[0]
    merged = PacketArray(
        time_s=np.concatenate([packets.time_s for packets in arrays]),
        bits=np.concatenate([packets.bits for packets in arrays]),
        born_s=np.concatenate([packets.born_s for packets in arrays]),
        sender=np.concatenate([packets.sender for packets in arrays]),
        traffic=np.concatenate([packets.traffic for packets in arrays]),
    )
    return merged[np.argsort(merged.time_s, kind="stable")]


class PacketSource:
    """Packets of one class of *traffic* that enter at one node."""

    def __init__(self, node: int, traffic: int, blocks: Iterator[Block]) -> None:
        self._node = node
        self._traffic = traffic
        self._blocks = blocks
        self._ahead = _NONE  # packets of the last block that have not arrived

    def take(self, by_s: float) -> PacketArray:
        """Take the packets that arrive before *by_s*."""
        arrived = []
        packets = self._ahead
        while not len(packets) or packets.time_s[-1] < by_s:
            arrived.append(packets)
            times_s, bits = next(self._blocks)
            size = len(bits)
            packets = PacketArray(times_s, bits, times_s, np.full(size, self._node), np.full(size, self._traffic))
        count = np.searchsorted(packets.time_s, by_s)
        arrived.append(packets[:count])
        self._ahead = packets[count:]
        return merge_packets(arrived)


class FastPathPort:
    """A port and its link, without events.

    Args:
        capacity: number of packets that may wait; ``None`` for no limit.
    """

    def __init__(self, name: str, rate_bps: float, delay_s: float, capacity: int | None, log: EventLog) -> None:
        self._name = name
        self._rate_bps = rate_bps
        self._delay_s = delay_s
        self._capacity = capacity
        self._log = log
        # departures of the last admitted packets: as many as decide on the next one
        if capacity is None:
            self._sent_s = [-np.inf]
        else:
            self._sent_s = [-np.inf] * (capacity + 1)
        self._wire = _NONE  # packets not yet taken at the other end
        self._work_s = 0.0

    def carry(self, packets: PacketArray) -> None:
        """Carry packets, all of them later than those before."""
        service_s = packets.bits / self._rate_bps
        if self._capacity is None:
            sent_s = _depart(packets.time_s.tolist(), service_s.tolist(), self._sent_s[-1])
            if sent_s:
                self._sent_s = sent_s[-1:]
        else:
            before = len(self._sent_s)
            all_sent_s, admitted = _admit(packets.time_s.tolist(), service_s.tolist(), self._sent_s)
            sent_s = all_sent_s[before:]
            self._sent_s = all_sent_s[-before:]
            is_admitted = np.array(admitted, np.bool_)
            self._log.end_packets(packets[~is_admitted], Ending("dropped", self._name))
            packets = packets[is_admitted]
            service_s = service_s[is_admitted]
        self._work_s += float(service_s.sum())
        arriving = replace(packets, time_s=np.array(sent_s) + self._delay_s)
        self._wire = merge_packets([self._wire, arriving])

    def take(self, by_s: float) -> PacketArray:
        """Take the packets that have reached the other end before *by_s*."""
        count = np.searchsorted(self._wire.time_s, by_s)
        arrived = self._wire[:count]
        self._wire = self._wire[count:]
        return arrived

    def busy_by_s(self, now_s: float) -> float:
        """Return the time until *now_s*, the end of the last stretch, during which a packet was being sent."""
        return self._work_s - max(0.0, self._sent_s[-1] - now_s)


def _depart(times_s: list[float], service_s: list[float], last_s: float) -> list[float]:
    """Return the departures of packets from an unlimited queue, by Lindley's recursion from *last_s* on."""
    # an expression, as a comprehension is the fastest loop, and max a call for each packet
    pairs = zip(times_s, service_s, strict=True)
    return [last_s := (arrival_s if arrival_s > last_s else last_s) + takes_s for arrival_s, takes_s in pairs]


def _admit(times_s: list[float], service_s: list[float], before_s: list[float]) -> tuple[list[float], list[bool]]:
    """Return *before_s* with the departures of admitted packets, and whether each packet is admitted."""
    places = len(before_s)
    sent_s = [*before_s]
    admitted = []
    for arrival_s, takes_s in zip(times_s, service_s, strict=True):
        if sent_s[-places] > arrival_s:  # the queue is full
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
    if config.service is not None or not config.node_state.is_always_up or not routes.fixed:
        return False
    if log.wants("forwarded"):
        return False
    if not all(type(traffic) is Poisson and traffic.source != "users" for traffic in config.traffic):
        return False
    queues = (config.queue, *config.queues.values())
    if not all(type(queue) is DropTail and queue.capacity_bytes is None for queue in queues):
        return False
    has_equal_sizes = any(traffic.size.distribution == "fixed" for traffic in config.traffic)
    has_limits = any(_capacity(queue) is not None for queue in queues)
    return not (has_equal_sizes and has_limits)


def _capacity(queue: Queue) -> int | None:
    if isinstance(queue, DropTail):
        return queue.capacity
    return None


class FastPathTraffic:
    """Traffic of a network on the event-free path, for which `can_batch` holds."""

    def __init__(self, layout: Layout, log: EventLog, routes: Routes) -> None:
        self._log = log
        self._number = layout.number
        self._server = layout.server
        self._now_s = 0.0
        self._rate_hz = 0.0
        self._after: dict[str, str] = {}  # next hop of each node
        for start in layout.names:
            self._after |= dict(reversed([*pairwise(routes.of(start))]))
        self._ports: dict[str, FastPathPort] = {}
        for node, after in self._after.items():
            link = layout.graph.edges[node, after]
            capacity = _capacity(routes.queue(node, after))
            self._ports[node] = FastPathPort(node, link["rate_bps"], link["delay_s"], capacity, log)
        self._sources: dict[str, list[PacketSource]] = {node: [] for node in self._ports}
        self._far_first = sorted(self._ports, key=lambda node: -len(routes.of(node)))

    def enter(self, name: str, traffic: int, blocks: Iterator[Block], rate_hz: float) -> None:
        """Let the packets of *blocks*, *rate_hz* a second of that class of *traffic*, enter at node *name*."""
        self._sources[name].append(PacketSource(self._number(name), traffic, blocks))
        self._rate_hz += rate_hz

    def play(self, until_s: float, on_progress: Callable[[float], None]) -> None:
        """Carry packets until *until_s*; call *on_progress* with the time so far."""
        stretch_s = until_s
        if self._rate_hz:
            stretch_s = _PACKETS / self._rate_hz
        while self._now_s < until_s:
            by_s = min(until_s, self._now_s + stretch_s)
            self._now_s = by_s
            for node in self._far_first:
                new = [source.take(by_s) for source in self._sources[node]]
                for packets in new:
                    for class_name, of_class in self._log.traffic.split(packets):
                        for counter in self._log.traffic.of[class_name]:
                            counter.offer_all(of_class)
                self._ports[node].carry(merge_packets([*new, *self._arrivals(node, by_s)]))
            delivered = merge_packets([*self._arrivals(self._server, by_s)])
            self._log.end_packets(delivered, Ending("delivered", self._server))
            on_progress(by_s)

    def busy_by_s(self, now_s: float) -> dict[str, float]:
        """Return the time until *now_s*, that of the last `play`, during which each port sent, by its link."""
        return {f"{node}-{self._after[node]}": port.busy_by_s(now_s) for node, port in self._ports.items()}

    def _arrivals(self, node: str, by_s: float) -> Iterator[PacketArray]:
        """Yield the packets that have reached *node* before *by_s* on each of its links."""
        return (self._ports[before].take(by_s) for before, after in self._after.items() if after == node)
