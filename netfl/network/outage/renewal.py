"""Nodes that fail and are mended, each on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_laws import process_laws
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import Nodes, approximate_count, node_faults, node_numbers, node_rows
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Renewal(Outage):
    """Each node alternates between up and down, an alternating renewal process independent of all others.

    Sojourns are independent; the long-run share of time up is A = E[up] / (E[up] + E[down]), whatever their laws.
    With ``start: stationary`` the process is as if it had run for ever: a node starts up with probability A, and what
    is left of its first sojourn has the density P(X > x) / E[X].  D. R. Cox, "Renewal Theory", 1962, chapters 5, 7.

    Example::

        kind: renewal
        nodes: users
        up: {law: exponential, mean: 2 h}
        down: {law: weibull, mean: 10 min, shape: 0.7}
    """

    nodes: Nodes
    """Which nodes fail: ``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and names."""
    up: DurationDistribution
    """How long a node stays up."""
    down: DurationDistribution
    """How long it then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Whether nodes start as if the process had run for ever, or all up with a whole sojourn before them."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not."""
        yield from node_faults(self.nodes, facts)

    def changes_hz(self, users: int) -> float:
        """Two in a sojourn up and one down, of each node."""
        return 2.0 * approximate_count(self.nodes, users) / (self.up.mean + self.down.mean)

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """A row for each node."""
        row = node_rows(node_numbers(self.nodes, sites), sites)
        return AlternatingRenewal(row, self.up, self.down, streams, self.start)

    def laws(self) -> tuple[Law, ...]:
        """Sojourns, availability, residuals."""
        return process_laws(self.up, self.down, self.start)
