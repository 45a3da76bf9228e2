"""Least-cost routes through a graph to the server."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import Any

import networkx as nx

from netfl.errors import Fault
from netfl.network.layout import Layout

Hops = Mapping[str, tuple[str, ...]]
"""Least-cost next hops of each node that has a route to the server, the best first."""

_EQUAL = 1e-9
"""Relative tolerance of equal costs: sums of the same delays in another order."""


def least_cost(graph: nx.Graph[str], server: str, cost: str | None) -> Hops:
    """Return all least-cost next hops to *server*; among equals first those with fewer hops, then in their order.

    Costs are at least 0.  Every step leads to a lower cost, or over a link of cost 0 to fewer hops, so that no message
    can go in a circle.

    Args:
        graph: nodes and links that are up.
        server: destination of all routes.
        cost: link attribute that is summed; ``None`` counts each link as 1.
    """
    remaining = nx.single_source_dijkstra_path_length(graph, server, weight=lambda u, v, link: _link_cost(link, cost))
    tight: nx.DiGraph[str] = nx.DiGraph()
    for node, node_cost in remaining.items():
        tight.add_node(node)
        for after, link in graph.adj[node].items():
            if remaining[after] + _link_cost(link, cost) <= node_cost * (1.0 + _EQUAL):
                tight.add_edge(after, node, free=remaining[after] >= node_cost * (1.0 - _EQUAL))
    count = nx.single_source_shortest_path_length(tight, server)
    hops = {}
    for node in remaining:
        best = [
            after for after in tight.pred[node] if count[after] < count[node] or not tight.edges[after, node]["free"]
        ]
        hops[node] = tuple(sorted(best, key=count.__getitem__))
    del hops[server]
    return hops


def _link_cost(link: Mapping[str, Any], cost: str | None) -> float:
    return 1.0 if cost is None else float(link[cost])


def route(hops: Hops, node: str, server: str) -> tuple[str, ...]:
    """Return the best route from *node* to *server*, both included; empty if there is none."""
    path = [node]
    while path[-1] != server:
        if path[-1] not in hops:
            return ()
        path.append(hops[path[-1]][0])
    return tuple(path)


def unreachable_faults(layout: Layout, hops: Hops) -> list[Fault]:
    """Return the error of a network in which some towers have no route to the server."""
    towers = [tower for tower in layout.towers if tower not in hops]
    if not towers:
        return []
    cut_off = sorted(nx.node_connected_component(layout.graph, towers[0]), key=layout.names.index)
    pairs = ((node, connected) for node in cut_off for connected in [layout.server, *hops])
    node, connected = min(pairs, key=lambda pair: _distance_m(layout, *pair))
    problem = f"no way leads from {', '.join(towers)} to {layout.server}: the network is in two pieces or more"
    return [Fault("", problem, None, f"link {node} to {connected}, the nearest that has one")]


def _distance_m(layout: Layout, node: str, other: str) -> float:
    a, b = layout.graph.nodes[node], layout.graph.nodes[other]
    return hypot(a["x_m"] - b["x_m"], a["y_m"] - b["y_m"])
