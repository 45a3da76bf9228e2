"""The packets of one cell's users: each user has a queue of its own, first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.network.radio.tx_queue import Frames, TxQueue, Users
from netfl.network.traffic import Block, Traffic
from netfl.streams import Streams


class UserPacketQueue(TxQueue):
    """Traffic as a load: the head of a user's queue is its first frame.

    No event is needed for a packet's coming: a user's next packet is known, and what has come while its head was being
    sent is counted when that is over.  As the queue's length changes otherwise only at that moment, a queue that was
    full meanwhile drops exactly those that it would have dropped as they came.

    Args:
        ids: the users' numbers in the whole network.
        traffic: what comes.
        link_bps: the bit rate of the air, for a load that is given as a share of it.
        tower: the tower's name.
        ledger: where packets end.
        streams: those of the traffic.
    """

    def __init__(
        self, ids: Users, traffic: Traffic, link_bps: float, tower: str, ledger: EventLog, streams: Streams
    ) -> None:
        self.ids, self._tower, self._ledger = ids, tower, ledger
        size = len(ids)
        self._saturated, self._room = traffic.is_saturated, traffic.buffer or np.inf
        self.most_bits, self.quiet = traffic.size.mean, traffic.is_saturated
        self._even, self._priority = traffic.size.law == "fixed", traffic.priority
        self.ready_s, self.on_air = np.full(size, np.inf), np.zeros(size, np.bool_)
        self._coming = [_Coming(traffic.blocks(user, link_bps, streams)) for user in ids.tolist()]
        self._waiting: list[deque[tuple[float, float]]] = [deque() for _ in range(size)]
        self._head = [self._next(user, 0.0) for user in range(size)]

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """The sizes of the heads."""
        return self.most_bits if self._even else np.array([self._head[user].bits for user in users])

    def launch(self, users: Users, now_s: float) -> Frames:
        """The heads of *users* go on the air."""
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
        if self._even:
            self._ledger.uplink_bits += self.most_bits * len(heads)
            return Frames(users, self.most_bits, heads)
        bits = np.array([head.bits for head in heads])
        self._ledger.uplink_bits += float(bits.sum())
        return Frames(users, bits, heads)

    def still(self, frames: Frames) -> Users:
        """All are."""
        return frames.users

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Heads that were received go on, those given up are lost; the next of their queues move up."""
        messages = []
        for user, head, cause in zip(frames.users.tolist(), frames.told, causes, strict=True):
            self.on_air[user] = False
            if not cause:
                messages.append(head)
            elif limit is not None and head.attempts >= limit:
                self._ledger.land(head, cause if limit == 1 else "given_up", now_s, node=self._tower)
            else:
                continue
            self._head[user] = self._next(user, now_s)
        return messages

    def refresh(self, now_s: float) -> None:
        """All is known ahead."""

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """Count what has come and has not been looked at."""
        for user, head in enumerate(self._head):
            if head.born_s <= now_s:
                self._count(head)
                if not self._saturated:
                    self._let_in(user, now_s)

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users* are cut off: their heads wait."""
        self.ready_s[users] = until_s

    def _next(self, user: int, now_s: float) -> Message:
        """The next head of *user*'s queue; its ``ready_s`` is when it comes."""
        coming, counted = self._coming[user], False
        if self._saturated:
            born_s, bits = now_s, coming.take()[1]
        else:
            self._let_in(user, now_s)
            waiting = self._waiting[user]
            counted = bool(waiting)
            born_s, bits = waiting.popleft() if waiting else coming.take()
        self.ready_s[user] = born_s
        number = int(self.ids[user])
        return Message(number, TRAFFIC, bits, np.nan, 0, number, self._priority, born_s=born_s, counted=counted)

    def _let_in(self, user: int, now_s: float) -> None:
        """Let in, or drop, those that have come before now, while the head was being sent."""
        waiting, coming, number = self._waiting[user], self._coming[user], int(self.ids[user])
        while coming.born_s < now_s:
            born_s, bits = coming.take()
            self._ledger.offer(number, bits, born_s)
            if len(waiting) + 1 < self._room:
                waiting.append((born_s, bits))
            else:
                dropped = Message(number, TRAFFIC, bits, np.nan, 0, number, self._priority, born_s=born_s)
                self._ledger.land(dropped, "dropped", born_s, node=self._tower)

    def _count(self, head: Message) -> None:
        """Count *head* among those that came, once."""
        if not head.counted:
            head.counted = True
            self._ledger.offer(head.user, head.bits, head.born_s)


class _Coming:
    """The packets of one sender in the order of their coming.

    Attributes:
        born_s: when the next comes; infinity after the last.
    """

    __slots__ = ("_at", "_bits", "_blocks", "_times_s", "born_s")

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks, self._at, self.born_s = blocks, 0, 0.0
        self._times_s: list[float] = []
        self._bits: list[float] = []
        self._fill()

    def take(self) -> tuple[float, float]:
        """When the next packet comes, and its size."""
        packet = self.born_s, self._bits[self._at] if self._bits else 0.0
        self._at += 1
        if self._at < len(self._times_s):
            self.born_s = self._times_s[self._at]
        else:
            self._fill()
        return packet

    def _fill(self) -> None:
        """The next block that is not empty."""
        self._at = 0
        for times_s, bits in self._blocks:
            if len(times_s):
                self._times_s, self._bits = times_s.tolist(), bits.tolist()
                self.born_s = self._times_s[0]
                return
        self._times_s, self._bits, self.born_s = [], [], float("inf")
