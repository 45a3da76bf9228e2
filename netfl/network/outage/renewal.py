"""Nodes that fail and are repaired independently."""

from __future__ import annotations

from typing import Literal

from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import NodeOutage, node_rows
from netfl.streams import Streams
from netfl.types import Law


class Renewal(NodeOutage):
    """Each node alternates between up and down, an alternating renewal process independent of all others.

    Sojourns are independent; the long-run share of time up is A = E[up] / (E[up] + E[down]), for any distributions.
    With ``start: stationary`` the process is as if it had always run: a node starts up with probability A, and the
    rest of its first sojourn has the density P(X > x) / E[X].  D. R. Cox, "Renewal Theory", 1962, chapters 5, 7.

    Example::

        kind: renewal
        nodes: users
        up: {distribution: exponential, mean: 2 h}
        down: {distribution: weibull, mean: 10 min, shape: 0.7}
    """

    up: DurationDistribution
    """Time that a node stays up."""
    down: DurationDistribution
    """Time that it then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Start of the process: ``stationary``, as if it had always run, or ``up``, all up with a whole sojourn ahead."""

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        return AlternatingRenewal(node_rows(self.nodes, layout), self._sojourns, streams)

    def laws(self) -> tuple[Law, ...]:
        return self._sojourns.laws()

    @property
    def _sojourns(self) -> Sojourns:
        return Sojourns(self.up, self.down, self.start)
