"""What theories of queues have in common: Poisson packets of one sender that cross links one after the other."""

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
    """Packets and the links before them.

    Args:
        rate_hz: λ, packets per second.
        service_s: the mean time that a packet takes on each link, in order.
        room: packets that each port holds, the one being sent included; ``None`` is no limit.
        delay_s: all propagation delays together.
    """

    rate_hz: float
    service_s: tuple[float, ...]
    room: int | None
    delay_s: float

    @property
    def load(self) -> float:
        """ρ of the busiest link."""
        return self.rate_hz * max(self.service_s)


def tandem_line(case: TheoryCase) -> TandemLine:
    """The line of a *case* in which nothing misfits."""
    (traffic,), edges = case.said.traffic, case.sites.graph.edges
    way = [edges[link] for link in pairwise(case.sites.route(*_senders(case)))]
    rate_hz = traffic.rate_hz(way[0]["rate_bps"])
    assert rate_hz is not None
    assert isinstance(case.said.queue, DropTail)
    room = case.said.queue.capacity
    return TandemLine(
        rate_hz,
        tuple(traffic.size.mean / link["rate_bps"] for link in way),
        None if room is None else room + 1,
        sum(link["delay_s"] for link in way),
    )


def line_misfits(case: TheoryCase, sizes: str | None, *, hops: int | None = 1, finite: bool = False) -> Iterator[Fault]:
    """Whatever is no line of *hops* links with Poisson packets of *sizes*.

    Args:
        case: the scenario.
        sizes: the law of the sizes; ``None`` for any.
        hops: how many links; ``None`` for any number.
        finite: whether the ports have room for so many packets; no limit if not, and a load below 1.
    """
    said = case.said
    if len(said.traffic) != 1 or not isinstance(said.traffic[0], Poisson) or said.traffic[0].enters == "users":
        yield misfit_fault("traffic", "one kind of traffic, Poisson packets that enter at a tower or a router")
    elif sizes is not None and said.traffic[0].size.law != sizes:
        yield misfit_fault("traffic", f"packets of {sizes} size", said.traffic[0].size.law)
    elif len(_senders(case)) != 1 or not nx.is_tree(case.sites.graph):
        yield misfit_fault("topology", "one sender, and one way from it to the server")
    elif hops is not None and len(case.sites.route(*_senders(case))) != hops + 1:
        yield misfit_fault("topology", f"a way of {hops} link{'s' * (hops > 1)}")
    elif not finite and said.queue == DropTail() and tandem_line(case).load >= 1.0:
        yield misfit_fault("traffic", "a load below 1", tandem_line(case).load)
    yield from _rooms(case, finite=finite)
    if said.outages:
        yield misfit_fault("outages", "a network without outages")


def _rooms(case: TheoryCase, *, finite: bool) -> Iterator[Fault]:
    """Waiting rooms of another kind."""
    queue = case.said.queue
    if case.said.queues:
        yield misfit_fault("queues", "the same waiting room at every port")
    limits = (queue.capacity is not None, queue.capacity_bytes is not None) if isinstance(queue, DropTail) else None
    if limits != (finite, False):
        yield misfit_fault("queue", f"drop_tail {'with a capacity in messages' if finite else 'without limits'}")


def _senders(case: TheoryCase) -> tuple[str, ...]:
    """Who sends."""
    return case.sites.with_role(case.said.traffic[0].enters.removesuffix("s"))
