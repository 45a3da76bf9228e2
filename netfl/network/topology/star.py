"""One tower in the middle of its users, and a server behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.sites import Sites
from netfl.network.topology import Topology
from netfl.network.topology._placement import add_site, at_distance, in_disk
from netfl.streams import Streams
from netfl.types import Facts, Law
from netfl.units import Bitrate, Metres, Seconds


class Star(Topology):
    """One tower at the origin, joined to the server by one link, with all users around it.

    Users stand uniformly over the area of a disk, so that the distance r to the tower has P(r ≤ x) = (x/R)² for a
    disk of radius R; or at stated distances, each in a direction drawn for it.  A plane: heights are not modelled.
    Exactly one of ``radius``, ``distance`` and ``distances`` is given.

    Example::

        kind: star
        radius: 500 m
        rate: 100 Mbps
        delay: 5 ms
    """

    radius: Annotated[Metres, Field(gt=0)] | None = None
    """Radius of the disk over which users are spread."""
    distance: Annotated[Metres, Field(gt=0)] | None = None
    """Distance of every user to the tower."""
    distances: tuple[Annotated[Metres, Field(gt=0)], ...] | None = None
    """Distance of each user to the tower, a list with one entry for each user."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of the link from the tower to the server."""
    delay: Annotated[Seconds, Field(ge=0)] = 0.005
    """Propagation delay of that link."""

    @model_validator(mode="after")
    def _one_placement(self) -> Star:
        """One way to place users."""
        if sum(given is not None for given in (self.radius, self.distance, self.distances)) != 1:
            raise ValueError("give radius, distance or distances, exactly one of them")
        return self

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """As many distances as users."""
        if self.distances is not None and len(self.distances) != facts.users:
            yield Fault("distances", f"{len(self.distances)} distances for {facts.users} users", remedy="give one each")

    def open(self, users: int, streams: Streams) -> Sites:
        """The tower, the server beside it, and the users."""
        graph: nx.Graph[str] = nx.Graph()
        server, tower = (add_site(graph, name, (0.0, 0.0)) for name in ("server", "tower:0"))
        graph.add_edge(server, tower, rate_bps=self.rate, delay_s=self.delay)
        return Sites(graph, self._places(users, streams.at("users")))

    def laws(self) -> tuple[Law, ...]:
        """The distance to the tower."""
        radius = self.radius
        if radius is None:
            return (Law.none("users stand at the distances that the scenario states"),)
        return (
            Law(
                "distance to the tower in m",
                "uniform over the disk's area: P(r ≤ x) = (x/R)², mean 2R/3, variance R²/18",
                draw=lambda streams, size: self.open(size, streams).distance_m,
                mean=2.0 * radius / 3.0,
                variance=radius**2 / 18.0,
                cdf=lambda x: np.clip(x / radius, 0.0, 1.0) ** 2,
            ),
        )

    def _places(self, users: int, streams: Streams) -> NDArray[np.float64]:
        """Where users stand."""
        if self.radius is not None:
            return in_disk(users, self.radius, streams)
        return at_distance(users, np.broadcast_to(self.distance or self.distances or (), users), streams)
