"""Assumptions of theories of queues: Poisson packets of one sender over a line of links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from netfl.errors import Fault
from netfl.network.queue.drop_tail import DropTail
from netfl.network.theory import TheoryCase, misfit_fault
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
    (traffic,), edges = case.network.traffic, case.layout.graph.edges
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


def line_misfits(case: TheoryCase, sizes: str | None, *, hops: int | None = 1, finite: bool = False) -> Iterator[Fault]:
    """Yield misfits of a scenario other than a line of *hops* links with Poisson packets of *sizes*.

    Args:
        case: the scenario.
        sizes: distribution of the sizes; ``None`` for any.
        hops: number of links; ``None`` for any number.
        finite: ``True`` for ports with limited room; ``False`` for no limit and a load below 1.
    """
    network = case.network
    if len(network.traffic) != 1 or not isinstance(network.traffic[0], Poisson) or network.traffic[0].source == "users":
        yield misfit_fault("traffic", "one kind of traffic, Poisson packets that enter at a tower or a router")
    elif sizes is not None and network.traffic[0].size.distribution != sizes:
        yield misfit_fault("traffic", f"packets of {sizes} size", network.traffic[0].size.distribution)
    elif len(_senders(case)) != 1 or not nx.is_tree(case.layout.graph):
        yield misfit_fault("topology", "one sender, and one path from it to the server")
    elif hops is not None and len(case.layout.route(*_senders(case))) != hops + 1:
        yield misfit_fault("topology", f"a path of {hops} link{'s' * (hops > 1)}")
    elif not finite and network.queue == DropTail() and build_line(case).load >= 1.0:
        yield misfit_fault("traffic", "a load below 1", build_line(case).load)
    if network.queues:
        yield misfit_fault("queues", "the same buffer at every port")
    queue = network.queue
    limits = (queue.capacity is not None, queue.capacity_bytes is not None) if isinstance(queue, DropTail) else None
    if limits != (finite, False):
        yield misfit_fault("queue", f"drop_tail {'with a capacity in messages' if finite else 'without limits'}")
    if network.outages:
        yield misfit_fault("outages", "a network without outages")


def _senders(case: TheoryCase) -> tuple[str, ...]:
    return case.layout.with_role(case.network.traffic[0].source.removesuffix("s"))
