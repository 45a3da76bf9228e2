"""Nodes and links written into the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from math import dist
from typing import Annotated, Literal

import networkx as nx
from pydantic import Field, ValidationError, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import Spec
from netfl.core.spec_errors import to_line_error
from netfl.errors import Fault, suggest
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point
from netfl.network.topology import Topology
from netfl.network.topology._graph import add_site, place_users
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bitrate, LinkDelay

Name = Annotated[str, Field(pattern=r"^[^\W\d_][\w: ]*$", max_length=100)]
"""A node's name: a letter, then letters, digits, ``_``, ``:`` and blanks."""


class Node(Spec):
    """The server, a router or a tower."""

    role: Literal["server", "router", "tower"]
    """Role of the node."""
    position: Point
    """Position [x, y] of the node."""


class Link(Spec):
    """A link between two nodes, equal in both directions."""

    between: tuple[Name, Name]
    """Names of its two nodes."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of the link."""
    delay: Annotated[LinkDelay, Field(ge=0)] = 0.005
    """Propagation delay of the link."""
    weight: Annotated[float, Field(gt=0)] | None = None
    """Cost of the link, for routes by weight; ``null`` for none."""


class Inline(Topology):
    """An infrastructure written into the scenario, node by node and link by link.

    One node is the server, at least one a tower, and every tower has a route to the server.  Users are placed as the
    placement states; each belongs to the nearest tower.

    Example::

        kind: inline
        nodes:
            core: {role: server, position: [0, 0]}
            hill: {role: router, position: [1 km, 0]}
            mast: {role: tower, position: [1.2 km, 50 m]}
        links:
            - {between: [mast, hill], rate: 20 Mbps, delay: 1 ms}
            - {between: [hill, core], rate: 100 Mbps, delay: 2 ms}
        placement: {kind: clusters, radius: 200 m}
    """

    nodes: Annotated[dict[Name, Node], Field(min_length=1)]
    """The nodes by name."""
    links: tuple[Link, ...]
    """The links."""
    placement: Annotated[Placement, FamilyMember()]
    """Positions of users."""

    @model_validator(mode="after")
    def _check(self) -> Inline:
        faults = [*self._role_faults(), *self._link_faults()] or [*self._route_faults()]
        if faults:
            raise ValidationError.from_exception_data("Inline", [to_line_error(fault) for fault in faults])
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        graph = self._graph()
        return Layout(graph, place_users(self.placement, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the scenario gives the network; the placement gives the positions of users"),)

    def _graph(self) -> nx.Graph[str]:
        graph: nx.Graph[str] = nx.Graph()
        for name, node in self.nodes.items():
            add_site(graph, name, node.position, node.role)
        for link in self.links:
            graph.add_edge(*link.between, rate_bps=link.rate, delay_s=link.delay)
            if link.weight is not None:
                graph.edges[link.between]["weight"] = link.weight
        return graph

    def _with_role(self, role: str) -> list[str]:
        return [name for name, node in self.nodes.items() if node.role == role]

    def _role_faults(self) -> Iterator[Fault]:
        servers = self._with_role("server")
        if not servers:
            yield Fault("nodes", "no node is the server", [*self.nodes], "give one node the role: server")
        for name in servers[1:]:
            problem = f"a second server, beside {servers[0]}"
            yield Fault(f"nodes.{name}.role", problem, "server", "make it a router or a tower; there is one server")
        if not self._with_role("tower"):
            yield Fault("nodes", "no node is a tower", [*self.nodes], "give one node the role: tower")

    def _link_faults(self) -> Iterator[Fault]:
        first_with: dict[frozenset[str], int] = {}
        for index, link in enumerate(self.links):
            key = f"links.{index}.between"
            ends = frozenset(link.between)
            unknown = [name for name in link.between if name not in self.nodes]
            yield from (Fault(key, "no such node", name, suggest(name, [*self.nodes])) for name in unknown)
            if len(ends) == 1 and not unknown:
                yield Fault(key, "a link from a node to itself", [*link.between], "give two nodes, or leave it out")
            if ends in first_with:
                yield Fault(key, f"the same ends as links.{first_with[ends]}", [*link.between], "leave one of them out")
            first_with.setdefault(ends, index)

    def _route_faults(self) -> Iterator[Fault]:
        joined = nx.node_connected_component(self._graph(), self._with_role("server")[0])
        for name, node in self.nodes.items():
            if node.role == "tower" and name not in joined:
                position = node.position
                near = min(joined, key=lambda other: (dist(self.nodes[other].position, position), other))
                remedy = f"link it to a node with a route; the nearest is {near}"
                yield Fault(f"nodes.{name}", "this tower has no route to the server", None, remedy)
