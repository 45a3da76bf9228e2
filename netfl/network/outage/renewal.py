"""Nodes that fail and are repaired independently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import Nodes, approximate_count, node_numbers, node_rows
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Renewal(Outage):
    """Each node alternates between up and down, an alternating renewal process independent of all others.

    Sojourns are independent; the long-run share of time up is A = E[up] / (E[up] + E[down]), for any distributions.
    With ``start: stationary`` the process is as if it had always run: a node starts up with probability A, and the
    rest of its first sojourn has the density P(X > x) / E[X].  D. R. Cox, "Renewal Theory", 1962, chapters 5, 7.

    Example::

        kind: renewal
        nodes: users
        up: {law: exponential, mean: 2 h}
        down: {law: weibull, mean: 10 min, shape: 0.7}
    """

    nodes: Nodes
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and names."""
    up: DurationDistribution
    """Time that a node stays up."""
    down: DurationDistribution
    """Time that it then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Start of the process: ``stationary``, as if it had always run, or ``up``, all up with a whole sojourn ahead."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield an error for unknown users."""
        yield from facts.strangers("nodes", self.nodes)

    def changes_hz(self, users: int) -> float:
        """Return two changes of each node per cycle."""
        return 2.0 * approximate_count(self.nodes, users) / (self.up.mean + self.down.mean)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Start one process per node."""
        return AlternatingRenewal(node_rows(node_numbers(self.nodes, layout), layout), self._sojourns, streams)

    def laws(self) -> tuple[Law, ...]:
        """Claim the sojourns, the availability and the residuals."""
        return self._sojourns.laws()

    @property
    def _sojourns(self) -> Sojourns:
        return Sojourns(self.up, self.down, self.start)
