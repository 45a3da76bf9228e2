"""What topologies have in common: sites, meshes of relays, and the places of users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netfl.errors import ScenarioError
from netfl.network.layout import LIGHT_M_S
from netfl.network.placement import Placement
from netfl.streams import Streams


def add_site(
    graph: nx.Graph[str], name: str, place: Sequence[float] | NDArray[np.float64], role: str | None = None
) -> str:
    """Put a site into *graph* and give its name back; its role is by default the word before the colon."""
    graph.add_node(name, role=role or name.partition(":")[0], x_m=float(place[0]), y_m=float(place[1]))
    return name


def build_mesh(
    places: NDArray[np.float64], links: Iterable[tuple[int, int]], hosts: Iterable[int], core: int, rate_bps: float
) -> nx.Graph[str]:
    """Routers and the radio relays between them; towers and the server each at a router.

    A tower and the server are joined to their router by a link of no length.  A link's delay is its length over the
    speed of light.

    Args:
        places: where routers stand, ``[routers, 2]``.
        links: pairs of routers that are linked.
        hosts: the router of each tower.
        core: the router of the server.
        rate_bps: the rate of every link.
    """
    graph: nx.Graph[str] = nx.Graph()
    add_site(graph, "server", places[core])
    routers = [add_site(graph, f"router:{index}", place) for index, place in enumerate(places)]
    towers = [(add_site(graph, f"tower:{index}", places[host]), host) for index, host in enumerate(hosts)]
    for one, other in links:
        delay_s = float(np.hypot(*(places[one] - places[other]))) / LIGHT_M_S
        graph.add_edge(routers[one], routers[other], rate_bps=rate_bps, delay_s=delay_s)
    graph.add_edge("server", routers[core], rate_bps=rate_bps, delay_s=0.0)
    for tower, host in towers:
        graph.add_edge(tower, routers[host], rate_bps=rate_bps, delay_s=0.0)
    return graph


def draw_tower_routers(routers: int, towers: int, streams: Streams) -> NDArray[np.int64]:
    """The routers that carry a tower, drawn at random, in order."""
    return np.sort(streams.rng("towers").permutation(routers)[:towers])


def bottleneck_hop(needed: NDArray[np.float64], source: int) -> NDArray[np.float64]:
    """What each router needs to be joined to *source*: the least, over all routes, of the most that a hop needs.

    Args:
        needed: what a direct link of two routers needs, ``[routers, routers]``; Prim's algorithm.
        source: where the routes end.
    """
    gap: NDArray[np.float64] = needed[source].copy()
    gap[source] = 0.0
    joined = np.zeros(len(gap), bool)
    for _ in range(len(gap)):
        nearest = int(np.where(joined, np.inf, gap).argmin())
        joined[nearest] = True
        gap = np.where(joined, gap, np.minimum(gap, np.maximum(gap[nearest], needed[nearest])))
    return gap


def place_users(placement: Placement, users: int, graph: nx.Graph[str], streams: Streams) -> NDArray[np.float64]:
    """The places of *users* users in the network *graph*, ``[users, 2]``.

    Raises:
        ScenarioError: the placement cannot be used; keys relative to the topology.
    """
    towers = [(node["x_m"], node["y_m"]) for _, node in graph.nodes(data=True) if node["role"] == "tower"]
    try:
        return placement.open(users, np.asarray(towers, float).reshape(-1, 2), streams.at("users"))
    except ScenarioError as error:
        raise ScenarioError([fault.under("placement") for fault in error.faults]) from error
