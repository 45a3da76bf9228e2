"""Transfer of one update in packets."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from netfl.network.event_log import Ending, EventLog
from netfl.network.transport.spec import Segmentation
from netfl.network.updates import STATE_RULES, Update, UpdateReceiver, UpdateState

NO_PACKET = -1
"""The number of no packet."""


class SegmentQueue(Protocol):
    """The queue of a transfer, which learns of its packets: `netfl.network.transport.segmentation`."""

    def end_segment(self, transfer: Transfer, part: int, ending: Ending, time_s: float) -> None:
        """Handle the end of a packet between the air and the server or, at the server, of the whole update."""

    def send_acknowledgement(self, transfer: Transfer, part: int) -> None:
        """Let the user know, a delay later, that the server has a packet."""

    def settle(self, transfer: Transfer) -> None:
        """End an update, or hand it over to the server, once each of its packets has arrived or is lost."""


class Transfer:
    """One update in packets: those still to be sent, those on their way, and those at the server.

    Args:
        user: the user's number in its cell.
        cut: the packets of the update.
        window: number of packets that may be sent beyond those acknowledged in order.

    Attributes:
        is_sending: whether the user still sends packets of it.
        is_unreachable: whether the user is disconnected for good.
        is_cancelled: whether the server expects the update no more.
        head: packet that is on the air or goes next, or `NO_PACKET`.
        head_attempts: attempts of the present sending of the head.
        sends: number of sendings of each packet.
        causes: cause of failure of the last sending of packets, where it is known.
        missing: number of packets that are neither at the server nor on their way.
        sent_s: start of the first attempt; NaN before.
        attempts: attempts of all packets.
        last_loss: ending of the packet that was lost last; ``None`` without one.
        is_handed_over: whether the server has received the update.
    """

    def __init__(self, queue: SegmentQueue, user: int, base: int, cut: Segmentation, window: int | None = None) -> None:
        self.queue = queue
        self.user = user
        self.base = base
        self.packet_bits = cut.packet_bits
        self._count = cut.count

        # still to be sent: new packets up to the end of the window, and packets to be repeated
        self._window = window or cut.count
        self._next_new = 0
        self._repeats = deque[int]()
        self.head = NO_PACKET
        self.head_attempts = 0

        # on their way and at the server: of each packet, the copies that are not lost and the sendings so far
        self._copies = [0] * cut.count
        self.sends = [0] * cut.count
        self.missing = cut.count
        self.causes: dict[int, str] = {}
        self._at_server = set[int]()
        self._acknowledged = set[int]()
        self._acknowledged_in_order = 0  # number of packets before the first that is not acknowledged
        self._erased = set[int]()  # lost for good, in an update that does not end by it
        self.last_loss: Ending | None = None
        self._newest: tuple[Segment, UpdateReceiver] | None = None  # the packet that has arrived last
        self.is_handed_over = False

        # of the update
        self.is_sending = True
        self.is_unreachable = False
        self.is_cancelled = False
        self._is_superseded = False
        self._has_ended = False
        self.sent_s = math.nan
        self.attempts = 0

    @property
    def state(self) -> UpdateState:
        """State of the update; packets that are lost on their way take it back to ``IN_SEGMENTS``."""
        if self._has_ended:
            return UpdateState.ENDED
        if self._is_superseded:
            return UpdateState.SUPERSEDED
        if self.missing:
            return UpdateState.IN_SEGMENTS
        return UpdateState.ON_AIR

    @property
    def is_open(self) -> bool:
        """True while the update has no outcome."""
        return not self._has_ended

    def end(self) -> None:
        """Note that the update has its outcome."""
        self._has_ended = True

    def advance(self) -> bool:
        """Make the next packet the head if there is none; return whether there is a head."""
        if self.head == NO_PACKET and self.is_sending:
            window_end = min(self._count, self._acknowledged_in_order + self._window)
            if self._repeats:
                self.head = self._repeats.popleft()
            elif self._next_new < window_end:
                self.head = self._next_new
                self._next_new += 1
            self.head_attempts = 0
        return self.head != NO_PACKET

    def launch(self, now_s: float) -> int:
        """Put the head on the air and return its number; without a head, repeat the last new packet."""
        if self.head == NO_PACKET:
            self.head = max(self._next_new - 1, 0)
            self.head_attempts = 0
        part = self.head
        if self.head_attempts == 0:  # a new sending of the packet
            self.sends[part] += 1
            self.causes.pop(part, None)
        if self.attempts == 0:  # the first of the update
            self.sent_s = now_s
        self.head_attempts += 1
        self.attempts += 1
        if self._is_missing(part):
            self.missing -= 1
        self._copies[part] += 1
        return part

    def supersede(self) -> bool:
        """Stop sending, as a newer version has come; return whether this ends the update."""
        self.is_sending = False
        ends = STATE_RULES[self.state].ends_on_newer_version
        self._has_ended = self._has_ended or ends
        self._is_superseded = True
        return ends

    def lose(self, part: int) -> None:
        """Note that a packet on its way will not arrive."""
        self._copies[part] -= 1
        if self._is_missing(part):
            self.missing += 1

    def erase(self, part: int, ending: Ending) -> None:
        """Note that a packet is lost for good, after `lose`; the user sends the others."""
        if part in self._at_server or part in self._erased:
            return
        self._erased.add(part)
        self.missing -= 1
        self.last_loss = ending
        self.acknowledge(part)

    @property
    def arrived(self) -> list[bool] | None:
        """True for each packet that has arrived; ``None`` while some are neither at the server nor lost for good."""
        if len(self._at_server) + len(self._erased) < self._count:
            return None
        return [part in self._at_server for part in range(self._count)]

    def hand_over(self, parts: tuple[bool, ...]) -> None:
        """Let the server receive the update with these *parts*, represented by the packet that arrived last."""
        assert self._newest is not None, "a part has arrived"
        segment, server = self._newest
        self.is_handed_over = True
        segment.sent_s = self.sent_s
        segment.attempts = self.attempts
        if not all(parts):
            segment.received = parts
        server.receive(segment)

    def repeat(self, part: int) -> None:
        """Queue a packet again."""
        if part != self.head and part not in self._repeats:
            self._repeats.append(part)

    def acknowledge(self, part: int) -> None:
        """Note that the user knows of a packet's arrival, so that it need not be sent again."""
        self._acknowledged.add(part)
        while self._acknowledged_in_order in self._acknowledged:
            self._acknowledged_in_order += 1
        if part in self._repeats:
            self._repeats.remove(part)

    def is_acknowledged(self, part: int) -> bool:
        """Return whether the user knows that the server has *part*."""
        return part in self._acknowledged

    def receive(self, segment: Segment, server: UpdateReceiver) -> None:
        """Add a packet at *server*, which receives the update if it is complete."""
        part = segment.part
        if part in self._at_server:
            return
        self._at_server.add(part)
        self._erased.discard(part)  # a copy comes after the user has given it up
        self.queue.send_acknowledgement(self, part)
        self._newest = segment, server
        if self.is_open and self.arrived is not None:
            self.queue.settle(self)

    def _is_missing(self, part: int) -> bool:
        """Return whether no copy of *part* is at the server or on its way, and the server could still need one."""
        return self._copies[part] == 0 and part not in self._at_server and part not in self._erased


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Update):
    """A packet of an update; the last to arrive represents the update.

    Args:
        part: its number, from 0.
    """

    part: int
    transfer: Transfer

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        self.transfer.queue.end_segment(self.transfer, self.part, ending, time_s)

    def arrive(self, server: UpdateReceiver) -> None:
        self.transfer.receive(self, server)
