"""A transfer: one update on its way in packets."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from netfl.network.message import Message

# Packets put in order again at the end of their way.


class Reassembly:
    """Which packets of one update are there.

    >>> server = Reassembly(3)
    >>> [server.take(part) for part in (2, 0, 2)], server.passed
    ([True, True, False], 1)
    >>> server.take(1), server.passed, server.complete
    (True, 3, True)

    Args:
        count: how many packets there are.

    Attributes:
        passed: packets that are there and all before them, too: those that can be handed on in order.
    """

    __slots__ = ("_there", "passed")

    def __init__(self, count: int) -> None:
        self._there, self.passed = bytearray(count), 0

    def take(self, part: int) -> bool:
        """Packet *part*, counted from 0, has come: whether it is no duplicate."""
        if self._there[part]:
            return False
        self._there[part] = 1
        if part == self.passed:
            gap = self._there.find(0, part)
            self.passed = len(self._there) if gap < 0 else gap
        return True

    def has(self, part: int) -> bool:
        """Whether *part* has come."""
        return bool(self._there[part])

    @property
    def complete(self) -> bool:
        """Whether all have."""
        return self.passed == len(self._there)


NOTHING = -1
"""The number of no packet."""


class TransferListener(Protocol):
    """What a transfer tells of its packets."""

    def land(self, transfer: Transfer, part: int, fate: str, time_s: float, node: str) -> None:
        """A packet has ended between the air and the server, or with it, at the server, the whole update."""

    def answer(self, transfer: Transfer, part: int) -> None:
        """A packet is at the server for the first time."""


class Transfer:
    """What a user has yet to send of one update, what is on its way, and what the server has.

    Args:
        sender: whose packets they are.
        user: the user's number in its cell.
        base: the version that the update starts from.
        count: how many packets there are.
        window: how many of them may be sent beyond those that are acknowledged with all before them.

    Attributes:
        open: whether the update has no fate yet.
        sending: whether the user has not done with it.
        left: whether it had nothing to send when a newer version came, so that what is on its way decides.
        gone: whether the user is cut off for good.
        stranded: whether the ledger knows that it can come no more.
        head: the packet that is on the air or goes next, or `NOTHING`.
        tries: attempts of this sending of the head.
        sends: how often each packet has been sent.
        cause: why the last sending of a packet failed, where that is known.
        lacking: packets that are neither at the server nor on their way.
        sent_s: when the first attempt of all began; NaN before.
        attempts: attempts of all packets.
    """

    __slots__ = (
        "_acked",
        "_copies",
        "_count",
        "_fresh",
        "_repeats",
        "_sender",
        "_server",
        "_window",
        "attempts",
        "base",
        "cause",
        "gone",
        "head",
        "lacking",
        "left",
        "open",
        "sending",
        "sends",
        "sent_s",
        "stranded",
        "tries",
        "user",
    )

    def __init__(self, sender: TransferListener, user: int, base: int, count: int, window: int | None = None) -> None:
        self._sender, self.user, self.base = sender, user, base
        self._count, self._window = count, window or count
        self._acked, self._server = Reassembly(count), Reassembly(count)
        self._fresh, self._repeats = 0, deque[int]()
        self._copies, self.sends = [0] * count, [0] * count
        self.open = self.sending = True
        self.left = self.gone = self.stranded = False
        self.head, self.tries, self.lacking = NOTHING, 0, count
        self.cause: dict[int, str] = {}
        self.sent_s, self.attempts = math.nan, 0

    def advance(self) -> bool:
        """Let the next packet be the head if there is none: whether there is one then."""
        if self.head == NOTHING and self.sending:
            if self._repeats:
                self.head = self._repeats.popleft()
            elif self._fresh < min(self._count, self._acked.passed + self._window):
                self.head = self._fresh
                self._fresh += 1
            self.tries = 0
        return self.head != NOTHING

    def depart(self, now_s: float) -> int:
        """The head goes on the air: its number.  Who sends without one repeats the last new one that it sent."""
        if self.head == NOTHING:
            self.head, self.tries = max(self._fresh - 1, 0), 0
        part = self.head
        if not self.tries:
            self.sends[part] += 1
            self.cause.pop(part, None)
        if not self.attempts:
            self.sent_s = now_s
        self.tries += 1
        self.attempts += 1
        self.lacking -= not self._copies[part] and not self._server.has(part)
        self._copies[part] += 1
        return part

    def leave(self, *, open: bool) -> bool:
        """A newer version has come, *open* or not as the update is: whether what is on its way may still be all."""
        self.sending, self.left = False, True
        self.open = open and not self.lacking
        return self.open

    def lose(self, part: int) -> None:
        """A packet that was on its way will not arrive."""
        self._copies[part] -= 1
        self.lacking += not self._copies[part] and not self._server.has(part)

    def repeat(self, part: int) -> None:
        """Queue a packet again."""
        if part != self.head and part not in self._repeats:
            self._repeats.append(part)

    def acknowledge(self, part: int) -> None:
        """The user learns that the server has a packet: it need not be sent again."""
        self._acked.take(part)
        if part in self._repeats:
            self._repeats.remove(part)

    def acknowledged(self, part: int) -> bool:
        """Whether the user knows that the server has it."""
        return self._acked.has(part)

    def arrive(self, segment: Segment) -> bool:
        """A packet is at the server: whether the update is whole with it, and *segment* stands for all of it now."""
        self._copies[segment.part] -= 1
        if not self._server.take(segment.part):
            return False
        self._sender.answer(self, segment.part)
        segment.sent_s, segment.attempts = self.sent_s, self.attempts
        return self.open and self._server.complete

    def land(self, part: int, fate: str, time_s: float, node: str) -> None:
        """A packet has ended, or with it, at the server, the whole update."""
        self._sender.land(self, part, fate, time_s, node)


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Message):
    """A packet of an update; when it is the last to arrive, it stands for the update.

    Args:
        part: its number, from 0.
        transfer: the whole.
    """

    part: int
    transfer: Transfer
