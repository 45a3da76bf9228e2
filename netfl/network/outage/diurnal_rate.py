"""Nodes that fail more often at some hours of the day than at others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._daily import Weights, check_period, daily_laws, draw_shifts_s, settled_start_s
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._diurnal_clock import DiurnalClock
from netfl.network.outage._targets import Nodes, node_faults, node_numbers, node_rows
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class DiurnalRate(Outage):
    """A node that is up fails with the intensity λ(t) = r(t) / every, and is then repaired for a time of its own.

    r(t) repeats every ``period``, is constant over each of as many even parts of it as there are ``weights``, and has
    mean 1; failures while up are an inhomogeneous Poisson process: P(up from s to t) = exp(-∫ λ(u) du over [s, t])
    (S. M. Ross, "Stochastic Processes", 2nd ed. 1996, section 2.4).  Where repairs are exponential with rate μ, the
    probability p of being up solves p' = μ(1 - p) - λ(t) p.  Time 0 is the start of a period.

    Example::

        kind: diurnal_rate
        nodes: users
        every: 3 h
        weights: [1, 1, 4, 6, 6, 3]  # each for 4 hours
        repair: {law: exponential, mean: 20 min}
    """

    nodes: Nodes
    """Which nodes fail: ``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and names."""
    every: Annotated[Seconds, Field(gt=0)]
    """1 / the mean intensity: the mean time to a failure, if the intensity were always the same."""
    weights: Weights
    """The intensity in each of as many even parts of the period, relative to each other."""
    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval, around 0, from which the shift of each node's day is drawn, as over time zones."""
    repair: DurationDistribution
    """How long a node then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Whether nodes start as if the process had run for ever (all up, at least 20 mean times to failure and repair
    before time 0), or all up at time 0."""

    @model_validator(mode="after")
    def _short(self) -> DiurnalRate:
        """A period that can be walked through."""
        check_period(self.every, self.repair.mean, self.period)
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not."""
        yield from node_faults(self.nodes, facts)

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """A row for each node."""
        return self._opened(node_rows(node_numbers(self.nodes, sites), sites), streams)[0]

    def laws(self) -> tuple[Law, ...]:
        """Sojourns, and the share of time up where it has a closed form."""

        def opened(streams: Streams, size: int) -> tuple[AlternatingRenewal, DiurnalClock]:
            return self._opened(np.arange(size), streams)

        laws = daily_laws(opened, self._up, self.repair, self.weights, self.period)
        return laws if self.start == "stationary" else laws[:2]

    def _opened(self, row: NDArray[np.int64], streams: Streams) -> tuple[AlternatingRenewal, DiurnalClock]:
        """The process, and the clock of its rows."""
        count = int(row.max(initial=-1)) + 1
        clock = DiurnalClock(self.weights, self.period, draw_shifts_s(self.spread, count, streams), np.ones(count))
        settled = settled_start_s(np.full(count, self.every), self.repair.mean, self.period)
        since_s = settled if self.start == "stationary" else np.zeros(count)
        return AlternatingRenewal(row, self._up, self.repair, streams, "up", clock=clock, origin_s=since_s), clock

    @property
    def _up(self) -> DurationDistribution:
        """A sojourn up, on the node's clock."""
        return DurationDistribution(law="exponential", mean=self.every)
