"""First in, first out; who finds the room full is turned away."""

from __future__ import annotations

from collections import deque
from typing import Annotated

from pydantic import Field

from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.types import Law


class DropTail(Queue):
    """First in, first out, with room for so many messages beside the one that is being sent.

    With Poisson arrivals at rate λ and exponential service at rate μ it is the M/M/1/K queue, K = capacity + 1, that
    turns away the share (1-ρ) ρ^K / (1 - ρ^(K+1)) of what comes, ρ = λ/μ (Kleinrock, Queueing Systems I, 1975, §3.6).

    Example::

        kind: drop_tail
        capacity: 50
    """

    capacity: Annotated[int, Field(ge=0)] | None = None
    """Messages that may wait; ``null`` is no limit."""

    def open(self) -> Buffer:
        """An empty waiting room."""
        return _Fifo(self.capacity)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("draws nothing; its delays and losses depend on the traffic (see the tests of the port)"),)


class _Fifo(Buffer):
    """The waiting room at work."""

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self._waiting: deque[Message] = deque()

    def push(self, message: Message, time_s: float) -> bool:
        """Take *message* in at the end, if there is room."""
        if self._capacity is not None and len(self._waiting) >= self._capacity:
            return False
        self._waiting.append(message)
        return True

    def pop(self, time_s: float) -> Message | None:
        """The message that has waited longest."""
        return self._waiting.popleft() if self._waiting else None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)
