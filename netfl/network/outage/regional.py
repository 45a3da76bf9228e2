"""A whole area that fails together, as under a storm."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_laws import process_laws
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Start
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._geometry import DiskMembership, Groups
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres, Seconds


class Regional(Outage):
    """All that is inside a disk goes down and comes back together: one alternating renewal process for the area.

    A link is struck if its cable, a straight line between its ends, passes through the disk, as in S. Neumayer,
    E. Modiano, "Network reliability under random circular cuts", GLOBECOM 2011.  Users who move are struck by where
    they are at time 0.
    Sojourns are independent.  Without ``first`` the process starts stationary, as in the ``renewal`` outage; with it
    the first strike comes at that time, and later ones after sojourns up and down from there.

    Example::

        kind: regional
        center: [3 km, 0 m]
        radius: 3 km
        up: {law: exponential, mean: 6 h}
        down: {law: lognormal, mean: 45 min, sigma: 0.5}
        first: 30 min
    """

    center: tuple[Metres, Metres]
    """Centre [x, y] of the disk."""
    radius: Annotated[Metres, Field(gt=0)]
    """Radius of the disk."""
    strikes: Groups = ("users", "towers")
    """Who goes down inside it: ``users``, ``towers``, ``routers``, ``links``, ``both`` users and towers, ``all``, or a
    list of the first four."""
    up: DurationDistribution
    """How long the area stays up between strikes."""
    down: DurationDistribution
    """How long a strike lasts."""
    first: Annotated[Seconds, Field(gt=0)] | None = None
    """When the first strike comes."""

    def changes_hz(self, users: int) -> float:
        """Two in a sojourn up and one down, of the area: how many are inside is only known when they are laid out."""
        return 2.0 / (self.up.mean + self.down.mean)

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """One row for all that are inside.

        Raises:
            ScenarioError: nobody is.
        """
        ground = DiskMembership(sites, self.strikes)
        struck = ground.nodes[ground.distance_m(np.arange(len(ground.nodes)), np.array(self.center)) <= self.radius]
        if not struck.size:
            whom = " or ".join(group.removesuffix("s") for group in self.strikes)
            raise ScenarioError([Fault("radius", f"no {whom} stands inside the area", self.radius, "widen or move it")])
        row = np.full(sites.nodes, -1)
        row[struck] = 0
        return AlternatingRenewal(row, self.up, self.down, streams, self._start)

    def laws(self) -> tuple[Law, ...]:
        """Those of the area's one process."""
        return process_laws(self.up, self.down, self._start)

    @property
    def _start(self) -> Start:
        """How the process begins."""
        return "stationary" if self.first is None else self.first
