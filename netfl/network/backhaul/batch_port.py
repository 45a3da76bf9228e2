"""Ports without events: packets that are carried whole stretches of time at once.

A packet's departure is known as soon as it has come (Lindley's recursion, Proc. Cambridge Phil. Soc. 48, 1952):

    departure = max(arrival, departure of the one before) + size / rate,

and one that finds the room full is turned away: that is so while the departure of the (capacity + 1)-th packet before
it, of those that were let in, lies ahead.  The same numbers are added in the same order as by the events of
`OutputPort`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.network.counters import LinkUsage
from netfl.network.event_log import EventLog
from netfl.network.traffic import Block


@dataclass(frozen=True, slots=True)
class PacketArray:
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

    def __getitem__(self, chosen: slice | NDArray[np.bool_] | NDArray[np.int64]) -> PacketArray:
        return PacketArray(self.time_s[chosen], self.bits[chosen], self.born_s[chosen], self.sender[chosen])

    def __len__(self) -> int:
        return len(self.time_s)


_NONE = PacketArray(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64))


def merge_packets(some: Sequence[PacketArray]) -> PacketArray:
    """All packets in the order of time."""
    some = [each for each in some if len(each)]
    if len(some) < 2:
        return some[0] if some else _NONE
    columns = zip(*((each.time_s, each.bits, each.born_s, each.sender) for each in some), strict=True)
    together = PacketArray(*(np.concatenate(column) for column in columns))
    return together[np.argsort(together.time_s, kind="stable")]


class PacketSource:
    """Packets that enter at one node.

    Args:
        node: its number.
        blocks: instants and sizes.
    """

    def __init__(self, node: int, blocks: Iterator[Block]) -> None:
        self._node, self._blocks, self._rest = node, blocks, _NONE

    def take(self, by_s: float) -> PacketArray:
        """The packets that come by then and have not been taken."""
        some = [self._rest]
        while not len(some[-1]) or some[-1].time_s[-1] <= by_s:
            times_s, bits = next(self._blocks)
            some.append(PacketArray(times_s, bits, times_s, np.full(len(bits), self._node)))
        count = np.searchsorted(some[-1].time_s, by_s, side="right")
        some[-1], self._rest = some[-1][:count], some[-1][count:]
        return merge_packets(some)


class FastPathPort:
    """A port and its link, without events.

    Args:
        name: the node's name.
        rate_bps: the rate of the link.
        delay_s: its propagation delay.
        room: packets that may wait; ``None`` for no limit.
        ledger: where fates go.
    """

    def __init__(self, name: str, rate_bps: float, delay_s: float, room: int | None, ledger: EventLog) -> None:
        self._name, self._rate_bps, self._delay_s, self._room, self._ledger = name, rate_bps, delay_s, room, ledger
        self._sent_s = [-np.inf] * (1 if room is None else room + 1)  # of the last that were let in
        self._held = _NONE  # let in, and not known to have been sent whole; with the instants at which they will be
        self._wire = _NONE  # not taken yet at the other end
        self._work_s = self._wait_s = self._bits = 0.0
        self._messages = self._dropped = 0

    def carry(self, packets: PacketArray) -> None:
        """Take what comes next, all of it later than what came before."""
        service_s = packets.bits / self._rate_bps
        if self._room is None:
            sent_s = _departures(packets.time_s.tolist(), service_s.tolist(), self._sent_s[-1])
            self._sent_s = sent_s[-1:] or self._sent_s
        else:
            before = len(self._sent_s)
            sent_s, let_in = _let_in(packets.time_s.tolist(), service_s.tolist(), self._sent_s)
            sent_s, self._sent_s = sent_s[before:], sent_s[-before:]
            stays = np.array(let_in, np.bool_)
            self._turn_away(packets[~stays])
            packets, service_s = packets[stays], service_s[stays]
        out = PacketArray(np.array(sent_s), packets.bits, packets.born_s, packets.sender)
        self._work_s += float(service_s.sum())
        self._wait_s += float((out.time_s - service_s - packets.time_s).sum())
        self._held = merge_packets([self._held, out])
        self._wire = merge_packets(
            [self._wire, PacketArray(out.time_s + self._delay_s, out.bits, out.born_s, out.sender)]
        )

    def _turn_away(self, packets: PacketArray) -> None:
        """These found the room full."""
        self._dropped += len(packets)
        self._ledger.land_all("dropped", packets.time_s, packets.sender, packets.bits, packets.born_s, node=self._name)

    def take(self, by_s: float) -> PacketArray:
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

    def usage(self, now_s: float) -> LinkUsage:
        """What this port has done by *now_s*, the instant up to which it was played."""
        ahead_s = max(0.0, self._sent_s[-1] - now_s)
        starts_s = self._held.time_s - self._held.bits / self._rate_bps
        wait_s = self._wait_s - float(np.maximum(starts_s - now_s, 0.0).sum())
        return LinkUsage(self._work_s - ahead_s, self._bits, self._messages, self._dropped, waiting_s=wait_s)


def _departures(times_s: list[float], service_s: list[float], last_s: float) -> list[float]:
    """When each packet has been sent, the one before them at *last_s*."""
    pairs = zip(times_s, service_s, strict=True)
    return [last_s := (came_s if came_s > last_s else last_s) + takes_s for came_s, takes_s in pairs]


def _let_in(times_s: list[float], service_s: list[float], before_s: list[float]) -> tuple[list[float], list[bool]]:
    """*before_s* goes on with those who are let in, as only so many can be there at once; and who is."""
    sent_s, let_in, most = [*before_s], [], len(before_s)
    for came_s, takes_s in zip(times_s, service_s, strict=True):
        if sent_s[-most] > came_s:
            let_in.append(False)
        else:
            last_s = sent_s[-1]
            sent_s.append((came_s if came_s > last_s else last_s) + takes_s)
            let_in.append(True)
    return sent_s, let_in
