"""Traffic that nothing can disturb, computed a stretch of time at a time: its packets need no events.

Where packets enter at towers and routers alone, every message of a node takes the same way, all ports are first in,
first out, and nothing is ever down, a packet's departure is known as soon as it has come (Lindley's recursion):

    departure = max(arrival, departure of the one before) + size / rate,

and one that finds the room full is turned away: that is so while the departure of the (capacity + 1)-th packet before
it, of those that were let in, lies ahead.  Ports are played one after the other, those far from the server first, each
with all packets of a stretch.  The same numbers are added in the same order as by the events of `Port`, so the figures
are the same, but for rounding where an instant is more than twice the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netfl.network.ledger import Ledger
from netfl.network.parts import Parts
from netfl.network.queue import Queue
from netfl.network.queue.drop_tail import DropTail
from netfl.network.routes import Routes
from netfl.network.traffic import Block
from netfl.network.traffic.poisson import Poisson
from netfl.network.usage import Usage

_PACKETS = 1 << 15
"""Packets of a stretch, about."""


def fits(parts: Parts, routes: Routes, ledger: Ledger) -> bool:
    """Whether all that *parts* carry can be computed so, and nobody asks for each hop to be recorded.

    No two events may fall on one instant, as it would be for the clock to say which is first.  Poisson arrivals see to
    that where rooms have no end or sizes are exponential; of packets of one size, one comes to a second link at the very
    instant at which another leaves it.
    """
    queues = (parts.queue, *parts.queues.values())
    plain = all(_plain(queue) for queue in queues)
    poisson = all(type(traffic) is Poisson and traffic.enters != "users" for traffic in parts.traffic)
    even = any(traffic.size.law == "fixed" for traffic in parts.traffic)
    alone = parts.service is None and parts.presence.always_up and routes.fixed and not ledger.wants("forwarded")
    return alone and poisson and plain and not (even and any(_room(queue) is not None for queue in queues))


def _plain(queue: Queue) -> bool:
    """Whether *queue* is first in, first out, with room for so many packets."""
    return type(queue) is DropTail and queue.capacity_bytes is None


def _room(queue: Queue) -> int | None:
    """For how many packets *queue* has room; ``None`` for no limit."""
    return queue.capacity if isinstance(queue, DropTail) else None


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets in the order in which they come somewhere.

    Args:
        time_s: when.
        bits: their sizes.
        born_s: when they came to their senders.
        sender: the senders' node numbers.
    """

    time_s: NDArray[np.float64]
    bits: NDArray[np.float64]
    born_s: NDArray[np.float64]
    sender: NDArray[np.int64]

    def __getitem__(self, chosen: slice | NDArray[np.bool_] | NDArray[np.int64]) -> Packets:
        return Packets(self.time_s[chosen], self.bits[chosen], self.born_s[chosen], self.sender[chosen])

    def __len__(self) -> int:
        return len(self.time_s)


_NONE = Packets(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64))


def _merge(some: Sequence[Packets]) -> Packets:
    """All packets in the order of time."""
    some = [each for each in some if len(each)]
    if len(some) < 2:  # noqa: PLR2004 - one needs no merging
        return some[0] if some else _NONE
    columns = zip(*((each.time_s, each.bits, each.born_s, each.sender) for each in some), strict=True)
    together = Packets(*(np.concatenate(column) for column in columns))
    return together[np.argsort(together.time_s, kind="stable")]


class Source:
    """Packets that enter at one node.

    Args:
        node: its number.
        blocks: instants and sizes.
    """

    def __init__(self, node: int, blocks: Iterator[Block]) -> None:
        self._node, self._blocks, self._rest = node, blocks, _NONE

    def take(self, by_s: float) -> Packets:
        """The packets that come by then and have not been taken."""
        some = [self._rest]
        while not len(some[-1]) or some[-1].time_s[-1] <= by_s:
            times_s, bits = next(self._blocks)
            some.append(Packets(times_s, bits, times_s, np.full(len(bits), self._node)))
        count = np.searchsorted(some[-1].time_s, by_s, side="right")
        some[-1], self._rest = some[-1][:count], some[-1][count:]
        return _merge(some)


class Line:
    """A port and its link, without events.

    Args:
        name: the node's name.
        rate_bps: the rate of the link.
        delay_s: its propagation delay.
        room: packets that may wait; ``None`` for no limit.
        ledger: where fates go.
    """

    def __init__(self, name: str, rate_bps: float, delay_s: float, room: int | None, ledger: Ledger) -> None:
        self._name, self._rate_bps, self._delay_s, self._room, self._ledger = name, rate_bps, delay_s, room, ledger
        self._sent_s = [-np.inf] * (1 if room is None else room + 1)  # of the last that were let in
        self._held = _NONE  # let in, and not known to have been sent whole; with the instants at which they will be
        self._wire = _NONE  # not taken yet at the other end
        self._work_s = self._wait_s = self._bits = 0.0
        self._messages = self._dropped = 0

    def carry(self, packets: Packets) -> None:
        """Take what comes next, all of it later than what came before."""
        last_s, service_s = self._sent_s[-1], packets.bits / self._rate_bps
        keep, first = len(self._sent_s), packets
        if self._room is None:
            sent_s = _departures(packets.time_s.tolist(), service_s.tolist(), last_s)
            self._sent_s = sent_s[-1:] or self._sent_s
        else:
            sent_s, let_in = _let_in(packets.time_s.tolist(), service_s.tolist(), self._sent_s)
            self._sent_s, away = sent_s[-keep:], packets[~np.array(let_in, bool)]
            self._dropped += len(away)
            self._ledger.land_all("dropped", away.time_s, away.sender, away.bits, away.born_s, node=self._name)
            kept = np.array(let_in, bool)
            sent_s, service_s, first = sent_s[keep:], service_s[kept], packets[kept]
        out = Packets(np.array(sent_s), first.bits, first.born_s, first.sender)
        self._work_s += float(service_s.sum())
        self._wait_s += float((out.time_s - service_s - first.time_s).sum())
        self._held = _merge([self._held, out])
        self._wire = _merge([self._wire, Packets(out.time_s + self._delay_s, out.bits, out.born_s, out.sender)])

    def take(self, by_s: float) -> Packets:
        """What has come to the other end by then and has not been taken."""
        count = np.searchsorted(self._wire.time_s, by_s, side="right")
        taken, self._wire = self._wire[:count], self._wire[count:]
        return taken

    def settle(self, now_s: float) -> None:
        """Count what has been sent whole by now."""
        count = int(np.searchsorted(self._held.time_s, now_s, side="right"))
        self._messages += count
        self._bits += float(self._held.bits[:count].sum())
        self._held = self._held[count:]

    def usage(self, now_s: float) -> Usage:
        """What this port has done by *now_s*, the instant up to which it was played."""
        ahead_s = max(0.0, self._sent_s[-1] - now_s)
        starts_s = self._held.time_s - self._held.bits / self._rate_bps
        wait_s = self._wait_s - float(np.maximum(starts_s - now_s, 0.0).sum())
        return Usage(self._work_s - ahead_s, self._bits, self._messages, self._dropped, waiting_s=wait_s)


def _departures(times_s: list[float], service_s: list[float], last_s: float) -> list[float]:
    """When each packet has been sent, the one before them at *last_s*."""
    sent_s = []
    for came_s, takes_s in zip(times_s, service_s, strict=True):
        last_s = (came_s if came_s > last_s else last_s) + takes_s
        sent_s.append(last_s)
    return sent_s


def _let_in(times_s: list[float], service_s: list[float], before_s: list[float]) -> tuple[list[float], list[bool]]:
    """The same where only as many can be there at once as *before_s* tells of: *before_s* goes on, and who is let in."""
    sent_s, let_in, most = [*before_s], [], len(before_s)
    for came_s, takes_s in zip(times_s, service_s, strict=True):
        if sent_s[-most] > came_s:
            let_in.append(False)
        else:
            last_s = sent_s[-1]
            sent_s.append((came_s if came_s > last_s else last_s) + takes_s)
            let_in.append(True)
    return sent_s, let_in


class Batch:
    """All traffic of a network, played a stretch at a time.

    Args:
        parts: what the network is built of; they must `fits`.
        routes: its routes.
        ledger: where packets are counted.
    """

    def __init__(self, parts: Parts, routes: Routes, ledger: Ledger) -> None:
        self._ledger, self._now_s, self._rate_hz = ledger, 0.0, 0.0
        sites = parts.sites
        self._server, self._after = sites.server, dict[str, str]()
        for start in sites.names:
            self._after |= dict(reversed([*pairwise(routes.of(start))]))
        self._lines: dict[str, Line] = {}
        for node, after in self._after.items():
            link, queue = sites.graph.edges[node, after], routes.queue(node, after, parts)
            self._lines[node] = Line(node, link["rate_bps"], link["delay_s"], _room(queue), ledger)
        self._sources: dict[str, list[Source]] = {node: [] for node in self._lines}
        self._far_first = sorted(self._lines, key=lambda node: -len(routes.of(node)))

    def enter(self, name: str, source: Source, rate_hz: float) -> None:
        """Let *source*, which brings so many packets a second, enter at *name*."""
        self._sources[name].append(source)
        self._rate_hz += rate_hz

    def play(self, until_s: float) -> None:
        """Let the clock go on to *until_s*."""
        while self._now_s < until_s:
            self._now_s = min(until_s, self._now_s + _PACKETS / self._rate_hz)
            self._stretch(self._now_s)

    def usage(self, now_s: float) -> Mapping[str, Usage]:
        """What each port has done by *now_s*, the instant up to which was played."""
        return {f"{node}-{self._after[node]}": line.usage(now_s) for node, line in self._lines.items()}

    def _stretch(self, by_s: float) -> None:
        """Play what comes by then."""
        for node in self._far_first:
            own = [source.take(by_s) for source in self._sources[node]]
            for packets in own:
                self._ledger.offer_all(packets.sender, packets.bits)
            self._lines[node].carry(_merge([*own, *self._coming(node, by_s)]))
            self._lines[node].settle(by_s)
        there = _merge([*self._coming(self._server, by_s)])
        self._ledger.land_all("delivered", there.time_s, there.sender, there.bits, there.born_s, node=self._server)

    def _coming(self, node: str, by_s: float) -> Iterator[Packets]:
        """What other nodes have sent to *node*."""
        return (self._lines[before].take(by_s) for before, after in self._after.items() if after == node)
