"""Least-cost ways through a graph to the server."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import Any

import networkx as nx

from netfl.errors import Fault
from netfl.network.layout import Layout

Hops = Mapping[str, tuple[str, ...]]
"""For each node that has a way to the server, the neighbours by which it costs least, the best first."""

_EQUAL = 1e-9
"""Costs that differ by less than this share are equal: sums of the same delays in another order."""


def least_cost(graph: nx.Graph[str], server: str, cost: str | None) -> Hops:
    """All least-cost next hops to *server*; among equals the ones with fewer hops to go first, then in their order.

    Costs are of at least 0.  Every step leads to a lower cost, or over a link that costs nothing to fewer hops to go,
    so no message can go in a circle.

    Args:
        graph: what is up.
        server: where all ways lead.
        cost: the links' attribute that is summed; ``None`` where each link counts 1.
    """
    left = nx.single_source_dijkstra_path_length(graph, server, weight=lambda one, other, link: _price(link, cost))
    tight: nx.DiGraph[str] = nx.DiGraph()
    for node, least in left.items():
        tight.add_node(node)
        for after, link in graph.adj[node].items():
            if left[after] + _price(link, cost) <= least * (1.0 + _EQUAL):
                tight.add_edge(after, node, free=left[after] >= least * (1.0 - _EQUAL))
    far = nx.single_source_shortest_path_length(tight, server)
    hops = {}
    for node in left:
        good = [after for after in tight.pred[node] if far[after] < far[node] or not tight.edges[after, node]["free"]]
        hops[node] = tuple(sorted(good, key=far.__getitem__))
    del hops[server]
    return hops


def _price(link: Mapping[str, Any], cost: str | None) -> float:
    """What a link costs."""
    return 1.0 if cost is None else float(link[cost])


def route(hops: Hops, node: str, server: str) -> tuple[str, ...]:
    """The best way from *node* to *server*, both included; empty if there is none."""
    way = [node]
    while way[-1] != server:
        if way[-1] not in hops:
            return ()
        way.append(hops[way[-1]][0])
    return tuple(way)


def unreachable_faults(sites: Layout, hops: Hops) -> list[Fault]:
    """The fault of a network in which some towers have no way to the server."""
    lone = [tower for tower in sites.towers if tower not in hops]
    if not lone:
        return []
    cut_off = sorted(nx.node_connected_component(sites.graph, lone[0]), key=sites.names.index)
    one, other = min(
        ((here, there) for here in cut_off for there in [sites.server, *hops]), key=lambda pair: _gap_m(sites, *pair)
    )
    problem = f"no way leads from {', '.join(lone)} to {sites.server}: the network is in two pieces or more"
    return [Fault("", problem, None, f"link {one} to {other}, the nearest that has one")]


def _gap_m(sites: Layout, one: str, other: str) -> float:
    """The distance between two nodes."""
    a, b = sites.graph.nodes[one], sites.graph.nodes[other]
    return hypot(a["x_m"] - b["x_m"], a["y_m"] - b["y_m"])
