"""Users whose devices train only while their owners do not use them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.outage._alternating_renewal import Sojourns
from netfl.network.outage._daily import DailyOutage, Weights
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import Nodes
from netfl.streams import Streams
from netfl.types import Floats, Law


class Inactivity(DailyOutage):
    """A user takes part only while its device is idle: it is down while its owner uses it, session after session.

    Gaps between sessions have the distribution ``gap`` on the user's own clock, which runs at the speed a·r(t): r(t)
    follows ``weights`` over the day and has mean 1, and a = exp(σ z), z standard normal and drawn once for each user,
    is its activity.  Sessions have the distribution ``session``, on the common clock.  Without weights and diversity it
    is an alternating renewal process; with exponential distributions a two-state Markov chain whose rates depend on the
    time of day.  At time 0 the process has run for at least 20 mean gaps and sessions.

    Devices that train only when idle, and so mostly at night, four times as many as by day: K. Bonawitz et al.,
    "Towards federated learning at scale: system design", MLSys 2019.  Sessions, most of them short and few very long,
    10 to 200 a day: H. Falaki et al., "Diversity in smartphone usage", MobiSys 2010.  For devices that must also be
    charging add a ``diurnal`` outage: a user is up when it is up in all outages.

    Example::

        kind: inactivity
        gap: {distribution: weibull, mean: 30 min, shape: 0.6}
        session: {distribution: hyperexponential, mean: 2 min, cv: 2}
        weights: [1, 4, 6, 6]  # from midnight on, each for 6 hours
        diversity: 0.7
    """

    users_only = "only users have owners"
    nodes: Nodes = "users"
    """Affected users: ``users`` for all, or a list of their numbers."""
    gap: DurationDistribution
    """Time between two sessions, on the user's clock."""
    session: DurationDistribution
    """Duration of a session."""
    weights: Weights = (1.0,)
    """Relative activity in each of as many equal parts of the period."""
    diversity: Annotated[float, Field(ge=0, le=3)] = 0.0
    """σ, the standard deviation of the natural logarithm of the users' activities; the median is 1."""

    @property
    def sojourns(self) -> Sojourns:
        return Sojourns(self.gap, self.session)

    def activity(self, rows: int, streams: Streams) -> Floats:
        return np.asarray(np.exp(self.diversity * streams.field("active").normal(np.arange(rows))))

    def laws(self) -> tuple[Law, ...]:
        laws = super().laws()
        if self.diversity:  # the state depends on the activity: only the sojourns have a closed form
            return laws[:2]
        return laws
