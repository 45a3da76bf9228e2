"""Least-cost routes, with optional load sharing and reaction to failures."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Annotated, Literal

import networkx as nx
import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.routing import Routing, RoutingTable
from netfl.network.routing._paths import Hops, least_cost, route, unreachable_faults
from netfl.streams import RandomField, Streams
from netfl.types import Law
from netfl.units import Seconds

_COSTS = {"hops": None, "delay": "delay_s", "weight": "weight"}
"""Link attribute that each metric sums."""


class ShortestPath(Routing):
    """Routes of least total cost (E. W. Dijkstra, Numerische Mathematik 1, 1959): hops, delay, or given weights.

    Of routes with equal cost the one with the fewest hops is used, or all of them with ``split`` (equal-cost
    multi-path, RFC 2992).  Each node splits by ``flow``: one of its k equal next hops is drawn for each flow, with
    probability 1/k each, and stays while there are k; or by ``message``, in turn.

    **Failures.**  Without ``convergence`` routes stay fixed, and messages to a failed node or link are lost.  With it,
    all routers know at time t the state at t - convergence, and use the best route through that: for this time after a
    failure messages are still lost at the failed element, and for this time after its repair it is still avoided.
    Failures at time 0 are known from the start.  A message without a known route is lost where it is.  All routers
    change at the same time: temporary loops between routers with different knowledge are not modelled.

    Example::

        kind: shortest_path
        metric: delay
        split: flow
        convergence: 200 ms
    """

    metric: Literal["delay", "hops", "weight"] = "delay"
    """Cost of a link: its propagation delay, 1, or its attribute ``weight``, which the topology must give."""
    split: Literal["flow", "message"] | None = None
    """Load sharing over routes of equal cost; ``null`` for none."""
    convergence: Annotated[Seconds, Field(ge=0)] | None = None
    """Time from a failure or a repair to the update of the routes; ``null`` for no update."""

    def open(self, layout: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        """Return a table with the routes without failures, which it updates later.

        Raises:
            ScenarioError: a tower has no route to the server, or links have no weights.
        """
        cost = _COSTS[self.metric]
        if cost == "weight" and (faults := list(_weight_faults(layout, cost))):
            raise ScenarioError(faults)
        hops = least_cost(layout.graph, layout.server, cost)
        if faults := unreachable_faults(layout, hops):
            raise ScenarioError(faults)
        failures = None if self.convergence is None or not outages else _Failures(layout, outages, self.convergence)
        split = _Split(self.split, layout, streams.field("split")) if self.split else None
        return _ShortestPathTable(layout, cost, hops, failures, split)

    def laws(self) -> tuple[Law, ...]:
        """Claim the position of a flow among equal routes."""
        if self.split != "flow":
            return super().laws()
        return (
            Law(
                "position of a flow among equal routes",
                "uniform over (0, 1), of which each of k routes has a part of 1/k; independent from node to node",
                draw=lambda streams, size: streams.field("split").uniform(np.arange(size), 0),
                mean=0.5,
                variance=1.0 / 12.0,
                cdf=lambda x: np.clip(x, 0.0, 1.0),
            ),
        )


def _weight_faults(layout: Layout, cost: str) -> Iterator[Fault]:
    """Yield the error of the first link without a valid weight."""
    for node, other, link in layout.graph.edges(data=True):
        if not isinstance(link.get(cost), int | float) or not 0 <= link[cost] < inf:
            hint = suggest(cost, [name for name in link if name != cost])
            problem = f"link {node}-{other} has no {cost} of at least 0"
            yield Fault("metric", problem, "weight", f"give every link one, or take metric delay or hops ({hint})")
            return


class _Failures:
    """Failed nodes and links as the routers know them, with a delay.

    Args:
        layout: the network.
        outages: state of nodes and links over time.
        delay_s: time from a failure or repair until the routers know it.
    """

    def __init__(self, layout: Layout, outages: CombinedOutages, delay_s: float) -> None:
        self._outages, self._delay_s = outages, delay_s
        server = layout.number(layout.server)
        self._nodes = np.array([node for node in range(layout.users, layout.nodes) if node != server])
        self._valid_until_s = -inf
        self._down: frozenset[int] = frozenset()

    def known(self, now_s: float) -> frozenset[int]:
        """Return the nodes and links that are known to be down at *now_s*."""
        if now_s >= self._valid_until_s:
            state_s = max(0.0, now_s - self._delay_s)
            self._down = frozenset(self._nodes[~self._outages.up(self._nodes, state_s)].tolist())
            self._valid_until_s = float(self._outages.next_change(self._nodes, state_s).min()) + self._delay_s
        return self._down


class _Split:
    """Choice among equal next hops, by flow or by message."""

    def __init__(self, by: str, layout: Layout, field: RandomField) -> None:
        self._by, self._layout, self._field = by, layout, field
        self._flow_draws: dict[tuple[str, int], float] = {}
        self._turns: dict[str, int] = {}

    def pick(self, node: str, hops: tuple[str, ...], message: Message) -> str:
        """Return one of *hops* for *message* at *node*."""
        if self._by == "message":
            turn = self._turns[node] = self._turns.get(node, -1) + 1
            return hops[turn % len(hops)]
        key = node, message.flow
        if key not in self._flow_draws:
            self._flow_draws[key] = float(self._field.uniform(message.flow, self._layout.number(node)))
        return hops[int(self._flow_draws[key] * len(hops))]


class _ShortestPathTable(RoutingTable):
    def __init__(
        self, layout: Layout, cost: str | None, hops: Hops, failures: _Failures | None, split: _Split | None
    ) -> None:
        self._layout, self._cost, self._failures, self._split = layout, cost, failures, split
        self._hops, self._avoided = hops, frozenset[int]()
        self.fixed = failures is None and (split is None or all(len(equal) == 1 for equal in hops.values()))

    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        equal = self._current_hops(now_s).get(node)
        if equal is None:
            return None
        return self._split.pick(node, equal, message) if self._split and len(equal) > 1 else equal[0]

    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        return route(self._current_hops(now_s), node, self._layout.server)

    def _current_hops(self, now_s: float) -> Hops:
        """Return the next hops around all known failures."""
        if self._failures is not None:
            down = self._failures.known(now_s)
            if down != self._avoided:
                self._hops, self._avoided = least_cost(self._graph_without(down), self._layout.server, self._cost), down
        return self._hops

    def _graph_without(self, down: frozenset[int]) -> nx.Graph[str]:
        graph, number = self._layout.graph.copy(), self._layout.number
        graph.remove_edges_from([link for link in self._layout.graph.edges if number("-".join(link)) in down])
        graph.remove_nodes_from([name for name in self._layout.names if number(name) in down])
        return graph
