"""First-in, first-out buffer with limits in messages and bytes."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Annotated

from pydantic import Field

from netfl.network.message import Message
from netfl.units import Bytes

Messages = Annotated[int, Field(ge=0)]
"""A number of messages."""
Room = Annotated[Bytes, Field(ge=0)]
"""An amount of memory."""


class FifoBuffer:
    """First in, first out.

    Args:
        capacity: maximum number of waiting messages; ``None`` is no limit.
        capacity_bytes: maximum number of waiting bytes; ``None`` is no limit.
    """

    __slots__ = ("_bits", "_capacity", "_capacity_bits", "waiting")

    def __init__(self, capacity: int | None = None, capacity_bytes: float | None = None) -> None:
        self._capacity = inf if capacity is None else capacity
        self._capacity_bits = inf if capacity_bytes is None else 8.0 * capacity_bytes
        self._bits = 0.0
        self.waiting: deque[Message] = deque()

    def push(self, message: Message) -> bool:
        """Append *message* if there is room, and return whether there was."""
        if len(self.waiting) >= self._capacity or self._bits + message.bits > self._capacity_bits:
            return False
        self._bits += message.bits
        self.waiting.append(message)
        return True

    def pop(self) -> Message:
        """Remove and return the oldest message."""
        message = self.waiting.popleft()
        self._bits = self._bits - message.bits if self.waiting else 0.0  # no rounding error remains in an empty buffer
        return message

    def __len__(self) -> int:
        return len(self.waiting)
