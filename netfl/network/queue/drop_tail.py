"""First in, first out; who finds the room full is turned away."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._buffer import FifoBuffer, Messages, Room
from netfl.streams import Streams
from netfl.types import Law


class DropTail(Queue):
    """First in, first out, with room for so many messages, or bytes, beside the message that is being sent.

    With Poisson arrivals at rate λ and exponential service at rate μ it is the M/M/1/K queue, K = capacity + 1, that
    turns away the share (1-ρ) ρ^K / (1 - ρ^(K+1)) of what comes, ρ = λ/μ (Kleinrock, Queueing Systems I, 1975, §3.6).
    A message that does not fit into the bytes that are left is turned away, even if a smaller one would fit.

    Example::

        kind: drop_tail
        capacity: 50
        capacity_bytes: 2 MB
    """

    capacity: Messages | None = None
    """Messages that may wait; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Bytes that may wait, in all; ``null`` is no limit."""

    @property
    def ranks(self) -> bool:
        """It does not."""
        return False

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """An empty waiting room."""
        return _Fifo(FifoBuffer(self.capacity, self.capacity_bytes))

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("draws nothing; its delays and losses depend on the traffic (see the tests of the port)"),)


class _Fifo(Buffer):
    """The waiting room at work."""

    def __init__(self, row: FifoBuffer) -> None:
        self._row, self._waiting = row, row.waiting

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in at the end, if there is room."""
        return () if self._row.push(message) else (message,)

    def pop(self, time_s: float) -> Message | None:
        """The message that has waited longest."""
        return self._row.pop() if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)
