"""The queue family: what an output port does with the messages that wait for its link.

A port asks its buffer three things.  `Buffer.push`: a message has come while the link is busy.  `Buffer.pop`: the link
is free, which message is next?  `Buffer.bypass`: a message has come, the link is free and nobody waits, may it go at
once?  Only a queue that also turns messages away then, or learns from them, answers the last one itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from netfl.network.message import Message
from netfl.registry import Spec
from netfl.streams import Streams


class Buffer(ABC):
    """The waiting room of one output port; the message being sent is not in it."""

    @abstractmethod
    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in; gives those that are turned away for it: none, itself, or others that must leave."""

    @abstractmethod
    def pop(self, time_s: float) -> Message | None:
        """The message to send next, or ``None`` when nobody waits: the link is idle from then on."""

    @abstractmethod
    def __len__(self) -> int:
        """How many wait."""

    def bypass(self, message: Message, time_s: float) -> bool:
        """Whether *message*, which finds the link free and nobody waiting, may go at once."""
        return True


class Queue(Spec):
    """The contract of a queue."""

    @property
    def ranks(self) -> bool:
        """Whether it looks at the messages' ``priority``: if no queue does, giving one is a fault."""
        return True

    @abstractmethod
    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """A fresh, empty waiting room for a link of *rate_bps*; *streams* are its own."""
