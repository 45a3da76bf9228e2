"""Users whose devices train only while their owners do not use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import Ints, NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._daily import DiurnalClock, Weights, check_period, daily_laws, draw_shifts_s, settled_start_s
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import Nodes, node_numbers, node_rows, user_faults
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Inactivity(Outage):
    """A user takes part only while its device is idle: it is down while its owner uses it, session after session.

    Gaps between sessions have the distribution ``idle`` on the user's own clock, which runs at the speed a·r(t): r(t)
    follows ``weights`` over the day and has mean 1, and a = exp(σ z), z standard normal and drawn once for each user,
    is its activity.  Sessions have the distribution ``use``, on the common clock.  Without weights and diversity it is
    an alternating renewal process; with exponential distributions a two-state Markov chain whose rates depend on the
    time of day.  At time 0 the process has run for at least 20 mean gaps and sessions.

    Devices that train only when idle, and so mostly at night, four times as many as by day: K. Bonawitz et al.,
    "Towards federated learning at scale: system design", MLSys 2019.  Sessions, most of them short and few very long,
    10 to 200 a day: H. Falaki et al., "Diversity in smartphone usage", MobiSys 2010.  For devices that must also be
    charging add a ``diurnal`` outage: a user is up when it is up in all outages.

    Example::

        kind: inactivity
        idle: {law: weibull, mean: 30 min, shape: 0.6}
        use: {law: hyperexponential, mean: 2 min, cv: 2}
        weights: [1, 4, 6, 6]  # from midnight on, each for 6 hours
        diversity: 0.7
    """

    nodes: Nodes = "users"
    """Affected users: ``users`` for all, or a list of their numbers."""
    idle: DurationDistribution
    """Time between two sessions, on the user's clock."""
    use: DurationDistribution
    """Duration of a session."""
    weights: Weights = (1.0,)
    """Relative activity in each of as many equal parts of the period."""
    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period; time 0 is the start of one."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval, around 0, from which the shift of each user's day is drawn, to model time zones."""
    diversity: Annotated[float, Field(ge=0, le=3)] = 0.0
    """σ, the standard deviation of the natural logarithm of the users' activities; the median is 1."""

    @model_validator(mode="after")
    def _check_period(self) -> Inactivity:
        check_period(self.idle.mean, self.use.mean, self.period)
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors for unknown users, and for nodes that are not users."""
        yield from user_faults(self.nodes, facts, "only users have owners")

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Start one process per user."""
        return self._open_rows(node_rows(node_numbers(self.nodes, layout), layout), streams)[0]

    def laws(self) -> tuple[Law, ...]:
        """Claim the sojourns, and the share of time up if it has a closed form."""
        laws = daily_laws(self._open_rows, self._sojourns, self.weights, self.period)
        return laws if not self.diversity else laws[:2]

    def _open_rows(self, row: Ints, streams: Streams) -> tuple[AlternatingRenewal, DiurnalClock]:
        count = int(row.max(initial=-1)) + 1
        activity = np.exp(self.diversity * streams.field("active").normal(np.arange(count)))
        clock = DiurnalClock(self.weights, self.period, draw_shifts_s(self.spread, count, streams), activity)
        origin_s = settled_start_s(self.idle.mean / activity, self.use.mean, self.period)
        return AlternatingRenewal(row, self._sojourns, streams, clock=clock, origin_s=origin_s), clock

    @property
    def _sojourns(self) -> Sojourns:
        return Sojourns(self.idle, self.use, "up")
