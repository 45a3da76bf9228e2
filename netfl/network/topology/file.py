"""A network from a graph file."""

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
from netfl.network.placement._sampling import Point, on_circle
from netfl.network.topology import Topology
from netfl.network.topology._graph import add_site, place_users
from netfl.network.topology._graph_files import (
    complete_coordinates,
    finite_attribute,
    great_circle_m,
    project,
    read_coordinates,
    read_graph,
)
from netfl.registry import FamilyMember, LiteralOr
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Bitrate, Metres, Seconds, Speed

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class File(Topology):
    """The nodes and links of a GraphML, GML, node-link JSON or edge-list file, such as those of the Topology Zoo.

    **Nodes** are named by ``label`` or ``name``, else by their id; a repeated label becomes ``label#id``.  In the
    network they are ``server``, ``router:NAME`` and ``tower:NAME``.  A node's role is its attribute ``role``
    (``server``, ``router`` or ``tower``), unless ``server`` or ``towers`` set it.  Its position is, in this order:
    ``positions``; the attributes ``x_m`` and ``y_m``; ``Latitude`` and ``Longitude`` in degrees, projected to a plane
    around the middle of the network, equirectangular with the Earth's mean radius; the mean of its neighbours'
    positions; a place on ``ring``, for nodes that are joined to no node with a position.

    **Links** have the rate ``rate_bps``, else ``LinkSpeedRaw`` in bit/s, else ``LinkSpeed`` with ``LinkSpeedUnits``
    (K, M, G or T), else ``rate``; the delay ``delay_s``, else ``delay`` where it is set, else length / ``speed``, the
    length being ``length_m``, else the great circle between nodes with a latitude, else the distance in the
    plane; and the ``weight`` in the file, if any.  Directions and loops are ignored.  Of
    parallel links the fastest is kept, of equally fast ones the one with the smallest delay.

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
    """Format of the file; ``null`` for that of its suffix: .graphml, .gml, .json, .edges and the like."""
    server: str | None = None
    """The node that is the server; ``null`` for the node with that ``role``."""
    towers: Annotated[Literal["all", "degree_one"] | tuple[str, ...] | None, LiteralOr(tuple[str, ...])] = None
    """Towers: ``all`` nodes but the server, those with one neighbour, or a list; ``null``: by their ``role``."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of links without a rate in the file; ``null`` makes such a link an error."""
    delay: Annotated[Seconds, Field(ge=0)] | None = None
    """Propagation delay of links without a delay in the file; ``null`` for their length / ``speed``."""
    speed: Annotated[Speed, Field(gt=0, le=LIGHT_M_S)] = LIGHT_M_S * 2.0 / 3.0
    """Speed of propagation; by default that of light in glass fibre, two thirds of that in vacuum."""
    positions: dict[str, Point] = Field(default_factory=dict)
    """Positions [x, y] of nodes by name, in place of the file's; in the plane into which latitudes are projected."""
    ring: Annotated[Metres, Field(gt=0)] | None = None
    """Radius of a circle for nodes without a known position; ``null`` makes such a node an error."""
    placement: Annotated[Placement, FamilyMember()]
    """Positions of users."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the file and of its use."""
        try:
            self._graph()
        except ScenarioError as error:
            yield from error.faults

    def open(self, users: int, streams: Streams) -> Layout:
        """Return the layout of one replica.

        Raises:
            ScenarioError: the file cannot be used.
        """
        graph = self._graph()
        return Layout(graph, place_users(self.placement, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        return (Law.none("the network is read; users stand as the placement claims"),)

    def _graph(self) -> nx.Graph[str]:
        raw = read_graph(self.file, self.format)
        roles, positions = self._roles(raw), self._node_positions(raw)
        _check_routes(raw, roles)
        names = {name: "server" if role == "server" else f"{role}:{name}" for name, role in roles.items()}
        graph: nx.Graph[str] = nx.Graph()
        for name, role in roles.items():
            add_site(graph, names[name], positions[name], role)
        coordinates = read_coordinates(raw)
        projected = project(coordinates)
        degrees = {name: at for name, at in coordinates.items() if positions[name] == projected[name]}
        for first, second, attributes in raw.edges(data=True):
            length_m = finite_attribute(attributes, ("length_m",))
            if length_m is None and first in degrees and second in degrees:
                length_m = great_circle_m(degrees[first], degrees[second])
            elif length_m is None:
                length_m = math.dist(positions[first], positions[second])
            link = self._link(attributes, f"{first} – {second}", length_m)
            parallel = graph.get_edge_data(names[first], names[second])
            if parallel is None or (-link["rate_bps"], link["delay_s"]) < (-parallel["rate_bps"], parallel["delay_s"]):
                graph.add_edge(names[first], names[second], **link)
        return graph

    def _roles(self, raw: nx.MultiGraph[str]) -> dict[str, str]:
        roles = {name: str(node.get("role", "router")).lower() for name, node in raw.nodes(data=True)}
        faults = [
            Fault("file", f"node {name} has the role '{role}'", str(self.file), "roles are server, router and tower")
            for name, role in roles.items()
            if role not in {"server", "router", "tower"}
        ]
        if self.server is not None:
            roles = {name: "router" if role == "server" else role for name, role in roles.items()}
            faults += _unknown_nodes("server", [self.server], raw)
        if self.towers is not None:
            roles = {name: "router" if role == "tower" else role for name, role in roles.items()}
            towers = [name for name in raw if self.towers == "all" or len(raw[name]) == 1]
            if isinstance(self.towers, tuple):
                towers = [*self.towers]
                faults += _unknown_nodes("towers", towers, raw)
            roles |= dict.fromkeys([name for name in towers if name in roles], "tower")
        if self.server in roles:
            roles[self.server] = "server"
        faults = faults or [*_role_faults(roles)]
        if faults:
            raise ScenarioError(faults)
        return roles

    def _node_positions(self, raw: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
        faults = _unknown_nodes("positions", [*self.positions], raw)
        if faults:
            raise ScenarioError(faults)
        known = project(read_coordinates(raw))
        for name, node in raw.nodes(data=True):
            x_m, y_m = finite_attribute(node, ("x_m",)), finite_attribute(node, ("y_m",))
            if x_m is not None and y_m is not None:
                known[name] = (x_m, y_m)
        positions = complete_coordinates(raw, {**known, **self.positions})
        unplaced = [name for name in raw if name not in positions]
        if unplaced and self.ring is None:
            others = f" and {len(unplaced) - 1} more nodes" if len(unplaced) > 1 else ""
            remedy = "give nodes the attributes Latitude and Longitude, or x_m and y_m; or set positions or ring"
            raise ScenarioError([Fault("file", f"no place is known for {unplaced[0]}{others}", str(self.file), remedy)])
        circle: NDArray[np.float64] = on_circle(len(unplaced), self.ring or 0.0)
        return positions | {name: (float(x), float(y)) for name, (x, y) in zip(unplaced, circle, strict=True)}

    def _link(self, attributes: dict[str, Any], name: str, length_m: float) -> dict[str, float]:
        """Return the attributes of one link of the network."""
        rate, delay = (
            finite_attribute(attributes, ("rate_bps", "LinkSpeedRaw")),
            finite_attribute(attributes, ("delay_s",)),
        )
        if rate is None:
            scale = _SCALES.get(str(attributes.get("LinkSpeedUnits", "-")).strip().upper())
            speed = finite_attribute(attributes, ("LinkSpeed",))
            rate = self.rate if speed is None or scale is None else speed * scale
        if rate is None:
            problem = f"link {name} has no attribute rate_bps, LinkSpeedRaw, or LinkSpeed with LinkSpeedUnits"
            raise ScenarioError([Fault("rate", problem, None, "set rate, for all links without")])
        if delay is None:
            delay = length_m / self.speed if self.delay is None else self.delay
        link = {"rate_bps": rate, "delay_s": delay}
        weight = finite_attribute(attributes, ("weight",))
        if weight is not None:
            link["weight"] = weight
        if rate <= 0.0 or delay < 0.0 or link.get("weight", 1.0) <= 0.0:
            problem = f"link {name} has {', '.join(f'{key} {value:g}' for key, value in link.items())}"
            raise ScenarioError([Fault("file", problem, str(self.file), "rate and weight above 0, delay 0 or more")])
        return link


def _unknown_nodes(key: str, names: list[str], raw: nx.MultiGraph[str]) -> list[Fault]:
    faults = []
    for name in names:
        if name not in raw:
            same_label = [other for other in raw if other.rpartition("#")[0] == name]
            remedy = f"several are labelled so: {', '.join(same_label)}" if same_label else suggest(name, [*raw])
            faults.append(Fault(key, "no such node in the file", name, remedy))
    return faults


def _role_faults(roles: dict[str, str]) -> Iterator[Fault]:
    servers = [name for name, role in roles.items() if role == "server"]
    if not servers:
        examples = ", ".join(list(roles)[:8])
        yield Fault(
            "server", "no node has the attribute role: server", None, f"set server to a node, such as {examples}"
        )
    if len(servers) > 1:
        yield Fault("server", f"several nodes have the role server: {', '.join(servers)}", None, "set server to one")
    if "tower" not in roles.values():
        remedy = "set towers to all, degree_one or a list of nodes"
        yield Fault("towers", "no node has the attribute role: tower", None, remedy)


def _check_routes(raw: nx.MultiGraph[str], roles: dict[str, str]) -> None:
    """Raise an error if a tower has no route to the server."""
    server = next(name for name, role in roles.items() if role == "server")
    joined = nx.node_connected_component(raw, server)
    cut_off = [name for name, role in roles.items() if role == "tower" and name not in joined]
    if cut_off:
        names = ", ".join(cut_off[:8]) + (f" and {len(cut_off) - 8} more" if len(cut_off) > 8 else "")
        remedy = f"set towers to some of the {len(joined) - 1} nodes that are joined to it, or take another server"
        raise ScenarioError([Fault("towers", f"no chain of links joins {names} to {server}", None, remedy)])
