"""Deficit round robin: flows take turns, and each turn is worth the same number of bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._buffer import FifoBuffer, Messages, Room
from netfl.network.queue._weights import Weights, weight_faults
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Bits


class Drr(Queue):
    """Deficit round robin over flows (M. Shreedhar and G. Varghese, IEEE/ACM Trans. Networking 4(3), 1996).

    Flows with waiting messages take turns.  At its turn flow i adds quantum · weight_i to its deficit and sends while
    its first message is no larger than the deficit, which falls by what is sent.  What is left is kept for the next
    turn, or forgotten when nothing of the flow waits any more.  Flows that always have something waiting get bits in
    proportion to their weights: over any interval their bits, each divided by its weight relative to the least, differ
    by no more than quantum · least weight + 2 · the largest message (ibid., theorem 2).

    Example::

        kind: drr
        quantum: 1500 B
        weights: [2, 1]
        capacity: 20
    """

    quantum: Annotated[Bits, Field(gt=0)] = 12_000.0
    """What a turn is worth, for a weight of 1; messages may be larger."""
    weights: Weights | None = None
    """Weights of flows (users), a list from flow 0 on or a mapping; who is not named has 1, ``null`` is 1 for all."""
    capacity: Messages | None = None
    """Messages of one flow that may wait; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Bytes of one flow that may wait; ``null`` is no limit."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Weights of users that there are not."""
        yield from weight_faults(self.weights, facts)

    @property
    def ranks(self) -> bool:
        """It does not."""
        return False

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """An empty waiting room."""
        return _Turns(self)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("draws nothing; the bits of backlogged flows keep to the bound of theorem 2 (see its tests)"),)


class _Flow(FifoBuffer):
    """What waits of one flow."""

    __slots__ = ("deficit", "quantum")

    def __init__(self, quantum: float, said: Drr) -> None:
        FifoBuffer.__init__(self, said.capacity, said.capacity_bytes)
        self.quantum, self.deficit = quantum, 0.0

    @property
    def needs(self) -> float:
        """Bits that the deficit lacks for the first message."""
        return self.waiting[0].bits - self.deficit


class _Turns(Buffer):
    """The flows with waiting messages, in the order of their turns; the first is at its turn."""

    def __init__(self, said: Drr) -> None:
        self._said, self._weights = said, said.weights or {}
        self._flows: dict[int, _Flow] = {}
        self._turns: deque[int] = deque()
        self._begun = False
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in at the end of its flow, if there is room; a flow that is new has its turn last."""
        name = message.flow
        flow = self._flows.get(name)
        if flow is None:
            flow = _Flow(self._said.quantum * self._weights.get(name, 1.0), self._said)
        if not flow.push(message):
            return (message,)
        if name not in self._flows:
            self._flows[name] = flow
            self._turns.append(name)
        self._size += 1
        return ()

    def pop(self, time_s: float) -> Message | None:
        """The first message of the first flow whose deficit is enough."""
        if not self._size:
            return None
        flow = self._next()
        message = flow.pop()
        flow.deficit -= message.bits
        self._size -= 1
        if not flow.waiting:
            del self._flows[self._turns.popleft()]
            self._begun = False
        return message

    def __len__(self) -> int:
        return self._size

    def _next(self) -> _Flow:
        """Go through the turns to the first flow that may send."""
        passed = 0
        while True:
            flow = self._flows[self._turns[0]]
            if not self._begun:
                flow.deficit += flow.quantum
                self._begun = True
            if flow.needs <= 0.0:
                return flow
            self._turns.rotate(-1)
            self._begun = False
            passed += 1
            if passed == len(self._turns):
                self._skip()

    def _skip(self) -> None:
        """Give everybody the turns in which still nobody could send."""
        flows = self._flows.values()
        turns = min(ceil(flow.needs / flow.quantum) for flow in flows) - 1
        for flow in flows:
            flow.deficit += turns * flow.quantum
