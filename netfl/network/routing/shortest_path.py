"""Everybody sends on along the way that costs least, and may learn of failures."""

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
"""For each metric, the attribute of links that is summed."""


class ShortestPath(Routing):
    """The way of least total cost (E. W. Dijkstra, Numerische Mathematik 1, 1959): hops, delay, or given weights.

    Of ways that cost the same the one with the fewest hops is taken, or all of them with ``split`` (equal-cost
    multi-path, RFC 2992): each node divides by ``flow``, where chance picks one of its k equal next hops for each flow,
    with probability 1/k each, and stays with it as long as there are as many; or by ``message``, in turn.

    **Failures.**  Without ``convergence`` routes stay as they are, and what comes to a dead node or link is lost.  With
    it, all routers know at time t what was up at t - convergence, and take the best way through that: from a failure
    until so much later messages still go the old way and are lost at the dead element, and for so long after its repair
    it is avoided still.  What is dead at time 0 is known from the start.  A message for which no way is known is lost
    where it is.  The change is made everywhere at once: loops between routers of different mind are not modelled.

    Example::

        kind: shortest_path
        metric: delay
        split: flow
        convergence: 200 ms
    """

    metric: Literal["delay", "hops", "weight"] = "delay"
    """What a link costs: its propagation delay, 1, or its attribute ``weight``, which the topology must give."""
    split: Literal["flow", "message"] | None = None
    """How equal ways are shared; ``null`` for not at all."""
    convergence: Annotated[Seconds, Field(ge=0)] | None = None
    """How long after a failure, or a repair, routes are mended; ``null`` for never."""

    def open(self, sites: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        """The routes while everything is up, ready to change.

        Raises:
            ScenarioError: a tower has no way to the server, or links have no weights.
        """
        cost = _COSTS[self.metric]
        faults = list(_unweighted(sites, cost)) if cost == "weight" else []
        if faults:
            raise ScenarioError(faults)
        hops = least_cost(sites.graph, sites.server, cost)
        if faults := unreachable_faults(sites, hops):
            raise ScenarioError(faults)
        known = None if self.convergence is None or not outages else _Known(sites, outages, self.convergence)
        return _Ways(sites, cost, hops, known, _Split(self.split, sites, streams.field("split")))

    def laws(self) -> tuple[Law, ...]:
        """The place of a flow among equal ways."""
        if self.split != "flow":
            return (Law.none("draws nothing"),)
        return (
            Law(
                "where a flow falls among equal ways",
                "uniform over (0, 1), of which each of k ways has a part of 1/k; independent from node to node",
                draw=lambda streams, size: streams.field("split").uniform(np.arange(size), 0),
                mean=0.5,
                variance=1.0 / 12.0,
                cdf=lambda x: np.clip(x, 0.0, 1.0),
            ),
        )


def _unweighted(sites: Layout, cost: str) -> Iterator[Fault]:
    """The fault of links without a usable weight."""
    for one, other, link in sites.graph.edges(data=True):
        if not isinstance(link.get(cost), int | float) or not 0 <= link[cost] < inf:
            hint = suggest(cost, [name for name in link if name != cost])
            problem = f"link {one}-{other} has no {cost} of at least 0"
            yield Fault("metric", problem, "weight", f"give every link one, or take metric delay or hops ({hint})")
            return


class _Known:
    """What the routers know to be dead, which changes some time after the fact.

    Args:
        sites: the network.
        outages: who is up when.
        lag_s: how much later.
    """

    def __init__(self, sites: Layout, outages: CombinedOutages, lag_s: float) -> None:
        self._sites, self._outages, self._lag_s = sites, outages, lag_s
        server = sites.number(sites.server)
        self._nodes = np.array([node for node in range(sites.users, sites.nodes) if node != server])
        self._until_s = -inf
        self._dead: frozenset[int] = frozenset()

    def dead(self, now_s: float) -> frozenset[int]:
        """The nodes and links that are known to be down now."""
        if now_s >= self._until_s:
            then_s = max(0.0, now_s - self._lag_s)
            self._dead = frozenset(self._nodes[~self._outages.up(self._nodes, then_s)].tolist())
            self._until_s = float(self._outages.next_change(self._nodes, then_s).min()) + self._lag_s
        return self._dead


class _Split:
    """Which of equal next hops a message takes."""

    def __init__(self, by: str | None, sites: Layout, field: RandomField) -> None:
        self._by, self._sites, self._field = by, sites, field
        self._falls: dict[tuple[str, int], float] = {}
        self._turn: dict[str, int] = {}

    def __bool__(self) -> bool:
        return self._by is not None

    def pick(self, node: str, equals: tuple[str, ...], message: Message) -> str:
        """One of *equals* for *message* at *node*."""
        if self._by == "message":
            turn = self._turn[node] = self._turn.get(node, -1) + 1
            return equals[turn % len(equals)]
        key = node, message.flow
        if key not in self._falls:
            self._falls[key] = float(self._field.uniform(message.flow, self._sites.number(node)))
        return equals[int(self._falls[key] * len(equals))]


class _Ways(RoutingTable):
    """Least-cost next hops at work."""

    def __init__(self, sites: Layout, cost: str | None, hops: Hops, known: _Known | None, split: _Split) -> None:
        self._sites, self._cost, self._known, self._split = sites, cost, known, split
        self._hops, self._around = hops, frozenset[int]()
        several = bool(split) and any(len(equals) > 1 for equals in hops.values())
        self.fixed = known is None and not several

    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        """The best neighbour that is known to be up, or one of the equally good ones."""
        equals = self._best(now_s).get(node)
        if equals is None:
            return None
        return self._split.pick(node, equals, message) if self._split and len(equals) > 1 else equals[0]

    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        """The best way that is known to be up."""
        return route(self._best(now_s), node, self._sites.server)

    def _best(self, now_s: float) -> Hops:
        """The next hops around all that is known to be dead."""
        if self._known is not None:
            dead = self._known.dead(now_s)
            if dead != self._around:
                self._hops, self._around = least_cost(self._without(dead), self._sites.server, self._cost), dead
        return self._hops

    def _without(self, dead: frozenset[int]) -> nx.Graph[str]:
        """The network without some of its nodes and links."""
        graph, number = self._sites.graph.copy(), self._sites.number
        graph.remove_edges_from([link for link in self._sites.graph.edges if number("-".join(link)) in dead])
        graph.remove_nodes_from([name for name in self._sites.names if number(name) in dead])
        return graph
