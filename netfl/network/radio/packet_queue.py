"""Transmit queue of traffic: the packets of each user, first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Message, Packet
from netfl.network.radio.transmission import Frames
from netfl.network.radio.tx_queue import TxQueue
from netfl.network.traffic import Block, Traffic
from netfl.streams import Streams
from netfl.types import Floats, Ints, Users

_NO_PACKET = np.inf, 0.0
_NO_BASE = -1


class PacketQueue(TxQueue):
    """Traffic of the users of one cell; a user's first frame is the head of its queue.

    The arrival of a packet needs no event: a user's next packet is known, and packets that arrive while the head is
    being sent are counted at the end of that.  As the queue changes otherwise only at that moment, a full queue drops
    exactly the packets that it would have dropped at their arrival.

    Args:
        ids: numbers of the users in the network.
        arrivals: packets of each user, ``[size]``.
        name: name of the class of traffic.
    """

    def __init__(
        self, ids: Users, traffic: Traffic, arrivals: TrafficArrivals, tower: str, log: EventLog, name: str = ""
    ) -> None:
        size = len(ids)
        self.ids = ids
        self.max_bits = traffic.size.mean
        self.quiet = traffic.is_saturated
        self.on_air = np.zeros(size, np.bool_)
        self._tower = tower
        self.log = log
        self._name = name
        self._counters = log.traffic.of[name]
        self._saturated = traffic.is_saturated
        self._capacity = traffic.buffer or np.inf
        self._fixed_size = traffic.size.distribution == "fixed"
        self._priority = traffic.priority
        self._all_arrivals = arrivals
        self._first_s = arrivals.first_times_s()
        self.ready_s = self._first_s.copy()

        # of each user once it is asked for its first packet: most users of a large network never are in a short run
        self._heads: list[Packet | None] = [None] * size
        self._arrivals: dict[int, _Arrivals] = {}
        self._waiting: dict[int, deque[tuple[float, float]]] = {}

    def bits(self, users: Users) -> float | Floats:
        if self._fixed_size:
            return self.max_bits
        return np.array([self._head(user).bits for user in users.tolist()])

    def lengths(self, now_s: float) -> Ints:
        lengths = np.zeros(len(self.ids), np.int64)
        for user, _ in self._born_heads(now_s):
            if not self._saturated:
                self._admit_arrivals(user, now_s)
            lengths[user] = 1 + len(self._waiting[user])
        return lengths

    def launch(self, users: Users, now_s: float) -> Frames:
        heads = list[Packet]()
        on_air = self.on_air
        for user in users.tolist():  # mostly one
            head = self._heads[user] or self._open(user)
            heads.append(head)
            on_air[user] = True
            head.attempts += 1
            if head.attempts == 1:
                head.sent_s = now_s
                if not head.counted:
                    self._count(head)
        if self._fixed_size:
            self.log.uplink_bits += self.max_bits * len(heads)
            return Frames(users, self.max_bits, heads, _NO_BASE, self._name)
        bits = np.array([head.bits for head in heads])
        self.log.uplink_bits += float(bits.sum())
        return Frames(users, bits, heads, _NO_BASE, self._name)

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        messages = list[Message]()
        for user, head, cause in zip(frames.users.tolist(), frames.handle, causes, strict=True):
            self.on_air[user] = False
            if not cause:
                messages.append(head)
            elif limit is not None and head.attempts >= limit:
                head.end(self.log, Ending.of_failure(cause, limit, self._tower), now_s)
            else:  # it stays the head, and is sent again
                continue
            self._heads[user] = self._next(user, now_s)
        return messages

    def refresh(self, now_s: float) -> None:
        """Do nothing, as all arrivals are known ahead."""

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        for user, head in self._born_heads(now_s):
            self._count(head)
            if not self._saturated:
                self._admit_arrivals(user, now_s)

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s

    def _born_heads(self, now_s: float) -> Iterator[tuple[int, Packet]]:
        """Yield the users whose first packet has arrived by now, and these packets."""
        for user in np.flatnonzero(self._first_s <= now_s).tolist():
            head = self._head(user)
            if head.born_s <= now_s:
                yield user, head

    def _head(self, user: int) -> Packet:
        return self._heads[user] or self._open(user)

    def _open(self, user: int) -> Packet:
        """Begin to take the packets of a user, and return the first."""
        self._arrivals[user] = _Arrivals(self._all_arrivals.blocks(user))
        self._waiting[user] = deque()
        ready_s = self.ready_s[user]
        head = self._heads[user] = self._next(user, 0.0)
        self.ready_s[user] = ready_s  # an outage may have postponed it
        return head

    def _next(self, user: int, now_s: float) -> Packet:
        """Take the next head of *user*'s queue, and set the time at which it is ready."""
        arrivals = self._arrivals[user]
        counted = False
        if self._saturated:  # a packet is always there
            _, bits = arrivals.take()
            born_s = now_s
        else:
            self._admit_arrivals(user, now_s)
            waiting = self._waiting[user]
            counted = bool(waiting)  # at its admission
            born_s, bits = waiting.popleft() if waiting else arrivals.take()
        self.ready_s[user] = born_s
        number = int(self.ids[user])
        return Packet(number, bits, number, self._priority, self._name, born_s=born_s, counted=counted)

    def _admit_arrivals(self, user: int, now_s: float) -> None:
        """Queue or drop the packets that arrived before now, while the head was being sent."""
        waiting = self._waiting[user]
        arrivals = self._arrivals[user]
        number = int(self.ids[user])
        while arrivals.born_s < now_s:
            born_s, bits = arrivals.take()
            for counter in self._counters:
                counter.offer(number, bits, born_s)
            if len(waiting) + 1 < self._capacity:
                waiting.append((born_s, bits))
            else:
                dropped = Packet(number, bits, number, self._priority, self._name, born_s=born_s)
                dropped.end(self.log, Ending("dropped", self._tower), born_s)

    def _count(self, head: Packet) -> None:
        if not head.counted:
            head.counted = True
            for counter in self._counters:
                counter.offer(head.user, head.bits, head.born_s)


@dataclass(frozen=True, slots=True)
class TrafficArrivals:
    """The packets of users, each of whom is asked for when needed.

    Args:
        users: their numbers in the network.
        link_bps: rate of the air.
        streams: streams of the traffic model.
    """

    traffic: Traffic
    users: Sequence[int]
    link_bps: float
    streams: Streams

    def first_times_s(self) -> Floats:
        """Return the arrival of each user's first packet."""
        return self.traffic.first_times_s(self.users, self.link_bps, self.streams)

    def blocks(self, index: int) -> Iterator[Block]:
        """Return the packets of a user, by its number here."""
        return self.traffic.blocks(self.users[index], self.link_bps, self.streams)


class _Arrivals:
    """The packets of one sender in the order of their arrival.

    Attributes:
        born_s: arrival of the next packet; infinity after the last.
    """

    __slots__ = ("_bits", "_packets", "born_s")

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._packets: Iterator[tuple[float, float]] = chain.from_iterable(
            zip(times_s.tolist(), bits.tolist(), strict=True) for times_s, bits in blocks
        )
        self.born_s, self._bits = next(self._packets, _NO_PACKET)

    def take(self) -> tuple[float, float]:
        """Return the arrival and the size of the next packet."""
        packet = self.born_s, self._bits
        self.born_s, self._bits = next(self._packets, _NO_PACKET)
        return packet
