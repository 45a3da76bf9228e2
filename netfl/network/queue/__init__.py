"""The queue family: what a router's output port does with the messages that wait for its link."""

from __future__ import annotations

from abc import ABC, abstractmethod

from netfl.network.message import Message
from netfl.registry import Spec


class Buffer(ABC):
    """The waiting room of one output port; the message being sent is not in it."""

    @abstractmethod
    def push(self, message: Message, time_s: float) -> bool:
        """Take *message* in, or turn it away with ``False``."""

    @abstractmethod
    def pop(self, time_s: float) -> Message | None:
        """The message to send next, or ``None`` when nobody waits."""

    @abstractmethod
    def __len__(self) -> int:
        """How many wait."""


class Queue(Spec):
    """The contract of a queue."""

    @abstractmethod
    def open(self) -> Buffer:
        """A fresh, empty waiting room."""
