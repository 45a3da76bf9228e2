"""Users whose devices are in use now and then, and free for training only between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

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


class Inactivity(Outage):
    """A user takes part only while its device lies idle: it is down while its owner uses it, session after session.

    Gaps between sessions have the law ``idle`` on the user's own clock, which runs at the speed a·r(t): r(t) has the
    ``weights`` over the day and mean 1, and a = exp(σ z), z standard normal and drawn once for each user, says how
    active the user is.  Sessions have the law ``use``, on the common clock.  Without weights and diversity it is an
    alternating renewal process; with exponential laws a two-state Markov chain whose rates depend on the time of day.
    At time 0 the process has run for at least 20 mean gaps and sessions.

    Devices that train only when idle, and so mostly at night, four times as many as by day: K. Bonawitz et al.,
    "Towards federated learning at scale: system design", MLSys 2019.  Sessions, most of them short and few very long,
    10 to 200 a day: H. Falaki et al., "Diversity in smartphone usage", MobiSys 2010.  For devices that must also be
    charging add a ``diurnal`` outage: a user is up when all outages let it be.

    Example::

        kind: inactivity
        idle: {law: weibull, mean: 30 min, shape: 0.6}
        use: {law: hyperexponential, mean: 2 min, cv: 2}
        weights: [1, 4, 6, 6]  # from midnight on, each for 6 hours
        diversity: 0.7
    """

    nodes: Nodes = "users"
    """Which users: ``users`` for all, or a list of their numbers."""
    idle: DurationDistribution
    """How long a device lies idle between two uses, on the user's clock."""
    use: DurationDistribution
    """How long it is then in use."""
    weights: Weights = (1.0,)
    """How active users are in each of as many even parts of the period, relative to each other."""
    period: Annotated[Seconds, Field(gt=0)] = 86400.0
    """Length of a period; time 0 is the start of one."""
    spread: Annotated[Seconds, Field(ge=0)] = 0.0
    """Width of the interval, around 0, from which the shift of each user's day is drawn, as over time zones."""
    diversity: Annotated[float, Field(ge=0, le=3)] = 0.0
    """σ, the standard deviation of the natural logarithm of the users' activities; the median is 1."""

    @model_validator(mode="after")
    def _short(self) -> Inactivity:
        """A period that can be walked through."""
        check_period(self.idle.mean, self.use.mean, self.period)
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not; nodes that are no users."""
        yield from node_faults(self.nodes, facts)
        strangers = [self.nodes] if isinstance(self.nodes, str) else [n for n in self.nodes if isinstance(n, str)]
        if strangers and self.nodes != "users":
            yield Fault("nodes", "only users have owners", strangers, "write users, or numbers of users")

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """A row for each user."""
        return self._opened(node_rows(node_numbers(self.nodes, sites), sites), streams)[0]

    def laws(self) -> tuple[Law, ...]:
        """Sojourns, and the share of time up where it has a closed form."""

        def opened(streams: Streams, size: int) -> tuple[AlternatingRenewal, DiurnalClock]:
            return self._opened(np.arange(size), streams)

        laws = daily_laws(opened, self.idle, self.use, self.weights, self.period)
        return laws if not self.diversity else laws[:2]

    def _opened(self, row: NDArray[np.int64], streams: Streams) -> tuple[AlternatingRenewal, DiurnalClock]:
        """The process, and the clock of its rows."""
        count = int(row.max(initial=-1)) + 1
        active = np.exp(self.diversity * streams.field("active").normal(np.arange(count)))
        clock = DiurnalClock(self.weights, self.period, draw_shifts_s(self.spread, count, streams), active)
        since_s = settled_start_s(self.idle.mean / active, self.use.mean, self.period)
        return AlternatingRenewal(row, self.idle, self.use, streams, "up", clock=clock, origin_s=since_s), clock
