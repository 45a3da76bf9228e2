"""Messages that cross the ports of the network: the contract, packets of traffic and copies of a version.

A message ends itself: whoever drops, loses or delivers it calls `Message.end`, and knows no kind of message.  Updates
are in `netfl.network.updates` and, in packets, `netfl.network.transport.transfer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from netfl.network.event_log import Ending, EventLog
from netfl.network.link_log import LinkUse
from netfl.types import Ints


@dataclass(slots=True, eq=False)
class Message(ABC):
    """A message that crosses ports; two are never equal.

    Args:
        user: node number of the sender.
        bits: size.
        flow: key of fair queues: the user's number, or that of the node where traffic enters.
        priority: 0 is served first where a queue has priorities.
        traffic: class of traffic of a packet; empty for other messages.
        entered_s: time at which it entered its present port.
    """

    user: int
    bits: float
    flow: int = 0
    priority: int = 0
    traffic: str = ""
    entered_s: float = 0.0

    def user_ids(self) -> Iterable[int]:
        """Return the node numbers of the users whom the message concerns; by default its sender."""
        return (self.user,)

    def note_link(self, use: LinkUse) -> None:  # noqa: B027
        """Note how the update, of which this message is a frame, came over the air; by default not kept."""

    def note_tower(self, tower: str) -> None:  # noqa: B027
        """Note that it goes on from another *tower* than that of its sender; by default not kept."""

    @abstractmethod
    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        """End the message, and let *log* record what it carries; called once."""


@dataclass(slots=True, eq=False)
class Packet(Message):
    """A packet of traffic.

    Args:
        born_s: time at which it arrived at its sender.
        sent_s: start of its first attempt over the air; NaN before, and for packets that enter at a port.
        attempts: number of attempts over the air.
        counted: whether it has been counted as offered.
    """

    born_s: float = 0.0
    sent_s: float = np.nan
    attempts: int = 0
    counted: bool = False

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        for counter in log.traffic.of[self.traffic]:
            if ending.outcome == "delivered":
                counter.deliver(self.user, self.bits, self.born_s, time_s)
            else:
                counter.lose(self.user, ending.outcome, ended_s=time_s)
        log.record_packet(self.traffic, ending, time_s, self.user, time_s - self.born_s)


@dataclass(slots=True, eq=False, kw_only=True)
class BroadcastCopy(Message):
    """A copy of a version for users of one tower.

    Args:
        version: number of the version.
        ids: node numbers of the users for whom it set out.
        users: users that have not received it, by their numbers at the tower.
        route: nodes from the server to the tower, both included.
        on_arrival: called when the copy is at the tower.
        on_loss: called with the cause if the copy ends on the way.
        on_supersede: called with users that a newer version takes out of the copy.
        is_at_tower: whether it has reached its tower.
        sendings: number of times that its tower has sent it, since the copy last set out.
        losses: number of times that it was lost on the way.
        cause: cause of its end, until it is sent again.
    """

    version: int
    ids: Ints
    users: Ints
    route: tuple[str, ...]
    on_arrival: Callable[[BroadcastCopy], None]
    on_loss: Callable[[BroadcastCopy, str], None]
    on_supersede: Callable[[BroadcastCopy, Ints], None]
    is_at_tower: bool = False
    sendings: int = 0
    losses: int = 0
    cause: str = ""

    def user_ids(self) -> Iterable[int]:
        return self.ids

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        self.on_loss(self, ending.outcome)

    def take_out(self, users: Ints) -> None:
        """Take *users*, for whom a newer version waits, out of the copy."""
        is_superseded = np.isin(self.users, users)
        if is_superseded.any():
            superseded = self.users[is_superseded]
            self.users = self.users[~is_superseded]
            self.on_supersede(self, superseded)
