"""First in, first out; a full buffer drops the new message."""

from __future__ import annotations

from netfl.network.queue import Buffer, FifoBuffer, Messages, Queue, Room
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

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        return FifoBuffer(self.capacity, self.capacity_bytes)
