"""Static routes: a given next hop for each tower and router."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.routing import Routing, RoutingTable
from netfl.network.routing._paths import least_cost, route
from netfl.streams import Streams


class Static(Routing):
    """A given chain of relays for each tower, equal for all messages at all times.

    A message that reaches a relay or a link that is down is lost; there are no alternative routes.  Every tower needs a
    next hop, and so does every router that is the next hop of another node.

    Example::

        kind: static
        next: {tower:0: server}
    """

    next: Annotated[dict[str, str], Field(min_length=1)]
    """Next hop of each tower and router that sends."""

    def open(self, layout: Layout, outages: CombinedOutages, streams: Streams) -> RoutingTable:
        faults = [*self._unknown_faults(layout)] or [*self._missing_faults(layout)] or [*self._circle_faults(layout)]
        if faults:
            raise ScenarioError(faults)
        return _StaticTable(self.next, layout.server)

    def _unknown_faults(self, layout: Layout) -> Iterator[Fault]:
        senders = [name for name in layout.names if name != layout.server]
        for node, after in self.next.items():
            key = f"next.{node}"
            if node == layout.server:
                yield Fault(key, "the server has no next hop", after, "leave it out")
            elif node not in senders:
                yield Fault(key, f"no such tower or router: '{node}'", None, suggest(node, senders))
            elif after not in layout.names:
                yield Fault(key, "no such node", after, suggest(after, [*layout.graph.adj[node]]))
            elif after not in layout.graph.adj[node]:
                yield Fault(key, f"no link joins {node} to it", after, _best_hop(layout, node))

    def _missing_faults(self, layout: Layout) -> Iterator[Fault]:
        for node in dict.fromkeys((*layout.towers, *self.next.values())):
            if node not in self.next and node != layout.server:
                yield Fault("next", f"{node} has no next hop", None, _best_hop(layout, node))

    def _circle_faults(self, layout: Layout) -> Iterator[Fault]:
        """Yield one error for each circle of relays, with a link that breaks it."""
        seen: set[str] = set()
        for start in self.next:
            path = [start]
            while path[-1] in self.next and path[-1] not in seen:
                seen.add(path[-1])
                path.append(self.next[path[-1]])
            if path[-1] in path[:-1]:
                circle = path[path.index(path[-1]) :]
                node = min(circle, key=lambda name: len(_shortest_route(layout, name)))
                problem = f"these hops form a cycle that does not reach {layout.server}: {' → '.join(circle)}"
                yield Fault(f"next.{node}", problem, None, _best_hop(layout, node))


def _best_hop(layout: Layout, node: str) -> str:
    """Return the remedy for a missing or wrong next hop of *node*."""
    path = _shortest_route(layout, node)
    if not path:
        return f"no path leads from it to {layout.server}; link them"
    return f"its best next hop is {path[1]}"


def _shortest_route(layout: Layout, node: str) -> tuple[str, ...]:
    return route(least_cost(layout.graph, layout.server, "hops"), node, layout.server)


@dataclass(frozen=True, slots=True)
class _StaticTable(RoutingTable):
    """Given routes.

    Args:
        next_hops: next hop of each tower and router that sends.
        server: name of the server.
    """

    next_hops: dict[str, str]
    server: str
    fixed = True

    def hop(self, node: str, message: Message, now_s: float) -> str | None:
        return self.next_hops.get(node)

    def route(self, node: str, now_s: float) -> tuple[str, ...]:
        return route({name: (after,) for name, after in self.next_hops.items()}, node, self.server)
