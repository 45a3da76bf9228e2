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
    remaining = nx.single_source_dijkstra_path_length(graph, server, weight=cost)
    tight: nx.DiGraph[str] = nx.DiGraph()
    for node, node_cost in remaining.items():
        tight.add_node(node)
        for after, link in graph.adj[node].items():
            if remaining[after] + link.get(cost, 1.0) <= node_cost * (1.0 + _EQUAL):
                tight.add_edge(after, node, free=remaining[after] >= node_cost * (1.0 - _EQUAL))
    count = nx.single_source_shortest_path_length(tight, server)
    hops = {}
    for node in remaining:
        links = tight.pred[node].items()
        best = [after for after, link in links if count[after] < count[node] or not link["free"]]
        hops[node] = tuple(sorted(best, key=count.__getitem__))
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
    position = {name: (node["x_m"], node["y_m"]) for name, node in layout.graph.nodes(data=True)}
    pairs = product(cut_off, [layout.server, *hops])
    node, connected = min(pairs, key=lambda pair: dist(position[pair[0]], position[pair[1]]))
    problem = f"no path leads from {', '.join(towers)} to {layout.server}: the network is not connected"
    return [Fault("", problem, None, f"link {node} to {connected}, the nearest node with a path")]
