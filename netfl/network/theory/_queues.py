"""Conditions of theories of queues: Poisson packets of one sender over a line of links."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from netfl.network.queue.drop_tail import DropTail
from netfl.network.theory import Condition, TheoryCase
from netfl.network.theory._links import NO_OUTAGES
from netfl.network.traffic.poisson import Poisson


@dataclass(frozen=True)
class TandemLine:
    """A line of links, with the packets that cross them.

    Args:
        rate_hz: λ, packets per second.
        service_s: mean time of a packet on each link, in order.
        room: maximum number of packets at each port, with the one being sent; ``None`` is no limit.
        delay_s: sum of the propagation delays.
    """

    rate_hz: float
    service_s: tuple[float, ...]
    room: int | None
    delay_s: float

    @property
    def load(self) -> float:
        """Load ρ of the busiest link."""
        return self.rate_hz * max(self.service_s)


def build_line(case: TheoryCase) -> TandemLine:
    """Return the line of a *case* without misfits."""
    (traffic,) = case.network.traffic
    edges = case.layout.graph.edges
    links = [edges[link] for link in pairwise(case.layout.route(*_senders(case)))]
    rate_hz = traffic.rate_hz(links[0]["rate_bps"])
    assert rate_hz is not None
    assert isinstance(case.network.queue, DropTail)
    room = case.network.queue.capacity
    return TandemLine(
        rate_hz,
        tuple(traffic.size.mean / link["rate_bps"] for link in links),
        None if room is None else room + 1,
        sum(link["delay_s"] for link in links),
    )


def has_limits(case: TheoryCase, *, messages: bool) -> bool:
    """Return whether ports have drop_tail queues that are limited in *messages*, or else unlimited; never in bytes."""
    queue = case.network.queue
    return isinstance(queue, DropTail) and (queue.capacity is not None) == messages and queue.capacity_bytes is None


def size_distribution(case: TheoryCase) -> str:
    """Return the distribution of the sizes of the packets."""
    return case.network.traffic[0].size.distribution


def _has_poisson_packets(case: TheoryCase) -> bool:
    traffic = case.network.traffic
    return len(traffic) == 1 and isinstance(traffic[0], Poisson) and traffic[0].source != "users"


def _senders(case: TheoryCase) -> tuple[str, ...]:
    return case.layout.with_role(case.network.traffic[0].source.removesuffix("s"))


POISSON = Condition(
    "traffic", "one kind of traffic, Poisson packets that enter at a tower or a router", _has_poisson_packets
)
EXPONENTIAL_SIZES = Condition(
    "traffic",
    "packets of exponential size",
    lambda case: size_distribution(case) == "exponential",
    size_distribution,
    given=(POISSON,),
)
FIXED_SIZES = Condition(
    "traffic",
    "packets of fixed size",
    lambda case: size_distribution(case) == "fixed",
    size_distribution,
    given=(POISSON,),
)
_ONE_PATH = Condition(
    "topology",
    "one sender, and one path from it to the server",
    lambda case: len(_senders(case)) == 1 and nx.is_tree(case.layout.graph),
    given=(POISSON,),
)
ONE_LINK = Condition(
    "topology", "a path of 1 link", lambda case: len(case.layout.route(*_senders(case))) == 2, given=(_ONE_PATH,)
)
LINE = (
    POISSON,
    _ONE_PATH,
    Condition("queues", "the same buffer at every port", lambda case: not case.network.queues),
    NO_OUTAGES,
)
"""Poisson packets of one sender over a line of equal ports."""

UNLIMITED = Condition("queue", "drop_tail without limits", lambda case: has_limits(case, messages=False))
_MAX_CAPACITY = 1_000_000
"""Largest capacity for which a theory adds up the probabilities of all states."""


def _is_limited(case: TheoryCase) -> bool:
    if not has_limits(case, messages=True):
        return False
    return (build_line(case).room or 0) <= _MAX_CAPACITY


LIMITED = Condition("queue", f"drop_tail with a capacity in messages, at most {_MAX_CAPACITY:,}", _is_limited)
STABLE = Condition(
    "traffic",
    "a load below 1",
    lambda case: build_line(case).load < 1.0,
    lambda case: build_line(case).load,
    given=(_ONE_PATH, UNLIMITED),
)
