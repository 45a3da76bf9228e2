"""One tower amid its users, and a server behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import networkx as nx
import numpy as np
from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import check_one_of
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import at_distance, disk_distance_law
from netfl.network.placement.disk import Disk
from netfl.network.topology import Topology
from netfl.network.topology._graph import add_site, place_users
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts
from netfl.units import Bitrate, Extent, LinkDelay


class Star(Topology):
    """One tower at the origin, joined to the server by one link, with users around it.

    Users are placed uniformly over the area of a disk, so that the distance r to the tower has P(r ≤ x) = (x/R)² for a
    disk of radius R; at stated distances, each in a direction drawn for it; or as a placement says.  A plane: heights
    are not modelled.  Exactly one of ``radius``, ``distance``, ``distances`` and ``placement`` is given.

    Example::

        kind: star
        radius: 500 m
        rate: 100 Mbps
        delay: 5 ms
    """

    radius: Annotated[Extent, Field(gt=0)] | None = None
    """Radius of the disk over which users are spread."""
    distance: Annotated[Extent, Field(gt=0)] | None = None
    """Distance of every user to the tower."""
    distances: Annotated[tuple[Annotated[Extent, Field(gt=0)], ...] | None, PerUser()] = None
    """Distance of each user to the tower, a list with one entry for each user."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users, in any other way."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of the link from the tower to the server."""
    delay: Annotated[LinkDelay, Field(ge=0)] = 0.005
    """Propagation delay of that link."""

    @model_validator(mode="after")
    def _check_placement(self) -> Star:
        check_one_of(self, "radius", "distance", "distances", "placement")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.distances is not None and len(self.distances) != facts.users:
            yield Fault(
                "distances", f"{len(self.distances)} distances for {facts.users} users", remedy="give one for each user"
            )

    def open(self, users: int, streams: Streams) -> Layout:
        graph: nx.Graph[str] = nx.Graph()
        server = add_site(graph, "server", (0.0, 0.0))
        tower = add_site(graph, "tower:0", (0.0, 0.0))
        graph.add_edge(server, tower, rate_bps=self.rate, delay_s=self.delay)
        placement = self.placement
        if self.radius is not None:
            placement = Disk(radius=self.radius)
        if placement is not None:
            return Layout(graph, place_users(placement, users, graph, streams))
        distance_m = np.broadcast_to(self.distance or self.distances or (), users)
        return Layout(graph, at_distance(users, distance_m, streams.at("users")))

    def laws(self) -> tuple[Law, ...]:
        if self.radius is None:
            return (Law.none("the scenario or the placement gives the positions of users"),)

        def draw_xy_m(streams: Streams, size: int) -> Floats:
            return self.open(size, streams).user_xy_m

        return (disk_distance_law("distance to the tower in m", self.radius, draw_xy_m),)
