'''Queue family: buffer and scheduling of an output port.

`Queue.open` creates the `Buffer` of one port.  The port calls `Buffer.push` when a message arrives while the link is
busy, and `Buffer.pop` when the link becomes free.  A message that finds the link free and the buffer empty is sent at
once, unless `Buffer.bypass` refuses it.

To add a model, write a file in this package, or a class in your own package, that derives from `Queue`.  A complete
one::

    class LastIn(Queue):
        """Last in, first out; a full buffer drops the new message.

        Example::

            kind: mylab.last_in:LastIn
            capacity: 50
        """

        capacity: Annotated[int, Field(ge=0)] = 50
        """Maximum number of waiting messages."""

        def open(self, rate_bps, streams):
            return Stack(self.capacity)


    class Stack(Buffer):
        def __init__(self, capacity):
            self.capacity, self.waiting = capacity, []

        def push(self, message, time_s):
            if len(self.waiting) >= self.capacity:
                return [message]
            self.waiting.append(message)
            return []

        def pop(self, time_s):
            return self.waiting.pop() if self.waiting else None

        def __len__(self):
            return len(self.waiting)
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Annotated

from pydantic import Field

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.network.message import Message
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bytes

Messages = Annotated[int, Field(ge=0)]
"""A number of messages."""
Room = Annotated[Bytes, Field(ge=0)]
"""An amount of memory."""


class Buffer(Overridable, ABC):
    """Waiting messages of one output port, without the message that is being sent."""

    @abstractmethod
    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Add *message*, and return the messages that are dropped for it: none, itself, or others."""

    @abstractmethod
    def pop(self, time_s: float) -> Message | None:
        """Remove and return the next message to send; ``None`` if the buffer is empty and the link becomes idle."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of waiting messages."""

    def bypass(self, message: Message, time_s: float) -> bool:
        """Return whether *message* is sent at once, with a free link and an empty buffer; if not, it is dropped."""
        return True


class FifoBuffer(Buffer):
    """First in, first out, with limits in messages and bytes; ``None`` is no limit."""

    def __init__(self, capacity: int | None = None, capacity_bytes: float | None = None) -> None:
        self._capacity: float = inf
        if capacity is not None:
            self._capacity = capacity
        self._capacity_bits = inf
        if capacity_bytes is not None:
            self._capacity_bits = 8.0 * capacity_bytes
        self._bits = 0.0
        self.waiting: deque[Message] = deque()

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        if len(self.waiting) >= self._capacity or self._bits + message.bits > self._capacity_bits:
            return (message,)
        self._bits += message.bits
        self.waiting.append(message)
        return ()

    def pop(self, time_s: float) -> Message | None:
        if not self.waiting:
            return None
        message = self.waiting.popleft()
        if self.waiting:
            self._bits -= message.bits
        else:
            self._bits = 0.0  # no rounding error remains in an empty buffer
        return message

    def __len__(self) -> int:
        return len(self.waiting)


class Queue(Spec):
    """Base class of queues."""

    @property
    def has_priorities(self) -> bool:
        """``True`` if the queue uses the ``priority`` of messages; a priority that no queue uses is an error."""
        return False

    @abstractmethod
    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """Return an empty buffer for a link of *rate_bps*, with its own *streams*."""

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing; its delays and losses depend on the traffic"),)


__getattr__ = exported_models(__name__)
