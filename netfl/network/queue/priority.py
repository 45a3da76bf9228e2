"""Strict priority: who is more urgent always goes first."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._buffer import FifoBuffer, Messages, Room
from netfl.streams import Streams
from netfl.types import Law


class Priority(Queue):
    """Strict priority by the messages' ``priority``, 0 first; first in, first out within a class.

    What is being sent is sent to its end.  Each class has a room of its own, so that one cannot crowd out another.
    With Poisson arrivals at rates λ_i and any services S, class k waits on average
    W_k = W_0 / ((1 - σ_{k-1}) (1 - σ_k)), where W_0 = Σ λ_i E[S_i²] / 2 and σ_k = Σ_{i ≤ k} λ_i E[S_i]
    (A. Cobham, Priority assignment in waiting line problems, Operations Research 2, 1954, eq. 3; σ_k < 1).

    Example::

        kind: priority
        capacity: 20
    """

    capacity: Messages | None = None
    """Messages of one class that may wait; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Bytes of one class that may wait; ``null`` is no limit."""

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """An empty waiting room."""
        return _Classes(self)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("draws nothing; its mean waits are Cobham's (see the tests of the port)"),)


class _Classes(Buffer):
    """A row for each class that was ever met."""

    def __init__(self, said: Priority) -> None:
        self._said = said
        self._rows: dict[int, FifoBuffer] = {}
        self._order: list[int] = []
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in at the end of its class, if there is room."""
        row = self._rows.get(message.priority)
        if row is None:
            row = self._rows[message.priority] = FifoBuffer(self._said.capacity, self._said.capacity_bytes)
            self._order = sorted(self._rows)
        if not row.push(message):
            return (message,)
        self._size += 1
        return ()

    def pop(self, time_s: float) -> Message | None:
        """The message that has waited longest in the first class where one waits."""
        for priority in self._order:
            row = self._rows[priority]
            if row.waiting:
                self._size -= 1
                return row.pop()
        return None

    def __len__(self) -> int:
        return self._size
