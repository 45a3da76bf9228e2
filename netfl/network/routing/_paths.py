"""Least-cost routes through a graph to the server."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import dist

import networkx as nx

from netfl.errors import Fault
from netfl.network.layout import Layout

Hops = Mapping[str, tuple[str, ...]]
"""Least-cost next hops of each node that has a route to the server, the best first."""

_EQUAL = 1e-9
"""Relative tolerance of equal costs: sums of the same delays in another order."""


def least_cost(graph: nx.Graph[str], server: str, cost: str) -> Hops:
    """Return all least-cost next hops to *server*; among equals first those with fewer hops, then in their order.

    Costs are at least 0.  Every step leads to a lower cost, or over a link of cost 0 to fewer hops, so that no message
    can go in a circle.

    Args:
        graph: nodes and links that are up.
        server: destination of all routes.
        cost: link attribute that is summed; links without it count 1.
    """
    costs = nx.single_source_dijkstra_path_length(graph, server, weight=cost)
    # the links of all least-cost routes, away from the server
    routes: nx.DiGraph[str] = nx.DiGraph()
    for node, node_cost in costs.items():
        routes.add_node(node)
        for after, link in graph.adj[node].items():
            if costs[after] + link.get(cost, 1.0) <= node_cost * (1.0 + _EQUAL):
                routes.add_edge(after, node, is_free=costs[after] >= node_cost * (1.0 - _EQUAL))
    # a link of cost 0 is on routes in both directions: take it only to fewer hops
    hop_counts = nx.single_source_shortest_path_length(routes, server)
    hops = {}
    for node in costs:
        links = routes.pred[node].items()
        best = [after for after, link in links if hop_counts[after] < hop_counts[node] or not link["is_free"]]
        hops[node] = tuple(sorted(best, key=hop_counts.__getitem__))
    del hops[server]
    return hops


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
    xy_m = {name: (node["x_m"], node["y_m"]) for name, node in layout.graph.nodes(data=True)}
    pairs = product(cut_off, [layout.server, *hops])
    node, connected = min(pairs, key=lambda pair: dist(xy_m[pair[0]], xy_m[pair[1]]))
    problem = f"no path leads from {', '.join(towers)} to {layout.server}: the network is not connected"
    return [Fault("", problem, None, f"link {node} to {connected}, the nearest node with a path")]
