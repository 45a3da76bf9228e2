"""Strict priority queue."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.network.message import Message
from netfl.network.queue import Buffer, FifoBuffer, Messages, Queue, Room
from netfl.streams import Streams


class Priority(Queue):
    """Strict priority by the messages' ``priority``, 0 first; first in, first out within a class.

    A message that is being sent is not interrupted.  Each class has its own limits, so that classes do not crowd each
    other out.  With Poisson arrivals at rates λ_i and any services S, class k waits on average
    W_k = W_0 / ((1 - σ_{k-1}) (1 - σ_k)), where W_0 = Σ λ_i E[S_i²] / 2 and σ_k = Σ_{i ≤ k} λ_i E[S_i]
    (A. Cobham, Priority assignment in waiting line problems, Operations Research 2, 1954, eq. 3; σ_k < 1).

    Example::

        kind: priority
        capacity: 20
    """

    capacity: Messages | None = None
    """Maximum number of waiting messages of one class; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Maximum number of waiting bytes of one class; ``null`` is no limit."""

    @property
    def has_priorities(self) -> bool:
        return True

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        return _PriorityBuffer(self)


class _PriorityBuffer(Buffer):
    """A buffer for each class that has occurred, and the classes in the order in which they are served."""

    def __init__(self, model: Priority) -> None:
        self._model = model
        self._classes: dict[int, FifoBuffer] = {}
        self._order: list[int] = []
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        fifo = self._classes.get(message.priority)
        if fifo is None:
            fifo = FifoBuffer(self._model.capacity, self._model.capacity_bytes)
            self._classes[message.priority] = fifo
            self._order = sorted(self._classes)
        dropped = fifo.push(message, time_s)
        if not dropped:
            self._size += 1
        return dropped

    def pop(self, time_s: float) -> Message | None:
        for priority in self._order:
            message = self._classes[priority].pop(time_s)
            if message is not None:
                self._size -= 1
                return message
        return None

    def __len__(self) -> int:
        return self._size
