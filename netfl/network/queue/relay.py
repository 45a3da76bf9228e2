"""The router that is the random access model itself: it picks whose message is relayed next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._weights import Weights, weight_faults
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim

# A wheel of fortune: draws names with chances in proportion to their weights, which may change at any time.


class WeightedSampler:
    """Weights at the leaves of a binary tree of sums, so that a change or a draw costs the tree's depth.

    Sums are made anew from the weights below them, so that no rounding is ever left over.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._names: list[int] = []
        self._sums = [0.0, 0.0]

    def weigh(self, name: int, weight: float) -> None:
        """Give *name* a weight; 0 takes it off the wheel."""
        place = self._place.get(name)
        if place is None:
            place = self._place[name] = len(self._names)
            self._names.append(name)
            if place == len(self._sums) // 2:
                self._grow()
        at = place + len(self._sums) // 2
        self._sums[at] = weight
        while at > 1:
            at //= 2
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]

    def spin(self, chance: float) -> int:
        """The name on which *chance*, a number in [0, 1), falls; some weight must be above 0."""
        sums, at = self._sums, 1
        left = chance * sums[1]
        while at < len(sums) // 2:
            at *= 2
            if left >= sums[at] and sums[at + 1] > 0.0:
                left -= sums[at]
                at += 1
        return self._names[at - len(sums) // 2]

    def _grow(self) -> None:
        """Twice as many leaves."""
        leaves = self._sums[len(self._sums) // 2 :]
        self._sums = [0.0] * (2 * len(leaves)) + leaves + [0.0] * len(leaves)
        for at in range(2 * len(leaves) - 1, 0, -1):
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]


class Relay(Queue):
    """A relay that decides whose message goes next, whenever its link is free: a random access model made of a router.

    ``weighted_random``: flow (user) i with probability weight_i / Σ weights, over the flows of which something waits;
    with all of them backlogged its share of the messages is exactly that, independently from one to the next, as in the
    stationary random access model of FED-CVaR-AVG.  ``round_robin``: flows take turns, the one that was served last
    comes last.  ``priority``: the flow whose first message is the most urgent, in turn among equals.  Within a flow the
    oldest message goes first.  With ``holds: n`` only the n newest messages of a flow are kept: one more supersedes the
    oldest.  The link never idles while something waits, so a message that finds it free is relayed at once.

    Example::

        kind: relay
        policy: weighted_random
        weights: [5, 4, 1]
        holds: 1
    """

    policy: Literal["weighted_random", "round_robin", "priority"] = "weighted_random"
    """How the next message is picked."""
    weights: Weights | None = None
    """Weights of flows (users), a list from flow 0 on or a mapping; who is not named has 1, ``null`` is 1 for all."""
    holds: Annotated[int, Field(ge=1)] | None = None
    """Messages of one flow that are kept, the newest; ``null`` is no limit."""

    @model_validator(mode="after")
    def _own_keys(self) -> Relay:
        """Weights belong to one policy."""
        if self.weights and self.policy != "weighted_random":
            raise ValueError(f"weights have no effect on {self.policy}; leave them out, or take weighted_random")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Weights of users that there are not."""
        yield from weight_faults(self.weights, facts)

    @property
    def ranks(self) -> bool:
        """By one policy."""
        return self.policy == "priority"

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """An empty relay."""
        if self.policy == "round_robin":
            return _Turns(self.holds)
        if self.policy == "priority":
            return _Urgent(self.holds)
        return _Weighted(self.holds, self.weights or {}, streams.rng("relay"))

    def laws(self) -> tuple[Law, ...]:
        """The shares of backlogged flows."""
        if self.policy != "weighted_random":
            return (Law.none("draws nothing; flows take turns"),)
        flows, given = range(self._shown), self.weights or {}
        weights = np.array([given.get(flow, 1.0) for flow in flows])
        share = StatisticClaim(
            "share of the messages",
            "weight / Σ weights, with all flows backlogged",
            draw=self._picked,
            means=(weights / weights.sum()).tolist(),
            at=[f"flow {flow}" for flow in flows],
        )
        return (Law("flow that is relayed next", "each is independent of the last", figures=(share,)),)

    @property
    def _shown(self) -> int:
        """How many flows the law is shown on."""
        return max(self.weights or (), default=2) + 1

    def _picked(self, streams: Streams, size: int) -> NDArray[np.float64]:
        """Whether each flow was picked, while each has one message waiting, ``[size, flows]``."""
        buffer, rows = self.open(1.0, streams), np.zeros((size, self._shown))
        for flow in range(self._shown):
            buffer.push(Message(flow, 0, 1.0, 0.0, 1, flow=flow), 0.0)
        for row in rows:
            message = buffer.pop(0.0)
            assert message is not None
            row[message.flow] = 1.0
            buffer.push(message, 0.0)
        return rows


class _Flows(Buffer, ABC):
    """What waits of each flow; a policy says which flow is next."""

    def __init__(self, holds: int | None) -> None:
        self._holds = holds
        self._flows: OrderedDict[int, deque[Message]] = OrderedDict()
        self._size = 0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in; the oldest of its flow leaves if there are too many."""
        flow = self._flows.get(message.flow)
        if flow is None:
            flow = self._flows[message.flow] = deque()
            self._joined(message.flow)
        flow.append(message)
        if self._holds is not None and len(flow) > self._holds:
            return (flow.popleft(),)
        self._size += 1
        return ()

    def pop(self, time_s: float) -> Message | None:
        """The oldest message of the flow that is next, which then comes last."""
        if not self._size:
            return None
        name = self._next()
        flow = self._flows[name]
        message = flow.popleft()
        self._size -= 1
        if flow:
            self._flows.move_to_end(name)
        else:
            del self._flows[name]
            self._left(name)
        return message

    def __len__(self) -> int:
        return self._size

    @abstractmethod
    def _next(self) -> int:
        """The flow that is next; at least one waits."""

    def _joined(self, flow: int) -> None:
        """Take note that *flow* begins to wait."""

    def _left(self, flow: int) -> None:
        """Take note that nothing of *flow* waits any more."""


class _Turns(_Flows):
    """The flow that has waited for its turn longest."""

    def _next(self) -> int:
        return next(iter(self._flows))


class _Urgent(_Flows):
    """The flow with the most urgent message; the first in turn among equals."""

    def _next(self) -> int:
        return min(self._flows, key=lambda flow: self._flows[flow][0].priority)


class _Weighted(_Flows):
    """A flow drawn by weight."""

    def __init__(self, holds: int | None, weights: dict[int, float], rng: np.random.Generator) -> None:
        _Flows.__init__(self, holds)
        self._weights, self._rng, self._wheel = weights, rng, WeightedSampler()

    def _next(self) -> int:
        return self._wheel.spin(self._rng.random())

    def _joined(self, flow: int) -> None:
        self._wheel.weigh(flow, self._weights.get(flow, 1.0))

    def _left(self, flow: int) -> None:
        self._wheel.weigh(flow, 0.0)
