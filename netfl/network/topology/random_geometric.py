"""Routers in a square, linked within a maximum distance."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.placement._sampling import in_rectangle, uniform_law
from netfl.network.topology._graph import RandomMesh, bottleneck_hop
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law
from netfl.units import Extent


class RandomGeometric(RandomMesh):
    """Routers uniform in a square, linked wherever they are within reach of each other (Gilbert 1961).

    Some of the routers, drawn at random, carry a tower each; the server is at the router nearest the centre.
    A tower and the server are joined to their router by a link of no length.  A link's delay is its length over the
    speed of light: radio relays, no processing.  Users are placed uniformly in the square, or as a placement states;
    each belongs to the nearest tower.  A tower that no chain of routers joins to the server is an error: E. N. Gilbert,
    "Random plane networks", J. SIAM 9 (1961), shows how rare that is for a given reach.

    Example::

        kind: random_geometric
        routers: 40
        towers: 6
        side: 20 km
        max_distance: 8 km
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=1, le=5000)]
    """Number of routers."""
    max_distance: Annotated[Extent, Field(gt=0)]
    """Largest distance of linked routers."""

    def _link(self, positions: Floats, tower_routers: Ints, streams: Streams) -> tuple[Ints, int]:
        server_router = int(np.hypot(*positions.T).argmin())
        length_m = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))  # [routers, routers]
        needed_m = bottleneck_hop(length_m, server_router)[tower_routers]
        cut_off = [f"tower:{index}" for index in np.flatnonzero(needed_m > self.max_distance)]
        if cut_off:
            enough = math.ceil(needed_m.max() * 10.0) / 10.0
            problem = f"no path of routers connects {', '.join(cut_off)} to the server"
            remedy = f"make it at least {enough:.1f} m to connect them"
            raise ScenarioError([Fault("max_distance", problem, self.max_distance, remedy)])
        return np.argwhere(np.triu(length_m <= self.max_distance, k=1)), server_router

    def laws(self) -> tuple[Law, ...]:
        if self.placement is not None:
            return (Law.none("the placement gives the positions of users"),)

        def draw(streams: Streams, size: int) -> Floats:
            return in_rectangle(size, self.side, self.side, streams.at("users")).ravel()

        return (uniform_law("coordinate of a user in m", self.side, draw),)
