"""An area that fails as a whole, as under a storm."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal, Sojourns
from netfl.network.outage._distributions import DurationDistribution
from netfl.network.outage._targets import DiskMembership, Groups
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Extent, Seconds


class Regional(Outage):
    """Nodes inside a disk go down and come up together: one alternating renewal process for the area.

    A link is affected if its cable, a straight line between its ends, passes through the disk, as in S. Neumayer,
    E. Modiano, "Network reliability under random circular cuts", GLOBECOM 2011.  Moving users count at their positions
    at time 0.
    Sojourns are independent.  Without ``first_outage`` the process starts stationary, as in the ``renewal`` outage;
    with it the first outage begins at that time, and later ones after sojourns up and down from there.

    Example::

        kind: regional
        center: [3 km, 0 m]
        radius: 3 km
        up: {distribution: exponential, mean: 6 h}
        down: {distribution: lognormal, mean: 45 min, sigma: 0.5}
        first_outage: 30 min
    """

    center: Point
    """Centre [x, y] of the disk."""
    radius: Annotated[Extent, Field(gt=0)]
    """Radius of the disk."""
    affects: Groups = ("users", "towers")
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of them."""
    up: DurationDistribution
    """Time that the area stays up between outages."""
    down: DurationDistribution
    """Duration of an outage."""
    first_outage: Annotated[Seconds, Field(gt=0)] | None = None
    """Time of the first outage."""

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        disk = DiskMembership(layout, self.affects)
        distance_m = disk.distance_m(np.arange(len(disk.nodes)), np.array(self.center))
        affected = disk.nodes[distance_m <= self.radius]
        if not affected.size:
            groups = " or ".join(group.removesuffix("s") for group in self.affects)
            raise ScenarioError([Fault("radius", f"no {groups} is inside the area", self.radius, "enlarge or move it")])
        row = np.full(layout.nodes, -1)
        row[affected] = 0
        return AlternatingRenewal(row, self._sojourns, streams)

    def laws(self) -> tuple[Law, ...]:
        return self._sojourns.laws()

    @property
    def _sojourns(self) -> Sojourns:
        if self.first_outage is None:
            return Sojourns(self.up, self.down, "stationary")
        return Sojourns(self.up, self.down, self.first_outage)
