"""Transmit queue of traffic: the packets of each user, first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.network.radio.tx_queue import Frames, TxQueue, Users
from netfl.network.traffic import Block, Traffic
from netfl.types import Floats, Ints

_NO_PACKET = np.inf, 0.0


class PacketQueue(TxQueue):
    """Traffic of the users of one cell; a user's first frame is the head of its queue.

    The arrival of a packet needs no event: a user's next packet is known, and packets that arrive while the head is
    being sent are counted at the end of that.  As the queue changes otherwise only at that moment, a full queue drops
    exactly the packets that it would have dropped at their arrival.

    Args:
        ids: Numbers of the users in the network.
        arrivals: Packets of each user, by `Traffic.blocks`, ``[size]``.
    """

    def __init__(
        self, ids: Users, traffic: Traffic, arrivals: Sequence[Iterator[Block]], tower: str, log: EventLog
    ) -> None:
        self.ids, self._tower, self._log = ids, tower, log
        size = len(ids)
        self._saturated, self._capacity = traffic.is_saturated, traffic.buffer or np.inf
        self.max_bits, self.quiet = traffic.size.mean, traffic.is_saturated
        self._fixed_size, self._priority = traffic.size.distribution == "fixed", traffic.priority
        self.ready_s, self.on_air = np.full(size, np.inf), np.zeros(size, np.bool_)
        self._arrivals = [_Arrivals(blocks) for blocks in arrivals]
        self._waiting: list[deque[tuple[float, float]]] = [deque() for _ in range(size)]
        self._head = [self._next(user, 0.0) for user in range(size)]

    def bits(self, users: Users) -> float | Floats:
        return self.max_bits if self._fixed_size else np.array([self._head[user].bits for user in users])

    def lengths(self, now_s: float) -> Ints:
        if not self._saturated:
            for user, head in enumerate(self._head):
                if head.born_s <= now_s:
                    self._admit_arrivals(user, now_s)
        waiting = zip(self._head, self._waiting, strict=True)
        return np.array([(head.born_s <= now_s) + len(behind) for head, behind in waiting], np.int64)

    def launch(self, users: Users, now_s: float) -> Frames:
        heads, on_air = list[Message](), self.on_air
        for user in users.tolist():  # mostly one
            head = self._head[user]
            heads.append(head)
            on_air[user] = True
            head.attempts += 1
            if head.attempts == 1:
                head.sent_s = now_s
                if not head.counted:
                    self._count(head)
        if self._fixed_size:
            self._log.uplink_bits += self.max_bits * len(heads)
            return Frames(users, self.max_bits, heads)
        bits = np.array([head.bits for head in heads])
        self._log.uplink_bits += float(bits.sum())
        return Frames(users, bits, heads)

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: Floats, limit: int | None, now_s: float
    ) -> list[Message]:
        messages = []
        for user, head, cause in zip(frames.users.tolist(), frames.handle, causes, strict=True):
            self.on_air[user] = False
            if not cause:
                messages.append(head)
            elif limit is not None and head.attempts >= limit:
                self._log.record_outcome(head, cause if limit == 1 else "given_up", now_s, node=self._tower)
            else:
                continue
            self._head[user] = self._next(user, now_s)
        return messages

    def refresh(self, now_s: float) -> None:
        """Do nothing, as all arrivals are known ahead."""

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        for user, head in enumerate(self._head):
            if head.born_s <= now_s:
                self._count(head)
                if not self._saturated:
                    self._admit_arrivals(user, now_s)

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s

    def _next(self, user: int, now_s: float) -> Message:
        """Take the next head of *user*'s queue, and set the time at which it is ready."""
        arrivals, counted = self._arrivals[user], False
        if self._saturated:
            born_s, bits = now_s, arrivals.take()[1]
        else:
            self._admit_arrivals(user, now_s)
            waiting = self._waiting[user]
            counted = bool(waiting)
            born_s, bits = waiting.popleft() if waiting else arrivals.take()
        self.ready_s[user] = born_s
        number = int(self.ids[user])
        return Message(number, TRAFFIC, bits, np.nan, 0, number, self._priority, born_s=born_s, counted=counted)

    def _admit_arrivals(self, user: int, now_s: float) -> None:
        """Queue or drop the packets that arrived before now, while the head was being sent."""
        waiting, arrivals, number = self._waiting[user], self._arrivals[user], int(self.ids[user])
        while arrivals.born_s < now_s:
            born_s, bits = arrivals.take()
            self._log.packets.offer(number, bits, born_s)
            if len(waiting) + 1 < self._capacity:
                waiting.append((born_s, bits))
            else:
                dropped = Message(number, TRAFFIC, bits, np.nan, 0, number, self._priority, born_s=born_s)
                self._log.record_outcome(dropped, "dropped", born_s, node=self._tower)

    def _count(self, head: Message) -> None:
        if not head.counted:
            head.counted = True
            self._log.packets.offer(head.user, head.bits, head.born_s)


class _Arrivals:
    """The packets of one sender in the order of their arrival.

    Attributes:
        born_s: Arrival of the next packet; infinity after the last.
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
