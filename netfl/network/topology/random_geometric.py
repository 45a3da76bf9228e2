"""Routers in a square, linked within a maximum distance."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import in_rectangle, uniform_law
from netfl.network.placement.rectangle import Rectangle
from netfl.network.topology import Topology
from netfl.network.topology._graph import bottleneck_hop, build_mesh, draw_tower_routers, place_users
from netfl.registry import FamilyMember
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bitrate, Metres


class RandomGeometric(Topology):
    """Routers uniform in a square, linked wherever they are within reach of each other (Gilbert 1961).

    Some of the routers, drawn at random, carry a tower each; the server stands at the router nearest the centre.
    A tower and the server are joined to their router by a link of no length.  A link's delay is its length over the
    speed of light: radio relays, no processing.  Users stand uniformly in the square, or as a placement states; each
    belongs to the nearest tower.  A tower that no chain of routers joins to the server is an error: E. N. Gilbert,
    "Random plane networks", J. SIAM 9 (1961), shows how rare that is for a given reach.

    Example::

        kind: random_geometric
        routers: 40
        towers: 6
        side: 20 km
        reach: 8 km
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=1, le=5000)]
    """Number of routers."""
    towers: Annotated[int, Field(ge=1)]
    """Number of routers that carry a tower."""
    side: Annotated[Metres, Field(gt=0)]
    """Side of the square."""
    reach: Annotated[Metres, Field(gt=0)]
    """Largest distance of linked routers."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users; ``null`` for uniform in the square."""

    @model_validator(mode="after")
    def _check_routers(self) -> RandomGeometric:
        if self.towers > self.routers:
            raise ValueError(f"{self.towers} towers on {self.routers} routers; give towers no more than routers")
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        """Return the layout of one replica.

        Raises:
            ScenarioError: a tower has no route to the server; the error names the reach that is enough.
        """
        positions = in_rectangle(self.routers, self.side, self.side, streams.at("routers"))
        tower_routers = draw_tower_routers(self.routers, self.towers, streams)
        server_router = int(np.hypot(*positions.T).argmin())
        length = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
        self._check_routes(bottleneck_hop(length, server_router)[tower_routers])
        links = np.argwhere(np.triu(length <= self.reach, k=1))
        graph = build_mesh(positions, links, tower_routers, server_router, self.rate)
        placement = self.placement or Rectangle(width=self.side, height=self.side)
        return Layout(graph, place_users(placement, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        if self.placement is not None:
            return (Law.none("users stand as the placement claims"),)

        def coordinates(streams: Streams, size: int) -> NDArray[np.float64]:
            return in_rectangle(size, self.side, self.side, streams.at("users")).ravel()

        return (uniform_law("coordinate of a user in m", self.side, coordinates),)

    def _check_routes(self, needed_m: NDArray[np.float64]) -> None:
        """Raise an error if a tower needs a longer reach."""
        cut_off = [f"tower:{index}" for index in np.flatnonzero(needed_m > self.reach)]
        if cut_off:
            enough = math.ceil(needed_m.max() * 10.0) / 10.0
            problem = f"no chain of routers joins {', '.join(cut_off)} to the server"
            raise ScenarioError([Fault("reach", problem, self.reach, f"{enough:.1f} m is the least that joins them")])
