"""A tree with the server at its root and towers at its leaves."""

from __future__ import annotations

import itertools
import operator
from math import prod
from typing import Annotated

import networkx as nx
import numpy as np
from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import check_one_of
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import disk_distance_law, on_circle
from netfl.network.placement.disk import Disk
from netfl.network.topology import Topology
from netfl.network.topology._graph import MAX_NODES, add_site, place_users
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Bitrate, Extent, LinkDelay, Metres


class Tree(Topology):
    """A tree of routers with the server at its root and a tower at each leaf.

    ``fanout`` is the number of children of each node of a level, from the server down: ``[1, 3]`` is one router below
    the server and three towers below it.  A router is in the middle of the towers that it serves, the server in
    the middle of all.  Users are placed uniformly over the area of a disk around the origin, so that their distance r
    to the origin has P(r ≤ x) = (x/R)², or as a placement states; each belongs to the nearest tower.  Either ``ring``
    or ``towers`` is given, and either ``radius`` or ``placement``.

    Example::

        kind: tree
        fanout: [1, 3]
        ring: 4 km
        radius: 7.5 km
        rate: 50 Mbps
        delay: 2 ms
    """

    fanout: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=100)]
    """Children of each node, level by level from the server down; the last level is the towers."""
    ring: Annotated[Extent, Field(gt=0)] | None = None
    """Radius of the circle around the origin on which the towers are placed, evenly spread."""
    towers: tuple[tuple[Metres, Metres], ...] | None = None
    """Position [x, y] of each tower, in place of ``ring``."""
    radius: Annotated[Extent, Field(gt=0)] | None = None
    """Radius of the disk around the origin over which users are spread."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users, in any other way."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""
    delay: Annotated[LinkDelay, Field(ge=0)] = 0.005
    """Propagation delay of each link."""

    @model_validator(mode="after")
    def _check_positions(self) -> Tree:
        nodes = sum(itertools.accumulate(self.fanout, operator.mul))
        if nodes > MAX_NODES:
            raise ValueError(f"fanout has {nodes:,} towers and routers, more than {MAX_NODES:,}; use fewer children")
        check_one_of(self, "ring", "towers")
        check_one_of(self, "radius", "placement")
        if self.towers is not None and len(self.towers) != prod(self.fanout):
            raise ValueError(
                f"{len(self.towers)} tower positions for the {prod(self.fanout)} towers of fanout; give one for each"
            )
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        if self.ring is None:
            positions: Floats = np.asarray(self.towers, float)
        else:
            positions = on_circle(prod(self.fanout), self.ring)
        graph: nx.Graph[str] = nx.Graph()
        parents = [add_site(graph, "server", positions.mean(axis=0))]
        routers = itertools.count()
        for depth, children in enumerate(self.fanout, start=1):
            level = []
            for index, leaves in enumerate(np.split(positions, len(parents) * children)):
                if depth < len(self.fanout):
                    name = f"router:{next(routers)}"
                else:
                    name = f"tower:{index}"
                level.append(add_site(graph, name, leaves.mean(axis=0)))  # in the middle of the towers below it
                graph.add_edge(parents[index // children], name, rate_bps=self.rate, delay_s=self.delay)
            parents = level
        placement = self.placement or Disk(radius=self.radius or 0.0)
        return Layout(graph, place_users(placement, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        if self.radius is None:
            return (Law.none("the placement gives the positions of users"),)

        def draw_xy_m(streams: Streams, size: int) -> Floats:
            return self.open(size, streams).user_xy_m

        return (disk_distance_law("distance to the origin in m", self.radius, draw_xy_m),)
