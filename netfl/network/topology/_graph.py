"""Graphs of topologies: sites, meshes of radio relays, and positions of users."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated

import networkx as nx
import numpy as np
from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.errors import prefix_faults
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import in_rectangle
from netfl.network.placement.rectangle import Rectangle
from netfl.network.topology import Topology
from netfl.streams import Streams
from netfl.types import Floats, Ints
from netfl.units import Bitrate, Extent

MAX_NODES = 10_000
"""Largest number of routers of a generated topology, whose routes are computed before anything runs."""


def add_site(graph: nx.Graph[str], name: str, position: Sequence[float] | Floats, role: str | None = None) -> str:
    """Add a site to *graph* and return its name; the role is by default the word before the colon."""
    x_m, y_m = position
    graph.add_node(name, role=role or name.partition(":")[0], x_m=float(x_m), y_m=float(y_m))
    return name


def build_mesh(
    positions: Floats,
    links: Iterable[tuple[int, int]],
    tower_routers: Iterable[int],
    server_router: int,
    rate_bps: float,
) -> nx.Graph[str]:
    """Return a graph of routers linked by radio relays, with towers and the server at some of them.

    Towers and the server are joined to their router by a link of no length.  The delay of a link is its length over the
    speed of light.

    Args:
        positions: positions of the routers, ``[routers, 2]``.
        links: pairs of routers.
        tower_routers: the router of each tower.
        server_router: the router of the server.
        rate_bps: rate of all links.
    """
    graph: nx.Graph[str] = nx.Graph()
    tower_routers = [*tower_routers]
    # the sites
    add_site(graph, "server", positions[server_router])
    routers = [add_site(graph, f"router:{index}", position) for index, position in enumerate(positions)]
    towers = [add_site(graph, f"tower:{index}", positions[router]) for index, router in enumerate(tower_routers)]
    # their links
    for first, second in links:
        delay_s = float(np.hypot(*(positions[first] - positions[second]))) / LIGHT_M_S
        graph.add_edge(routers[first], routers[second], rate_bps=rate_bps, delay_s=delay_s)
    graph.add_edge("server", routers[server_router], rate_bps=rate_bps, delay_s=0.0)
    for tower, router in zip(towers, tower_routers, strict=True):
        graph.add_edge(tower, routers[router], rate_bps=rate_bps, delay_s=0.0)
    return graph


def bottleneck_hop(needed: Floats, source: int) -> Floats:
    """Return the smallest value that joins each router to *source*: the minimum over routes of the largest hop.

    Prim's algorithm: routers are joined one by one, the one with the smallest value first.

    Args:
        needed: value that a direct link of two routers needs, ``[routers, routers]``.
        source: end of all routes.
    """
    smallest: Floats = needed[source].copy()
    smallest[source] = 0.0
    is_joined = np.zeros(len(smallest), bool)
    for _ in range(len(smallest)):
        nearest = int(np.where(is_joined, np.inf, smallest).argmin())
        is_joined[nearest] = True
        by_nearest = np.maximum(smallest[nearest], needed[nearest])
        smallest = np.where(is_joined, smallest, np.minimum(smallest, by_nearest))
    return smallest


def place_users(placement: Placement, users: int, graph: nx.Graph[str], streams: Streams) -> Floats:
    """Return the positions of *users* users in the network *graph*, ``[users, 2]``.

    Raises:
        ScenarioError: the placement cannot be used; keys relative to the topology.
    """
    towers = [(node["x_m"], node["y_m"]) for _, node in graph.nodes(data=True) if node["role"] == "tower"]
    with prefix_faults("placement"):
        return placement.open(users, np.asarray(towers, float).reshape(-1, 2), streams.at("users"))


class RandomMesh(Topology):
    """Base of meshes whose routers are placed uniformly in a square; some, drawn at random, carry a tower each."""

    routers: Annotated[int, Field(ge=1)]
    """Number of routers."""
    towers: Annotated[int, Field(ge=1)]
    """Number of routers that carry a tower."""
    side: Annotated[Extent, Field(gt=0)]
    """Side of the square."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users; ``null`` for uniform in the square."""

    @model_validator(mode="after")
    def _check_towers(self) -> RandomMesh:
        if self.towers > self.routers:
            raise ValueError(f"{self.towers} towers on {self.routers} routers; give towers no more than routers")
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        positions = in_rectangle(self.routers, self.side, self.side, streams.at("routers"))
        tower_routers = np.sort(streams.rng("towers").permutation(self.routers)[: self.towers])
        links, server_router = self._link(positions, tower_routers, streams)
        graph = build_mesh(positions, links, tower_routers, server_router, self.rate)
        placement = self.placement or Rectangle(width=self.side, height=self.side)
        return Layout(graph, place_users(placement, users, graph, streams))

    @abstractmethod
    def _link(self, positions: Floats, tower_routers: Ints, streams: Streams) -> tuple[Ints, int]:
        """Return the pairs of linked routers, ``[links, 2]``, and the router of the server."""
