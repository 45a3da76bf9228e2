"""A message: one update on its way from a user to the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TRAFFIC = -1
"""The base of packets that are no updates."""


@dataclass(slots=True, eq=False)
class Message:
    """One update, or one packet of traffic, that crosses the network; two are never equal.

    Args:
        user: the node number of who sent it.
        base: the version that it was trained from; `TRAFFIC` for what is no update.
        bits: its size.
        sent_s: when its first attempt began.
        attempts: how many attempts the air took.
        flow: what fair queues tell apart: the user's number, or that of the node where traffic enters.
        priority: 0 is served first where a queue knows priorities.
        entered_s: when it entered the port where it is now.
        born_s: when a packet of traffic came to its sender.
        counted: whether a packet of traffic has been counted as offered.
        express: whether it waits in no port, and is turned away by none.
        immune: whether no outage ends it.
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
    express: bool = False
    immune: bool = False


# A parcel: one copy of a version on its way from the server to a tower.


VERSION = -2
"""The base of what is a version and no update."""


@dataclass(slots=True, eq=False, kw_only=True)
class BroadcastMessage(Message):
    """A copy of a version.

    Args:
        version: which.
        way: the nodes from the server to the tower, both included.
        arrived: called when it is there.
        lost: called if it ends on the way.
    """

    version: int
    way: tuple[str, ...]
    arrived: Callable[[], None]
    lost: Callable[[], None]
