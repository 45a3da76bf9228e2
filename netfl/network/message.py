"""A message: one update on its way from a user to the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Message:
    """One update that has got through its cell and crosses the routers; two are never equal.

    Args:
        user: who sent it; -1 for traffic beside the updates.
        base: the version that it was trained from.
        bits: its size.
        sent_s: when its first attempt began.
        attempts: how many attempts the air took.
        flow: what fair queues tell apart: the user's number, or that of the node where traffic enters.
        priority: 0 is served first where a queue knows priorities.
        entered_s: when it entered the port where it is now.
    """

    user: int
    base: int
    bits: float
    sent_s: float
    attempts: int
    flow: int = 0
    priority: int = 0
    entered_s: float = 0.0
