"""Nodes that fail more often at some hours of the day than at others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from netfl.network.outage._alternating_renewal import Sojourns
from netfl.network.outage._daily import DailyOutage, Weights
from netfl.network.outage._distributions import DurationDistribution
from netfl.units import Seconds


class DiurnalRate(DailyOutage):
    """A node that is up fails with the intensity λ(t) = r(t) / every; each repair has a random duration.

    r(t) repeats every ``period``, is constant over each of its equal parts, one per entry of ``weights``, and has
    mean 1; failures while up are an inhomogeneous Poisson process: P(up from s to t) = exp(-∫ λ(u) du over [s, t])
    (S. M. Ross, "Stochastic Processes", 2nd ed. 1996, section 2.4).  If repairs are exponential with rate μ, the
    probability p of being up solves p' = μ(1 - p) - λ(t) p.  Time 0 is the start of a period.

    Example::

        kind: diurnal_rate
        nodes: users
        mean_time_to_failure: 3 h
        weights: [1, 1, 4, 6, 6, 3]  # each for 4 hours
        repair: {distribution: exponential, mean: 20 min}
    """

    mean_time_to_failure: Annotated[Seconds, Field(gt=0)]
    """1 / the mean intensity: the mean time to a failure at a constant intensity."""
    weights: Weights
    """Relative intensity in each of as many equal parts of the period."""
    repair: DurationDistribution
    """Time that a node then stays down."""
    start: Literal["stationary", "up"] = "stationary"
    """Start of the process: ``stationary``, as if it had always run (all up, at least 20 mean times to failure and
    repair before time 0), or ``up``, all up at time 0."""

    @property
    def sojourns(self) -> Sojourns:
        failure = DurationDistribution(distribution="exponential", mean=self.mean_time_to_failure)
        return Sojourns(failure, self.repair, self.start)
