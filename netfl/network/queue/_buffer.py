"""A row of waiting messages with room for so many, or for so many bits."""

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
        capacity: messages that may wait; ``None`` is no limit.
        capacity_bytes: bytes that may wait; ``None`` is no limit.
    """

    __slots__ = ("_bits", "_most", "_most_bits", "waiting")

    def __init__(self, capacity: int | None = None, capacity_bytes: float | None = None) -> None:
        self._most = inf if capacity is None else capacity
        self._most_bits = inf if capacity_bytes is None else 8.0 * capacity_bytes
        self._bits = 0.0
        self.waiting: deque[Message] = deque()

    def push(self, message: Message) -> bool:
        """Take *message* in at the end, if there is room."""
        if len(self.waiting) >= self._most or self._bits + message.bits > self._most_bits:
            return False
        self._bits += message.bits
        self.waiting.append(message)
        return True

    def pop(self) -> Message:
        """The message that has waited longest."""
        message = self.waiting.popleft()
        self._bits = self._bits - message.bits if self.waiting else 0.0  # so that no rounding is left in an empty room
        return message

    def __len__(self) -> int:
        return len(self.waiting)
