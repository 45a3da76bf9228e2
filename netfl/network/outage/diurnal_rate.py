"""Nodes that fail more often at some hours of the day than at others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import Ints, NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._daily import DiurnalClock, Weights, check_period, daily_laws, draw_shifts_s, settled_start_s
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import Nodes, node_numbers, node_rows
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class DiurnalRate(Outage):
    """A node that is up fails with the intensity λ(t) = r(t) / every; each repair has a random duration.

    r(t) repeats every ``period``, is constant over each of its equal parts, one per entry of ``weights``, and has
    mean 1; failures while up are an inhomogeneous Poisson process: P(up from s to t) = exp(-∫ λ(u) du over [s, t])
    (S. M. Ross, "Stochastic Processes", 2nd ed. 1996, section 2.4).  If repairs are exponential with rate μ, the
    probability p of being up solves p' = μ(1 - p) - λ(t) p.  Time 0 is the start of a period.

    Example::

        kind: diurnal_rate
        nodes: users
        every: 3 h
        weights: [1, 1, 4, 6, 6, 3]  # each for 4 hours
        repair: {law: exponential, mean: 20 min}
    """

    nodes: Nodes
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and names."""
    every: Annotated[Seconds, Field(gt=0)]
    """1 / the mean intensity: the mean time to a failure at a constant intensity."""
    weights: Weights
    """Relative intensity in each of as many equal parts of the period."""
    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval, around 0, from which the shift of each node's day is drawn, to model time zones."""
    repair: DurationDistribution
    """Time that a node then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Start of the process: ``stationary``, as if it had always run (all up, at least 20 mean times to failure and
    repair before time 0), or ``up``, all up at time 0."""

    @model_validator(mode="after")
    def _check_period(self) -> DiurnalRate:
        check_period(self.every, self.repair.mean, self.period)
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield an error for unknown users."""
        yield from facts.strangers("nodes", self.nodes)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Start one process per node."""
        return self._open_rows(node_rows(node_numbers(self.nodes, layout), layout), streams)[0]

    def laws(self) -> tuple[Law, ...]:
        """Claim the sojourns, and the share of time up if it has a closed form."""
        laws = daily_laws(self._open_rows, self._sojourns, self.weights, self.period)
        return laws if self.start == "stationary" else laws[:2]

    def _open_rows(self, row: Ints, streams: Streams) -> tuple[AlternatingRenewal, DiurnalClock]:
        count = int(row.max(initial=-1)) + 1
        clock = DiurnalClock(self.weights, self.period, draw_shifts_s(self.spread, count, streams), np.ones(count))
        settled_s = settled_start_s(np.full(count, self.every), self.repair.mean, self.period)
        origin_s = settled_s if self.start == "stationary" else np.zeros(count)
        return AlternatingRenewal(row, self._sojourns, streams, clock=clock, origin_s=origin_s), clock

    @property
    def _sojourns(self) -> Sojourns:
        return Sojourns(DurationDistribution(law="exponential", mean=self.every), self.repair, "up")
