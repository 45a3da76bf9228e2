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

        @property
        def has_priorities(self):
            return False

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
from collections.abc import Sequence

from netfl.network.message import Message
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law


class Buffer(ABC):
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


class Queue(Spec):
    """Base class of queues."""

    @property
    def has_priorities(self) -> bool:
        """``True`` if the queue uses the ``priority`` of messages; a priority that no queue uses is an error."""
        return True

    @abstractmethod
    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """Return an empty buffer for a link of *rate_bps*, with its own *streams*."""

    def laws(self) -> tuple[Law, ...]:
        """Claim that nothing is drawn."""
        return (Law.none("draws nothing; its delays and losses depend on the traffic"),)
