"""Routers on a circle."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import ByForm
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import disk_distance_law, on_circle
from netfl.network.placement.disk import Disk
from netfl.network.topology import Topology
from netfl.network.topology._graph import MAX_NODES, build_mesh, place_users
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Bitrate, Extent


class Ring(Topology):
    """Routers spread evenly over a circle around the origin, each linked to its two neighbours.

    ``router:0`` is to the east, the others follow counter-clockwise, n of them on a circle of radius R: a link is
    2R sin(π/n) long, and its delay is its length over the speed of light.  Every tower has two routes to the server, so
    that one broken link disconnects nothing.  All or some routers carry a tower; the server is at one.  Both are
    joined to their router by a link of no length.  Users are placed uniformly over the disk that the circle encloses,
    or as a placement states; each belongs to the nearest tower.

    Example::

        kind: ring
        routers: 6
        radius: 400 m
        towers: [1, 3, 5]
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=3, le=MAX_NODES)]
    """Number of routers."""
    radius: Annotated[Extent, Field(gt=0)]
    """R, the radius of the circle."""
    towers: Annotated[
        Literal["all"] | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)], ByForm()
    ] = "all"
    """``all`` routers carry a tower, or the listed ones, counted from 0."""
    server: Annotated[int, Field(ge=0)] = 0
    """The router at which the server is."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users; ``null`` for uniform within the circle."""

    @model_validator(mode="after")
    def _check_routers(self) -> Ring:
        towers: tuple[int, ...] = ()
        if self.towers != "all":
            towers = self.towers
        for router in (*towers, self.server):
            if router >= self.routers:
                raise ValueError(f"there is no router {router}; use one from 0 to {self.routers - 1}")
        if len(set(towers)) < len(towers):
            raise ValueError("towers lists a router twice; list each once")
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        links = [(router, (router + 1) % self.routers) for router in range(self.routers)]
        tower_routers = self.towers
        if tower_routers == "all":
            tower_routers = tuple(range(self.routers))
        graph = build_mesh(on_circle(self.routers, self.radius), links, tower_routers, self.server, self.rate)
        return Layout(graph, place_users(self.placement or Disk(radius=self.radius), users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        if self.placement is not None:
            return (Law.none("the placement gives the positions of users"),)

        def draw_xy_m(streams: Streams, size: int) -> Floats:
            return self.open(size, streams).user_xy_m

        return (disk_distance_law("distance of a user to the origin in m", self.radius, draw_xy_m),)
