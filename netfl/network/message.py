"""Messages that cross the network: updates, packets of traffic and copies of a version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netfl.types import Ints

TRAFFIC = -1
"""The base of packets of traffic."""
VERSION = -2
"""The base of copies of a version."""


@dataclass(slots=True, eq=False)
class Message:
    """One update, or one packet of traffic, that crosses the network; two are never equal.

    Args:
        user: Node number of the sender.
        base: Version from which the update was trained; `TRAFFIC` for a packet.
        sent_s: Start of its first attempt.
        attempts: Number of attempts over the air.
        flow: Key of fair queues: the user's number, or that of the node where traffic enters.
        priority: 0 is served first where a queue has priorities.
        entered_s: Time at which it entered its present port.
        born_s: Time at which a packet of traffic arrived at its sender.
        counted: Whether a packet of traffic has been counted as offered.
        bypass_queue: Whether it waits in no port, and no port drops it.
        ignore_outages: Whether no outage ends it.
    """

    user: int
    base: int
    bits: float
    sent_s: float
    attempts: int
    flow: int = 0
    priority: int = 0
    entered_s: float = 0.0
    born_s: float = 0.0
    counted: bool = False
    bypass_queue: bool = False
    ignore_outages: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class BroadcastMessage(Message):
    """A copy of a version for users of one tower.

    Args:
        version: Number of the version.
        users: Users that have not received it, by their numbers at the tower.
        route: Nodes from the server to the tower, both included.
        on_arrival: Called when the copy is at the tower.
        on_loss: Called with the cause if the copy ends on the way.
        on_supersede: Called with users that a newer version takes out of the copy.
        is_at_tower: Whether it has reached its tower.
        sendings: Number of times that its tower has sent it, since the copy last set out.
        losses: Number of times that it was lost on the way.
        cause: Cause of its end, until it is sent again.
    """

    version: int
    users: Ints
    route: tuple[str, ...]
    on_arrival: Callable[[BroadcastMessage], None]
    on_loss: Callable[[BroadcastMessage, str], None]
    on_supersede: Callable[[BroadcastMessage, Ints], None]
    is_at_tower: bool = False
    sendings: int = 0
    losses: int = 0
    cause: str = ""

    def take_out(self, users: Ints) -> None:
        """Take *users*, for whom a newer version waits, out of the copy."""
        is_superseded = np.isin(self.users, users)
        if is_superseded.any():
            superseded, self.users = self.users[is_superseded], self.users[~is_superseded]
            self.on_supersede(self, superseded)
