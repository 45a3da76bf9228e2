"""First in, first out; a full buffer drops the new message."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._buffer import FifoBuffer, Messages, Room
from netfl.streams import Streams


class DropTail(Queue):
    """First in, first out, with limits in messages and bytes that exclude the message being sent.

    With Poisson arrivals at rate λ and exponential service at rate μ it is the M/M/1/K queue, K = capacity + 1, which
    drops the share (1-ρ) ρ^K / (1 - ρ^(K+1)) of the messages, ρ = λ/μ (Kleinrock, Queueing Systems I, 1975, §3.6).
    A message that does not fit into the remaining bytes is dropped, even if a smaller one would fit.

    Example::

        kind: drop_tail
        capacity: 50
        capacity_bytes: 2 MB
    """

    capacity: Messages | None = None
    """Maximum number of waiting messages; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Maximum number of waiting bytes; ``null`` is no limit."""

    @property
    def has_priorities(self) -> bool:
        """``False``."""
        return False

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """Return an empty buffer."""
        return _DropTailBuffer(FifoBuffer(self.capacity, self.capacity_bytes))


class _DropTailBuffer(Buffer):
    def __init__(self, fifo: FifoBuffer) -> None:
        self._fifo, self._waiting = fifo, fifo.waiting

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        return () if self._fifo.push(message) else (message,)

    def pop(self, time_s: float) -> Message | None:
        return self._fifo.pop() if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)
