"""Routers strewn over a square and linked where they are near enough."""

from __future__ import annotations

import math
from typing import Annotated

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.sites import LIGHT_M_S, Sites
from netfl.network.topology import Topology
from netfl.network.topology._placement import add_site, in_square
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bitrate, Metres


class RandomGeometric(Topology):
    """Routers uniform in a square, linked wherever they are within reach of each other (Gilbert 1961).

    Some of the routers, drawn at random, carry a tower each; the server stands at the router nearest the centre.
    A tower and the server are joined to their router by a link of no length.  A link's delay is its length over the
    speed of light: radio relays, no processing.  Users stand uniformly in the square; each belongs to the nearest
    tower.  A tower that no chain of routers joins to the server is a fault: E. N. Gilbert, "Random plane networks",
    J. SIAM 9 (1961), shows how rare that is for a given reach.

    Example::

        kind: random_geometric
        routers: 40
        towers: 6
        side: 20 km
        reach: 8 km
        rate: 100 Mbps
    """

    routers: Annotated[int, Field(ge=1, le=5000)]
    """How many routers there are."""
    towers: Annotated[int, Field(ge=1)]
    """How many of them carry a tower."""
    side: Annotated[Metres, Field(gt=0)]
    """Side of the square."""
    reach: Annotated[Metres, Field(gt=0)]
    """Longest distance that a link spans."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""

    @model_validator(mode="after")
    def _enough_routers(self) -> RandomGeometric:
        """A router for each tower."""
        if self.towers > self.routers:
            raise ValueError(f"{self.towers} towers on {self.routers} routers; give towers no more than routers")
        return self

    def open(self, users: int, streams: Streams) -> Sites:
        """Strew, link, and see that every tower has a route.

        Raises:
            ScenarioError: a tower has no route to the server; the fault tells the reach that would do.
        """
        places = in_square(self.routers, self.side, streams.at("routers"))
        hosts = np.sort(streams.rng("towers").permutation(self.routers)[: self.towers])
        centre = int(np.hypot(*places.T).argmin())
        length = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
        self._see_routes(_widest_gap(length, centre)[hosts])
        graph = self._graph(places, length, hosts, centre)
        return Sites(graph, in_square(users, self.side, streams.at("users")))

    def laws(self) -> tuple[Law, ...]:
        """A user's coordinate."""
        return (
            Law(
                "coordinate of a user in m",
                "uniform on ±side/2, east and north alike and independent: variance side²/12",
                draw=lambda streams, size: in_square(size, self.side, streams.at("users")).ravel(),
                mean=0.0,
                variance=self.side**2 / 12.0,
                cdf=lambda x: np.clip(x / self.side + 0.5, 0.0, 1.0),
            ),
        )

    def _see_routes(self, needed_m: NDArray[np.float64]) -> None:
        """Stop with a fault if a tower needs a longer reach than there is."""
        cut_off = [f"tower:{index}" for index in np.flatnonzero(needed_m > self.reach)]
        if cut_off:
            enough = math.ceil(needed_m.max() * 10.0) / 10.0
            problem = f"no chain of routers joins {', '.join(cut_off)} to the server"
            raise ScenarioError([Fault("reach", problem, self.reach, f"{enough:.1f} m is the least that joins them")])

    def _graph(
        self, places: NDArray[np.float64], length: NDArray[np.float64], hosts: NDArray[np.int64], centre: int
    ) -> nx.Graph[str]:
        """The linked infrastructure."""
        graph: nx.Graph[str] = nx.Graph()
        add_site(graph, "server", places[centre])
        routers = [add_site(graph, f"router:{index}", place) for index, place in enumerate(places)]
        towers = [add_site(graph, f"tower:{index}", places[host]) for index, host in enumerate(hosts)]
        for one, other in zip(*np.nonzero(np.triu(length <= self.reach, k=1)), strict=True):
            delay_s = float(length[one, other]) / LIGHT_M_S
            graph.add_edge(routers[one], routers[other], rate_bps=self.rate, delay_s=delay_s)
        graph.add_edge("server", routers[centre], rate_bps=self.rate, delay_s=0.0)
        for tower, host in zip(towers, hosts, strict=True):
            graph.add_edge(tower, routers[host], rate_bps=self.rate, delay_s=0.0)
        return graph


def _widest_gap(length: NDArray[np.float64], source: int) -> NDArray[np.float64]:
    """For each router the least reach that joins it to *source*: the best route's longest hop, by Prim's algorithm."""
    gap: NDArray[np.float64] = length[source].copy()
    gap[source] = 0.0
    joined = np.zeros(len(gap), bool)
    for _ in range(len(gap)):
        nearest = int(np.where(joined, np.inf, gap).argmin())
        joined[nearest] = True
        gap = np.where(joined, gap, np.minimum(gap, np.maximum(gap[nearest], length[nearest])))
    return gap
