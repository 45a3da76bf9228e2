"""Least-cost routes, with optional load sharing and reaction to failures."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Annotated, Literal

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

_COSTS = {"hops": "hops", "delay": "delay_s", "weight": "weight"}
"""Link attribute that each metric sums; no link has ``hops``, and so each counts 1."""


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
        cost = _COSTS[self.metric]
        if cost == "weight":
            faults = [*_weight_faults(layout, cost)]
            if faults:
                raise ScenarioError(faults)
        hops = least_cost(layout.graph, layout.server, cost)
        faults = unreachable_faults(layout, hops)
        if faults:
            raise ScenarioError(faults)
        known_failures = None
        if self.convergence is not None and outages:
            known_failures = _KnownFailures(layout, outages, self.convergence)
        return _ShortestPathTable(self, layout, hops, known_failures, streams.field("split"))

    def laws(self) -> tuple[Law, ...]:
        if self.split != "flow":
            return super().laws()
        law = Law(
            "position of a flow among equal routes",
            "uniform over (0, 1), divided equally among k routes; independent for each node",
            draw=lambda streams, size: streams.field("split").uniform(np.arange(size), 0),
            mean=0.5,
            variance=1.0 / 12.0,
            cdf=lambda x: np.clip(x, 0.0, 1.0),
        )
        return (law,)


def _weight_faults(layout: Layout, cost: str) -> Iterator[Fault]:
    for node, other, link in layout.graph.edges(data=True):
        if not isinstance(link.get(cost), int | float) or not 0 <= link[cost] < inf:
            hint = suggest(cost, [name for name in link if name != cost])
            problem = f"link {node}-{other} has no {cost} of at least 0"
            yield Fault("metric", problem, "weight", f"give every link a weight, or use metric delay or hops ({hint})")
            return


class _KnownFailures:
    """Failed nodes and links as the routers know them, with a delay."""

    def __init__(self, layout: Layout, outages: CombinedOutages, delay_s: float) -> None:
        self._outages = outages
        self._delay_s = delay_s
        server = layout.number(layout.server)
        self._nodes = np.array([node for node in range(layout.users, layout.nodes) if node != server])
        self._valid_until_s = -inf
        self._down: frozenset[int] = frozenset()

    def at(self, now_s: float) -> frozenset[int]:
        """Return the numbers of the nodes and links that are known to be down."""
        if now_s >= self._valid_until_s:
            state_s = max(0.0, now_s - self._delay_s)
            self._down = frozenset(self._nodes[~self._outages.up(self._nodes, state_s)].tolist())
            self._valid_until_s = float(self._outages.next_change(self._nodes, state_s).min()) + self._delay_s
        return self._down


class _ShortestPathTable(RoutingTable):
    """Least-cost next hops, computed again when the known failures change; *hops* are those without failures."""

    def __init__(
        self, model: ShortestPath, layout: Layout, hops: Hops, failures: _KnownFailures | None, field: RandomField
    ) -> None:
        self._layout = layout
        self._cost = _COSTS[model.metric]
        self._split = model.split
        self._field = field
        self._failures = failures
        self._hops = hops
        self._avoided: frozenset[int] = frozenset()  # failures that the hops avoid
        self._flow_draws: dict[tuple[str, int], float] = {}  # position of a flow among equal hops, by node and flow
        self._turns: dict[str, int] = {}  # messages that each node has split, less one
        has_one_route = model.split is None or all(len(equal) == 1 for equal in hops.values())
        self.fixed = failures is None and has_one_route

    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        equal = self._current_hops(now_s).get(node)
        if equal is None:
            return None
        if len(equal) == 1 or self._split is None:
            return equal[0]
        if self._split == "message":
            turn = self._turns.get(node, -1) + 1
            self._turns[node] = turn
            return equal[turn % len(equal)]
        key = node, message.flow
        if key not in self._flow_draws:
            self._flow_draws[key] = float(self._field.uniform(message.flow, self._layout.number(node)))
        return equal[int(self._flow_draws[key] * len(equal))]

    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        return route(self._current_hops(now_s), node, self._layout.server)

    def _current_hops(self, now_s: float) -> Hops:
        if self._failures is None:
            return self._hops
        down = self._failures.at(now_s)
        if down != self._avoided:
            self._hops = self._hops_around(down)
            self._avoided = down
        return self._hops

    def _hops_around(self, down: frozenset[int]) -> Hops:
        """Return the least-cost next hops without the nodes and links that are down."""
        graph = self._layout.graph.copy()
        number = self._layout.number
        graph.remove_edges_from([link for link in self._layout.graph.edges if number("-".join(link)) in down])
        graph.remove_nodes_from([name for name in self._layout.names if number(name) in down])
        return least_cost(graph, self._layout.server, self._cost)
