"""Deficit round robin over flows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Annotated

from pydantic import Field

from netfl.core.rates import Weights, weight_faults
from netfl.errors import Fault
from netfl.network.message import Message
from netfl.network.queue import Buffer, FifoBuffer, Messages, Queue, Room
from netfl.streams import Streams
from netfl.types import ScenarioFacts
from netfl.units import PacketSize


class Drr(Queue):
    """Deficit round robin over flows (M. Shreedhar and G. Varghese, IEEE/ACM Trans. Networking 4(3), 1996).

    Flows with waiting messages take turns.  At its turn flow i adds quantum · weight_i to its deficit and sends while
    its first message is no larger than the deficit, which is reduced by each sent message.  The rest of the deficit
    stays for the next turn, or is reset when the flow has no waiting message.  Flows that always have waiting messages
    get bits in proportion to their weights: over any interval their bits, each divided by its weight relative to the
    least, differ by at most quantum · least weight + 2 · the largest message (ibid., theorem 2).

    Example::

        kind: drr
        quantum: 1500 B
        weights: [2, 1]
        capacity: 20
    """

    quantum: Annotated[PacketSize, Field(gt=0)] = 12_000.0
    """Bits of a turn, for a weight of 1; messages may be larger."""
    weights: Weights | None = None
    """Weights of flows (users), as a list from flow 0 or a mapping; other flows have 1, ``null`` is 1 for all."""
    capacity: Messages | None = None
    """Maximum number of waiting messages of one flow; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Maximum number of waiting bytes of one flow; ``null`` is no limit."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from weight_faults(self.weights, facts)

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        return _DrrBuffer(self)


class _Flow(FifoBuffer):
    """Waiting messages of one flow, the bits that it gets at each turn, and those that it may send at this one."""

    def __init__(self, quantum: float, model: Drr) -> None:
        FifoBuffer.__init__(self, model.capacity, model.capacity_bytes)
        self.quantum = quantum
        self.deficit = 0.0

    @property
    def missing_bits(self) -> float:
        """Bits that the deficit lacks for the first message."""
        return self.waiting[0].bits - self.deficit


class _DrrBuffer(Buffer):
    """Flows with waiting messages, in the order of their turns; the first flow has the turn."""

    def __init__(self, model: Drr) -> None:
        self._model = model
        self._weights = model.weights or {}
        self._flows: dict[int, _Flow] = {}
        self._turns: deque[int] = deque()
        self._has_begun = False  # whether the first flow has its quantum of this turn
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        number = message.flow
        flow = self._flows.get(number)
        if flow is None:
            flow = _Flow(self._model.quantum * self._weights.get(number, 1.0), self._model)
        dropped = flow.push(message, time_s)
        if dropped:
            return dropped
        if number not in self._flows:  # the last to have a turn
            self._flows[number] = flow
            self._turns.append(number)
        self._size += 1
        return ()

    def pop(self, time_s: float) -> Message | None:
        if not self._size:
            return None
        flow = self._next_flow()
        message = flow.waiting[0]
        flow.pop(time_s)
        flow.deficit -= message.bits
        self._size -= 1
        if not flow.waiting:  # its deficit is lost
            del self._flows[self._turns.popleft()]
            self._has_begun = False
        return message

    def __len__(self) -> int:
        return self._size

    def _next_flow(self) -> _Flow:
        """Advance the turns to the first flow whose deficit suffices."""
        passed = 0
        while True:
            flow = self._flows[self._turns[0]]
            if not self._has_begun:
                flow.deficit += flow.quantum
                self._has_begun = True
            if flow.missing_bits <= 0.0:
                return flow
            self._turns.rotate(-1)
            self._has_begun = False
            passed += 1
            if passed == len(self._turns):  # a whole round without a message
                self._skip_rounds()

    def _skip_rounds(self) -> None:
        """Give all flows the quanta of the rounds in which no flow can send yet."""
        flows = self._flows.values()
        rounds = min(ceil(flow.missing_bits / flow.quantum) for flow in flows) - 1
        for flow in flows:
            flow.deficit += rounds * flow.quantum
