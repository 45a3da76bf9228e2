"""Relays in a fixed order: each tower and router sends on to the one that is stated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.routing import Routing, RoutingTable
from netfl.network.routing._paths import least_cost, route
from netfl.streams import Streams
from netfl.types import Law


class Static(Routing):
    """A chain of relays for each tower, given link by link; the same for all messages and at all times.

    What comes to a relay or a link that is down is lost there: nobody looks for a way around.  Every tower needs a next
    hop, and so does every router that one of them leads to.

    Example::

        kind: static
        next: {tower:0: server}
    """

    next: Annotated[dict[str, str], Field(min_length=1)]
    """For each tower and router that sends, the neighbour that it sends to."""

    def open(self, sites: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        """The chains as stated.

        Raises:
            ScenarioError: a name that there is not, a link that there is not, relays in a circle or without an end.
        """
        faults = [*self._strangers(sites)] or [*self._gaps(sites)] or [*self._circles(sites)]
        if faults:
            raise ScenarioError(faults)
        return _Chains(self.next, sites.server)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("draws nothing"),)

    def _strangers(self, sites: Layout) -> Iterator[Fault]:
        """Names that there are not, senders that do not send, links that there are not."""
        senders = [name for name in sites.names if name != sites.server]
        for node, after in self.next.items():
            key = f"next.{node}"
            if node == sites.server:
                yield Fault(key, "the server is the end of all ways", after, "leave it out")
            elif node not in senders:
                yield Fault(key, f"no such tower or router: '{node}'", None, suggest(node, senders))
            elif after not in sites.names:
                yield Fault(key, "no such node", after, suggest(after, [*sites.graph.adj[node]]))
            elif after not in sites.graph.adj[node]:
                yield Fault(key, f"no link joins {node} to it", after, self._choice(sites, node))

    def _gaps(self, sites: Layout) -> Iterator[Fault]:
        """Towers, and routers on somebody's way, without a next hop."""
        needed = dict.fromkeys((*sites.towers, *self.next.values()))
        for node in needed:
            if node not in self.next and node != sites.server:
                yield Fault("next", f"{node} has no next hop", None, self._choice(sites, node))

    def _circles(self, sites: Layout) -> Iterator[Fault]:
        """Relays that send in a circle, each circle told once, with a link that breaks it."""
        seen: set[str] = set()
        for start in self.next:
            way = [start]
            while way[-1] in self.next and way[-1] not in seen:
                seen.add(way[-1])
                way.append(self.next[way[-1]])
            if way[-1] in way[:-1]:
                circle = way[way.index(way[-1]) :]
                node = min(circle, key=lambda name: len(_shortest(sites, name)))
                problem = f"relays send in a circle that never comes to {sites.server}: {' → '.join(circle)}"
                yield Fault(f"next.{node}", problem, None, self._choice(sites, node))

    def _choice(self, sites: Layout, node: str) -> str:
        """The neighbour of *node* that is nearest to the server."""
        way = _shortest(sites, node)
        return f"its best next hop is {way[1]}" if way else f"no way leads from it to {sites.server}: link them"


def _shortest(sites: Layout, node: str) -> tuple[str, ...]:
    """The way of fewest hops from *node* to the server."""
    return route(least_cost(sites.graph, sites.server, None), node, sites.server)


class _Chains(RoutingTable):
    """Next hops as stated."""

    fixed = True

    def __init__(self, after: dict[str, str], server: str) -> None:
        self._next, self._server = after, server

    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        """The stated one."""
        return self._next.get(node)

    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        """From one stated hop to the next."""
        return route({name: (after,) for name, after in self._next.items()}, node, self._server)
