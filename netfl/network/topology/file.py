"""A network read from a graph file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, ring_places
from netfl.network.topology import Topology
from netfl.network.topology._graph import add_site, place_users
from netfl.network.topology._graph_files import (
    complete_coordinates,
    finite_attribute,
    great_circle_m,
    projected,
    read_coordinates,
    read_graph,
)
from netfl.registry import FamilyMember, LiteralOr
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Bitrate, Metres, Seconds, Speed

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class File(Topology):
    """The nodes and links of a GraphML, GML, node-link JSON or edge-list file; files of the Topology Zoo as they are.

    **Nodes** are named by ``label`` or ``name``, else by their id; of a label that repeats, ``label#id``.  In the
    network they are ``server``, ``router:NAME`` and ``tower:NAME``.  A node's part is its attribute ``role``
    (``server``, ``router`` or ``tower``), or what ``server`` and ``towers`` say.  Its place is, in this order:
    ``positions``; the attributes ``x_m`` and ``y_m``; ``Latitude`` and ``Longitude`` in degrees, projected to a plane
    around the middle of the network, equirectangular with the Earth's mean radius; the mean of its neighbours' places;
    ``ring`` for what is joined to no node that has a place.

    **Links** have the rate ``rate_bps``, else ``LinkSpeedRaw`` in bit/s, else ``LinkSpeed`` with ``LinkSpeedUnits``
    (K, M, G or T), else ``rate``; the delay ``delay_s``, else ``delay`` where it is set, else length / ``speed``, the
    length being ``length_m``, else the great circle between nodes that tell their latitude, else the distance in the
    plane; and the ``weight`` that the file gives them, if any.  Directions are passed over, and so are loops.  Of
    parallel links the fastest is kept, of equally fast ones the one with the least delay.

    Example::

        kind: file
        file: abilene.graphml
        server: Kansas City
        towers: all
        rate: 10 Gbps
        placement: {kind: clusters, radius: 300 m}
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The file; a relative path starts at the current directory."""
    format: Literal["graphml", "gml", "json", "edges"] | None = None
    """Its format; ``null`` goes by its suffix: .graphml, .gml, .json, .edges and the like."""
    server: str | None = None
    """The node that is the server; ``null`` for the one whose ``role`` says so."""
    towers: Annotated[Literal["all", "degree_one"] | tuple[str, ...] | None, LiteralOr(tuple[str, ...])] = None
    """``all`` nodes but the server are towers, those with one neighbour, or the listed; ``null``: their ``role``."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of links whose rate the file does not tell; ``null`` makes such a link a fault."""
    delay: Annotated[Seconds, Field(ge=0)] | None = None
    """Propagation delay of links whose delay the file does not tell; ``null`` for their length / ``speed``."""
    speed: Annotated[Speed, Field(gt=0, le=LIGHT_M_S)] = LIGHT_M_S * 2.0 / 3.0
    """Speed of propagation; by default that of light in glass fibre, two thirds of that in vacuum."""
    positions: dict[str, Point] = Field(default_factory=dict)
    """Positions [x, y] of nodes by name, in place of the file's; in the plane into which latitudes are projected."""
    ring: Annotated[Metres, Field(gt=0)] | None = None
    """Radius of a circle for nodes that no place is known for; ``null`` makes such a node a fault."""
    placement: Annotated[Placement, FamilyMember()]
    """Where users stand."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Whatever is wrong with the file, or does not fit it."""
        try:
            self._graph()
        except ScenarioError as error:
            yield from error.faults

    def open(self, users: int, streams: Streams) -> Layout:
        """The network of the file.

        Raises:
            ScenarioError: the file cannot be used.
        """
        graph = self._graph()
        return Layout(graph, place_users(self.placement, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn here."""
        return (Law.none("the network is read; users stand as the placement claims"),)

    def _graph(self) -> nx.Graph[str]:
        """The infrastructure."""
        raw = read_graph(self.file, self.format)
        roles, places = self._roles(raw), self._places(raw)
        _see_routes(raw, roles)
        names = {name: "server" if role == "server" else f"{role}:{name}" for name, role in roles.items()}
        graph: nx.Graph[str] = nx.Graph()
        for name, role in roles.items():
            add_site(graph, names[name], places[name], role)
        flat = projected(read_coordinates(raw))
        degrees = {name: at for name, at in read_coordinates(raw).items() if places[name] == flat[name]}
        for one, other, told in raw.edges(data=True):
            span_m = _length_m(told, [degrees.get(end) for end in (one, other)], places[one], places[other])
            link = self._link(told, f"{one} – {other}", span_m)
            known = graph.get_edge_data(names[one], names[other])
            if known is None or (-link["rate_bps"], link["delay_s"]) < (-known["rate_bps"], known["delay_s"]):
                graph.add_edge(names[one], names[other], **link)
        return graph

    def _roles(self, raw: nx.MultiGraph[str]) -> dict[str, str]:
        """The part of each node."""
        told = {name: str(node.get("role", "router")).lower() for name, node in raw.nodes(data=True)}
        wrong = [
            Fault("file", f"node {name} has the role '{role}'", str(self.file), "roles are server, router and tower")
            for name, role in told.items()
            if role not in {"server", "router", "tower"}
        ]
        if self.server is not None:
            told = {name: "router" if role == "server" else role for name, role in told.items()}
            wrong += _strangers("server", [self.server], raw)
        if self.towers is not None:
            told = {name: "router" if role == "tower" else role for name, role in told.items()}
            listed = [name for name in raw if self.towers == "all" or len(raw[name]) == 1]
            if isinstance(self.towers, tuple):
                listed = [*self.towers]
                wrong += _strangers("towers", listed, raw)
            told |= dict.fromkeys([name for name in listed if name in told], "tower")
        if self.server in told:
            told[self.server] = "server"
        wrong = wrong or [*_counted(told)]
        if wrong:
            raise ScenarioError(wrong)
        return told

    def _places(self, raw: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
        """Where each node stands, in metres."""
        strangers = [fault for name in self.positions for fault in _strangers("positions", [name], raw)]
        if strangers:
            raise ScenarioError(strangers)
        known = projected(read_coordinates(raw))
        for name, node in raw.nodes(data=True):
            x_m, y_m = finite_attribute(node, ("x_m",)), finite_attribute(node, ("y_m",))
            if x_m is not None and y_m is not None:
                known[name] = (x_m, y_m)
        places = complete_coordinates(raw, {**known, **self.positions})
        lost = [name for name in raw if name not in places]
        if lost and self.ring is None:
            problem = f"no place is known for {lost[0]}" + (f" and {len(lost) - 1} more nodes" if len(lost) > 1 else "")
            remedy = "give nodes the attributes Latitude and Longitude, or x_m and y_m; or set positions or ring"
            raise ScenarioError([Fault("file", problem, str(self.file), remedy)])
        circle: NDArray[np.float64] = ring_places(len(lost), self.ring or 0.0)
        return places | {name: (float(x), float(y)) for name, (x, y) in zip(lost, circle, strict=True)}

    def _link(self, told: dict[str, Any], name: str, length_m: float) -> dict[str, float]:
        """The attributes of one link of the network."""
        rate, delay = finite_attribute(told, ("rate_bps", "LinkSpeedRaw")), finite_attribute(told, ("delay_s",))
        if rate is None:
            scale = _SCALES.get(str(told.get("LinkSpeedUnits", "-")).strip().upper())
            speed = finite_attribute(told, ("LinkSpeed",))
            rate = self.rate if speed is None or scale is None else speed * scale
        if rate is None:
            problem = f"link {name} has no attribute rate_bps, LinkSpeedRaw, or LinkSpeed with LinkSpeedUnits"
            raise ScenarioError([Fault("rate", problem, None, "set rate, for all links without")])
        if delay is None:
            delay = length_m / self.speed if self.delay is None else self.delay
        link = {"rate_bps": rate, "delay_s": delay}
        weight = finite_attribute(told, ("weight",))
        if weight is not None:
            link["weight"] = weight
        if rate <= 0.0 or delay < 0.0 or link.get("weight", 1.0) <= 0.0:
            problem = f"link {name} has {', '.join(f'{key} {value:g}' for key, value in link.items())}"
            raise ScenarioError([Fault("file", problem, str(self.file), "rate and weight above 0, delay 0 or more")])
        return link


def _length_m(
    told: dict[str, Any],
    degrees: list[tuple[float, float] | None],
    one: tuple[float, float],
    other: tuple[float, float],
) -> float:
    """How long a link is."""
    length_m = finite_attribute(told, ("length_m",))
    if length_m is not None:
        return length_m
    first, second = degrees
    return math.dist(one, other) if first is None or second is None else great_circle_m(first, second)


def _strangers(key: str, names: list[str], raw: nx.MultiGraph[str]) -> list[Fault]:
    """Names that no node of the file has."""
    faults = []
    for name in names:
        if name not in raw:
            same = [other for other in raw if other.rpartition("#")[0] == name]
            remedy = f"several are labelled so: {', '.join(same)}" if same else suggest(name, [*raw])
            faults.append(Fault(key, "no such node in the file", name, remedy))
    return faults


def _counted(roles: dict[str, str]) -> Iterator[Fault]:
    """No server, several, or no tower."""
    servers = [name for name, role in roles.items() if role == "server"]
    some = ", ".join(list(roles)[:8])
    if not servers:
        yield Fault("server", "no node has the attribute role: server", None, f"set server to a node, such as {some}")
    if len(servers) > 1:
        yield Fault("server", f"several nodes have the role server: {', '.join(servers)}", None, "set server to one")
    if "tower" not in roles.values():
        remedy = "set towers to all, degree_one or a list of nodes"
        yield Fault("towers", "no node has the attribute role: tower", None, remedy)


def _see_routes(raw: nx.MultiGraph[str], roles: dict[str, str]) -> None:
    """Stop with a fault if a tower has no route to the server."""
    server = next(name for name, role in roles.items() if role == "server")
    joined = nx.node_connected_component(raw, server)
    lost = [name for name, role in roles.items() if role == "tower" and name not in joined]
    if lost:
        who = ", ".join(lost[:8]) + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
        remedy = f"set towers to some of the {len(joined) - 1} nodes that are joined to it, or take another server"
        raise ScenarioError([Fault("towers", f"no chain of links joins {who} to {server}", None, remedy)])
