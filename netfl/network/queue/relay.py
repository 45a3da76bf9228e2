"""Relay that picks the next flow at random, in turn or by priority: a random access model as a router."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field

from netfl.core.rates import Weights, weight_faults
from netfl.core.spec import OnlyWith
from netfl.errors import Fault
from netfl.network.message import Message, Packet
from netfl.network.queue import Buffer, Queue
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts, StatisticClaim


class Relay(Queue):
    """A relay that picks the next flow whenever its link is free: a random access model as a router.

    ``weighted_random``: flow (user) i with probability weight_i / Σ weights, over the flows with waiting messages.  If
    all flows are backlogged that is its share of the messages, and draws are independent, as in the stationary random
    access model of FED-CVaR-AVG.  ``round_robin``: flows take turns; the flow served last comes last.  ``priority``:
    the flow whose first message is the most urgent, in turn among equals.  Within a flow the oldest message is first.
    With ``flow_capacity: n`` only the n newest messages of a flow are kept: a new one supersedes the oldest.  The link
    never idles while messages wait, so a message that finds it free is relayed at once.

    Example::

        kind: relay
        policy: weighted_random
        weights: [5, 4, 1]
        flow_capacity: 1
    """

    policy: Literal["weighted_random", "round_robin", "priority"] = "weighted_random"
    """Rule by which the next flow is picked."""
    weights: Annotated[Weights | None, OnlyWith("policy", "weighted_random")] = None
    """Weights of flows (users), as a list from flow 0 or a mapping; other flows have 1, ``null`` is 1 for all."""
    flow_capacity: Annotated[int, Field(ge=1)] | None = None
    """Number of newest messages of one flow that are kept; ``null`` is no limit."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from weight_faults(self.weights, facts)

    @property
    def has_priorities(self) -> bool:
        return self.policy == "priority"

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        if self.policy == "round_robin":
            return _RoundRobinRelay(self.flow_capacity)
        if self.policy == "priority":
            return _PriorityRelay(self.flow_capacity)
        return _WeightedRelay(self.flow_capacity, self.weights or {}, streams.rng("relay"))

    def laws(self) -> tuple[Law, ...]:
        if self.policy != "weighted_random":
            return (Law.none("draws nothing; flows take turns"),)
        by_flow = self.weights or {}
        flows = range(max(by_flow, default=2) + 1)
        weights = np.array([by_flow.get(flow, 1.0) for flow in flows])

        def draw_picks(streams: Streams, size: int) -> Floats:
            """Return 1 for the picked flow while each flow has one waiting message, else 0, ``[size, flows]``."""
            buffer = self.open(1.0, streams)
            rows = np.zeros((size, len(flows)))
            for flow in flows:
                buffer.push(Packet(flow, 1.0, flow), 0.0)
            for row in rows:
                message = cast(Message, buffer.pop(0.0))
                row[message.flow] = 1.0
                buffer.push(message, 0.0)
            return rows

        share = StatisticClaim(
            "share of the messages",
            "weight / Σ weights, with all flows backlogged",
            draw=draw_picks,
            means=(weights / weights.sum()).tolist(),
            at=[f"flow {flow}" for flow in flows],
        )
        return (Law("flow that is relayed next", "each is independent of the last", statistics=(share,)),)


class _RelayBuffer(Buffer, ABC):
    """Waiting messages of each flow, in the order in which the flows were served."""

    def __init__(self, holds: int | None) -> None:
        self._holds = holds
        self._flows: OrderedDict[int, deque[Message]] = OrderedDict()
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        flow = self._flows.get(message.flow)
        if flow is None:
            flow = deque()
            self._flows[message.flow] = flow
            self._add_flow(message.flow)
        flow.append(message)
        if self._holds is not None and len(flow) > self._holds:  # it supersedes the oldest
            return (flow.popleft(),)
        self._size += 1
        return ()

    def pop(self, time_s: float) -> Message | None:
        if not self._size:
            return None
        number = self._next_flow()
        flow = self._flows[number]
        message = flow.popleft()
        self._size -= 1
        if flow:
            self._flows.move_to_end(number)  # the flow served last comes last
        else:
            del self._flows[number]
            self._remove_flow(number)
        return message

    def __len__(self) -> int:
        return self._size

    @abstractmethod
    def _next_flow(self) -> int:
        """Return the flow to serve next; at least one has waiting messages."""

    def _add_flow(self, flow: int) -> None:
        """Handle the first waiting message of *flow*."""

    def _remove_flow(self, flow: int) -> None:
        """Handle the end of the waiting messages of *flow*."""


class _RoundRobinRelay(_RelayBuffer):
    def _next_flow(self) -> int:
        return next(iter(self._flows))


class _PriorityRelay(_RelayBuffer):
    def _next_flow(self) -> int:
        return min(self._flows, key=lambda flow: self._flows[flow][0].priority)


class _WeightedRelay(_RelayBuffer):
    def __init__(self, holds: int | None, weights: dict[int, float], rng: np.random.Generator) -> None:
        _RelayBuffer.__init__(self, holds)
        self._weights = weights
        self._rng = rng
        self._sampler = WeightedSampler()

    def _next_flow(self) -> int:
        return self._sampler.draw(self._rng.random())

    def _add_flow(self, flow: int) -> None:
        self._sampler.set_weight(flow, self._weights.get(flow, 1.0))

    def _remove_flow(self, flow: int) -> None:
        self._sampler.set_weight(flow, 0.0)


class WeightedSampler:
    """Random draws of numbers in proportion to weights that may change at any time.

    The weights are the leaves of a binary tree of sums, so that a change or a draw takes as many steps as the tree is
    deep.  Sums are recomputed from the weights below them, so that no rounding error accumulates.  Node 1 is the root,
    and the nodes below node k are 2k and 2k + 1; the second half of all nodes are the leaves.
    """

    def __init__(self) -> None:
        self._leaf: dict[int, int] = {}  # of each number
        self._numbers: list[int] = []  # of each leaf
        self._sums = [0.0, 0.0]

    def set_weight(self, number: int, weight: float) -> None:
        """Give *number* a weight; 0 removes it."""
        leaf = self._leaf.get(number)
        if leaf is None:
            leaf = len(self._numbers)
            self._leaf[number] = leaf
            self._numbers.append(number)
            if leaf == len(self._sums) // 2:
                self._double_leaves()
        node = leaf + len(self._sums) // 2
        self._sums[node] = weight
        while node > 1:
            node //= 2
            self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]

    def draw(self, uniform: float) -> int:
        """Return the number that belongs to *uniform*, in [0, 1); some weight must be above 0."""
        sums = self._sums
        node = 1
        left = uniform * sums[1]
        while node < len(sums) // 2:
            node *= 2
            if left >= sums[node] and sums[node + 1] > 0.0:  # by rounding, left may be the sum of all weights
                left -= sums[node]
                node += 1
        return self._numbers[node - len(sums) // 2]

    def _double_leaves(self) -> None:
        """Add as many leaves of weight 0 as there are, and recompute all sums."""
        leaves = self._sums[len(self._sums) // 2 :]
        self._sums = [0.0] * (2 * len(leaves)) + leaves + [0.0] * len(leaves)
        for node in range(2 * len(leaves) - 1, 0, -1):
            self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]
