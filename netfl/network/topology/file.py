"""A network from a graph file: GraphML, GML, node-link JSON or an edge list."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import networkx as nx
import numpy as np
from pydantic import AfterValidator, Field

from netfl import files
from netfl.core.family_members import FamilyMember
from netfl.core.spec import ByForm
from netfl.errors import Fault, ScenarioError, suggest
from netfl.files.json_documents import parse_json
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, on_circle
from netfl.network.topology import Topology
from netfl.network.topology._graph import add_site, place_users
from netfl.network.topology._graph_attributes import (
    DELAY,
    LATITUDE,
    LENGTH,
    LINK_NOTES,
    LINK_PROPERTIES,
    LONGITUDE,
    NODE_NOTES,
    NODE_PROPERTIES,
    RATE,
    WEIGHT,
    Property,
    X,
    Y,
    graph_units,
    read_property,
    unread_attributes,
)
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts
from netfl.units import Bitrate, LinkDelay, Metres, PropagationSpeed

FORMATS: Mapping[str, str] = {
    ".graphml": "graphml",
    ".xml": "graphml",
    ".gml": "gml",
    ".json": "json",
    ".edges": "edges",
    ".edgelist": "edges",
    ".txt": "edges",
}
"""Formats by the suffix of the file's name."""
EARTH_M = 6_371_008.8
"""The mean radius of the Earth, (2a + b) / 3 of the ellipsoid GRS 80 (H. Moritz, J. Geodesy 74 (2000))."""
Coordinates = Mapping[str, tuple[float, float]]
"""Coordinates by node: x and y in metres, or latitude and longitude in degrees."""


class File(Topology):
    """The nodes and links of a GraphML, GML, node-link JSON or edge-list file, such as those of the Topology Zoo.

    **Nodes** are named by ``label`` or ``name``, else by their id; a repeated label becomes ``label#id``.  In the
    network they are ``server``, ``router:NAME`` and ``tower:NAME``.  A node's role is its attribute ``role``
    (``server``, ``router`` or ``tower``), unless ``server`` or ``towers`` set it.  Its position is, in this order:
    ``positions``; the attributes ``x_m`` and ``y_m``; ``Latitude`` and ``Longitude`` in degrees, projected to a plane
    around the middle of the network, equirectangular with the Earth's mean radius; the mean of its neighbours'
    positions; a place on ``ring``, for nodes that are joined to no node with a position.

    **Links** have the rate of the file, else the key ``rate``; the delay of the file, else the key ``delay``, else
    length / ``speed``, the length being that of the file, else the great circle between nodes with a latitude, else the
    distance in the plane; and the ``weight`` in the file, if any.  Directions and loops are ignored.  Of parallel links
    the fastest is kept, of equally fast ones the one with the smallest delay.

    **Names in the file**, in any case: a rate is ``rate_bps``, ``LinkSpeedRaw`` in bit/s, ``capacity``, ``bandwidth``,
    ``bw``, ``data_rate``, ``bitrate``, ``rate``, ``speed``, the same after ``link_`` or ``max_``, ``ifSpeed`` in bit/s,
    ``ifHighSpeed`` in Mbit/s, or a ``LinkLabel`` such as ``10 Gbps``; a delay is ``delay_s``, ``delay``, ``latency`` or
    ``propagation_delay``; a length is ``length_m``, ``length``, ``distance`` or ``dist``.  Each is a quantity, or a
    number in the unit of its name (``delay_ms``), of an attribute such as ``LinkSpeedUnits`` (K, M, G or T, or a unit
    such as Mbps), or of an attribute of the graph such as ``capacity_unit``.  A number without a unit is an error, and
    so are two attributes that contradict each other.  Other attributes are named by a warning, but for notes such as
    ``Country`` and ``LinkType``.

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
    towers: Annotated[Literal["all", "degree_one"] | tuple[str, ...], ByForm()] | None = None
    """Towers: ``all`` nodes but the server, those with one neighbour, or a list; ``null``: by their ``role``."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of links without a rate in the file; ``null`` makes such a link an error."""
    delay: Annotated[LinkDelay, Field(ge=0)] | None = None
    """Propagation delay of links without a delay in the file; ``null`` for their length / ``speed``."""
    speed: Annotated[PropagationSpeed, Field(gt=0, le=LIGHT_M_S)] = LIGHT_M_S * 2.0 / 3.0
    """Speed of propagation; by default that of light in glass fibre, two thirds of that in vacuum."""
    positions: dict[str, Point] = Field(default_factory=dict)
    """Positions [x, y] of nodes by name, in place of the file's; in the plane into which latitudes are projected."""
    ring: Annotated[Metres, Field(gt=0)] | None = None
    """Radius of a circle for nodes without a known position; ``null`` makes such a node an error."""
    placement: Annotated[Placement, FamilyMember()]
    """Positions of users."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self._graph()
        except ScenarioError as error:
            yield from error.faults

    def open(self, users: int, streams: Streams) -> Layout:
        graph = self._graph()
        return Layout(graph, place_users(self.placement, users, graph, streams))

    def warnings(self) -> Iterator[str]:
        raw = read_graph(self.file, self.format)
        parts = (
            ("nodes", [node for _, node in raw.nodes(data=True)], NODE_PROPERTIES, NODE_NOTES),
            ("links", [link for *_, link in raw.edges(data=True)], LINK_PROPERTIES, LINK_NOTES),
        )
        for words, attributes, properties, notes in parts:
            unread = unread_attributes(attributes, properties, notes)
            if unread:
                yield (
                    f"{self.file.name} has attributes of {words} that are not read: {unread}; rename those that should "
                    "have an effect, by the names of netfl list topology file"
                )

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the network; the placement gives the positions of users"),)

    def _graph(self) -> nx.Graph[str]:
        raw = read_graph(self.file, self.format)
        roles = self._roles(raw)
        coordinates = read_coordinates(raw)
        projected = project(coordinates)
        positions = self._node_positions(raw, projected)
        units = graph_units(raw.graph)
        graph: nx.Graph[str] = nx.Graph()
        names = {name: _node_name(name, role) for name, role in roles.items()}
        for name, role in roles.items():
            add_site(graph, names[name], positions[name], role)
        # where a node is moved, its latitude and longitude no longer count
        degrees = {name: place for name, place in coordinates.items() if positions[name] == projected[name]}
        for first, second, attributes in raw.edges(data=True):
            if first in degrees and second in degrees:
                length_m = great_circle_m(degrees[first], degrees[second])
            else:
                length_m = math.dist(positions[first], positions[second])
            name = f"{first} – {second}"
            try:
                link = self._link(attributes, units, name, length_m)
            except ValueError as error:
                raise _attribute_error(f"link {name}", error) from error
            parallel = graph.get_edge_data(names[first], names[second])
            if parallel is None or _is_better(link, parallel):
                graph.add_edge(names[first], names[second], **link)
        return graph

    def _roles(self, raw: nx.MultiGraph[str]) -> dict[str, str]:
        roles = {name: _stated_role(node) for name, node in raw.nodes(data=True)}
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
        faults = faults or [*_role_faults(roles, raw)]
        if faults:
            raise ScenarioError(faults)
        return roles

    def _node_positions(self, raw: nx.MultiGraph[str], projected: Coordinates) -> dict[str, tuple[float, float]]:
        faults = _unknown_nodes("positions", [*self.positions], raw)
        if faults:
            raise ScenarioError(faults)
        known = {**projected}
        for name, node in raw.nodes(data=True):
            position = _read_pair(name, node, X, Y, ("x_m", "y_m"))
            if position is not None:
                known[name] = position
        positions = complete_coordinates(raw, {**known, **self.positions})
        unplaced = [name for name in raw if name not in positions]
        if unplaced and self.ring is None:
            problem = f"no position is known for {unplaced[0]}"
            if len(unplaced) > 1:
                problem += f" and {len(unplaced) - 1} more nodes"
            remedy = "give nodes the attributes Latitude and Longitude, or x_m and y_m; or set positions or ring"
            raise ScenarioError([Fault("file", problem, str(self.file), remedy)])
        circle: Floats = on_circle(len(unplaced), self.ring or 0.0)
        return positions | {name: (float(x), float(y)) for name, (x, y) in zip(unplaced, circle, strict=True)}

    def _link(
        self, attributes: dict[str, Any], units: Mapping[str, Any], name: str, length_m: float
    ) -> dict[str, float]:
        """Return the attributes of a link; *length_m* is that of the positions, *units* states units of numbers.

        Raises:
            ValueError: an attribute is no quantity, or contradicts another.
        """
        stated = {wanted.words: read_property(wanted, attributes, units) for wanted in (DELAY, LENGTH, WEIGHT)}
        rate = read_property(RATE, attributes, units, with_label=True)
        if rate is not None:
            rate_bps = rate.value
        elif self.rate is not None:
            rate_bps = self.rate
        else:
            problem = f"link {name} has no attribute rate_bps, LinkSpeedRaw, or LinkSpeed with LinkSpeedUnits"
            raise ScenarioError([Fault("rate", problem, None, "set rate for links without one")])
        delay, length, weight = stated.values()
        if delay is not None:
            delay_s = delay.value
        elif self.delay is not None:
            delay_s = self.delay
        elif length is not None:
            delay_s = length.value / self.speed
        else:
            delay_s = length_m / self.speed
        link = {"rate_bps": rate_bps, "delay_s": delay_s}
        if weight is not None:
            link["weight"] = weight.value
        if rate_bps <= 0.0 or delay_s < 0.0 or link.get("weight", 1.0) <= 0.0:
            problem = f"link {name} has {', '.join(f'{key} {value:g}' for key, value in link.items())}"
            raise ScenarioError([Fault("file", problem, str(self.file), "rate and weight above 0, delay 0 or more")])
        return link


def _stated_role(node: Mapping[str, Any]) -> str:
    """Return the role of a node of the file, by default that of a router."""
    for key, value in node.items():
        if str(key).lower() == "role" and value is not None and str(value).strip():
            return str(value).strip().lower()
    return "router"


def _node_name(name: str, role: str) -> str:
    """Return the name in the network of a node of the file."""
    if role == "server":
        return "server"
    return f"{role}:{name}"


def _read_pair(
    name: str, node: Mapping[str, Any], first: Property, second: Property, names: tuple[str, str]
) -> tuple[float, float] | None:
    """Return two properties of a node that belong together; ``None`` without both.

    Raises:
        ScenarioError: one is no quantity, contradicts another, or is missing.
    """
    try:
        pair = read_property(first, node, {}), read_property(second, node, {})
    except ValueError as error:
        raise _attribute_error(f"node {name}", error) from error
    if pair[0] is not None and pair[1] is not None:
        return pair[0].value, pair[1].value
    if pair != (None, None):
        raise _attribute_error(f"node {name}", ValueError(f"only one of {names[0]} and {names[1]} is given"))
    return None


def _attribute_error(place: str, error: ValueError) -> ScenarioError:
    problem = str(error)
    remedy = "write numbers in the unit of the attribute's name, or quantities such as '10 ms', '1 Mbps' and '1000 m'"
    if "contradict" in problem:
        remedy = "leave all but one out"
    elif "has no unit" in problem:
        remedy = "write a quantity such as '1 Gbps', '10 ms' or '2 km', name the attribute by its unit, such as "
        remedy += "capacity_mbps and delay_ms, or give the graph an attribute such as capacity_unit"
    return ScenarioError([Fault("file", f"{place}: {problem}", None, remedy)])


def _is_better(link: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether *link* is faster than *other* or, equally fast, has a smaller delay."""
    return (-link["rate_bps"], link["delay_s"]) < (-other["rate_bps"], other["delay_s"])


def _unknown_nodes(key: str, names: list[str], raw: nx.MultiGraph[str]) -> list[Fault]:
    faults = []
    for name in names:
        if name not in raw:
            same_label = [other for other in raw if other.rpartition("#")[0] == name]
            if same_label:  # repeated in the file, so that ids are added
                remedy = f"several nodes have this label: {', '.join(same_label)}"
            else:
                remedy = suggest(name, [*raw])
            faults.append(Fault(key, "no such node in the file", name, remedy))
    return faults


def _role_faults(roles: dict[str, str], raw: nx.MultiGraph[str]) -> Iterator[Fault]:
    servers = [name for name, role in roles.items() if role == "server"]
    towers = [name for name, role in roles.items() if role == "tower"]
    if not servers:
        remedy = f"set server to a node, such as {', '.join([*roles][:8])}"
        yield Fault("server", "no node has the attribute role: server", None, remedy)
    if len(servers) > 1:
        yield Fault("server", f"several nodes have the role server: {', '.join(servers)}", None, "set server to one")
    if not towers:
        remedy = "set towers to all, degree_one or a list of nodes"
        yield Fault("towers", "no node has the attribute role: tower", None, remedy)
    if len(servers) == 1:
        joined = nx.node_connected_component(raw, servers[0])
        cut_off = [name for name in towers if name not in joined]
        if cut_off:
            problem = f"no path connects {', '.join(cut_off)} to {servers[0]}"
            remedy = (
                f"set towers to some of the {len(joined) - 1} nodes that are connected to it, or set another server"
            )
            yield Fault("towers", problem, None, remedy)


def read_graph(path: Path, form: str | None) -> nx.MultiGraph[str]:
    """Read a graph without directions and loops, whose nodes are named by their labels.

    A repeated label gets the node's id as a suffix.  The format is *form* or, by default, that of the file's suffix.

    Raises:
        ScenarioError: the file or the format does not exist, or the file does not match its format.
    """
    form = form or FORMATS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(FORMATS)
        raise _file_error(path, f"the suffix '{path.suffix}' has no known format", f"set format; suffixes: {known}")
    try:
        graph = _READERS[form](files.read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise _file_error(path, problem, _suggest_file(path)) from error
    except Exception as error:  # parsers raise anything on a broken file
        problem = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        if isinstance(error, KeyError):  # its text is the key alone
            problem = f"{problem} is missing"
        raise _file_error(path, f"is not a {form} file: {problem}", "set format if it has another format") from error
    if not graph:
        raise _file_error(path, "it has no nodes", "give a file with nodes and links")
    names = _unique_names(graph)
    named: nx.MultiGraph[str] = nx.MultiGraph(**graph_units(graph.graph))
    named.add_nodes_from((names[node], attributes) for node, attributes in graph.nodes(data=True))
    links = ((names[a], names[b], attributes) for a, b, attributes in graph.edges(data=True) if a != b)
    named.add_edges_from(links)
    return named


def _suggest_file(path: Path) -> str:
    """Return a hint for a file that cannot be read: the folder that is missing, or the nearest graph file."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    nearby = {other.stem: other.name for other in folder.iterdir() if other.suffix in FORMATS}
    near = get_close_matches(path.stem, nearby, n=1)
    if near:
        return f"did you mean '{nearby[near[0]]}'?"
    return "relative paths start at the current directory"


def _unique_names(graph: nx.Graph[Any]) -> dict[Any, str]:
    """Return the label of each node, with its id where the label is repeated."""
    labels = {node: str(data.get("label") or data.get("name") or node).strip() for node, data in graph.nodes(data=True)}
    counts = Counter(labels.values())
    names = {}
    for node, label in labels.items():
        if counts[label] > 1:
            names[node] = f"{label}#{node}"
        else:
            names[node] = label
    return names


def _file_error(path: Path, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError([Fault("file", problem, str(path), remedy)])


def _parse_graphml(text: str) -> nx.Graph[Any]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # entities can expand a small file without limit
        raise ValueError("it defines a document type or entity, which is not supported")
    root = ElementTree.fromstring(text)  # noqa: S314 - it has no entities
    for element in root.iter():
        _check_unique("key", [child.get("key") for child in element if child.tag.endswith("}data")])
    _check_unique("name", [(key.get("for"), key.get("attr.name")) for key in root.iter() if key.tag.endswith("}key")])
    nodes = [node.get("id") for node in root.iter() if node.tag.endswith("}node")]
    edges = [edge for edge in root.iter() if edge.tag.endswith("}edge")]
    _check_ends(nodes, [edge.get(key) for edge in edges for key in ("source", "target")])
    graph: nx.Graph[Any] = nx.parse_graphml(text, force_multigraph=True)
    return graph


def _check_unique(word: str, entries: Sequence[Any]) -> None:
    """Check that no entry occurs twice, which would replace the first.

    Raises:
        ValueError: one does.
    """
    for entry, count in Counter(entries).items():
        if count > 1:
            raise ValueError(f"the {word} {entry!r} occurs {count} times")


def _check_ends(nodes: Sequence[Any], ends: Iterable[Any]) -> None:
    """Check that nodes differ, and that links end at them.

    Raises:
        ValueError: they do not.
    """
    _check_unique("node", nodes)
    known = {*nodes}
    for end in ends:
        if end not in known:
            raise ValueError(f"a link to {end!r}, which is not a node; {suggest(str(end), [*map(str, known)])}")


def _parse_gml(text: str) -> nx.Graph[Any]:
    # some files of the Topology Zoo have parallel links without declaring a multigraph
    if not re.search(r"^\s*multigraph\s+1", text, re.MULTILINE):
        text = re.sub(r"\bgraph\s*\[", "graph [\n multigraph 1\n", text, count=1)
        text = re.sub(r"^\s*multigraph\s+0\s*$", "", text, flags=re.MULTILINE)
    graph: nx.Graph[Any] = nx.parse_gml(text.splitlines(), label="id")  # by id, as labels may repeat
    return graph


def _parse_json(text: str) -> nx.Graph[Any]:
    data = parse_json(text)
    edges = "links" if "links" in data else "edges"  # by the version of NetworkX that wrote it
    ends = (link[key] for link in data[edges] for key in ("source", "target"))
    _check_ends([node["id"] for node in data["nodes"]], ends)
    graph: nx.Graph[Any] = nx.node_link_graph(data | {"multigraph": True}, edges=edges)
    return graph


def _parse_edges(text: str) -> nx.Graph[Any]:
    """Parse lines of two nodes and attributes such as ``{'delay_s': 0.01}``; ``#`` begins a comment."""
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    for number, line in enumerate(text.splitlines(), start=1):
        first, second, literal = (*line.partition("#")[0].split(maxsplit=2), "", "", "")[:3]
        if not first:
            continue
        has_one = not second or second.startswith("{")
        if first.endswith(",") or (has_one and "," in first):
            form = "write blanks in their place, and attributes such as {'rate_bps': 1e9}"
            raise ValueError(f"line {number} has commas between its values: {form}")
        if has_one:
            raise ValueError(f"line {number} has only one node")
        try:
            attributes = _parse_attributes(literal or "{}")
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        graph.add_edge(first, second, **attributes)
    return graph


def _parse_attributes(text: str) -> dict[str, Any]:
    """Return the attributes in the literal of a dictionary.

    Raises:
        ValueError: *text* is something else, or an attribute occurs twice.
    """
    try:
        literal = ast.parse(text, mode="eval").body
        keys = literal.keys if isinstance(literal, ast.Dict) else [None]
        names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
        attributes = ast.literal_eval(literal)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        names = [None]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{text!r} is no attributes such as {{'delay_s': 0.01}}")
    _check_unique("attribute", names)
    return dict(attributes)


_READERS: Mapping[str, Callable[[str], nx.Graph[Any]]] = {
    "graphml": _parse_graphml,
    "gml": _parse_gml,
    "json": _parse_json,
    "edges": _parse_edges,
}


def read_coordinates(graph: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
    """Return latitude and longitude, in degrees, of the nodes that have them.

    Raises:
        ScenarioError: a latitude or longitude is no number, is out of range, or is missing.
    """
    coordinates = {}
    for name, attributes in graph.nodes(data=True):
        pair = _read_pair(name, attributes, LATITUDE, LONGITUDE, ("Latitude", "Longitude"))
        if pair is None:
            continue
        latitude, longitude = pair
        if abs(latitude) > 90.0 or abs(longitude) > 360.0:
            problem = f"node {name} has latitude {latitude:g}°, longitude {longitude:g}°, out of range"
            raise ScenarioError([Fault("file", problem, None, "use latitudes within ±90° and longitudes within ±360°")])
        coordinates[name] = (latitude, longitude)
    return coordinates


def project(degrees: Coordinates) -> dict[str, tuple[float, float]]:
    """Return metres east and north of the middle, by the equirectangular projection.

    x = R cos(φ0) (λ - λ0) and y = R (φ - φ0): true to scale from north to south, and along the middle latitude φ0.
    At a distance δ from φ0, in rad, distances from east to west are off by the share δ tan φ0: at 50° by 1 % half a
    degree (55 km) north or south of the middle.
    """
    if not degrees:
        return {}
    latitude, longitude = np.radians(np.array([*degrees.values()])).T
    middle = (latitude.min() + latitude.max()) / 2.0
    mean = math.atan2(np.sin(longitude).mean(), np.cos(longitude).mean())
    offset = np.angle(np.exp(1j * (longitude - mean)))  # the shorter way round, across the date line too
    offset -= (offset.min() + offset.max()) / 2.0
    x_m = EARTH_M * math.cos(middle) * offset
    y_m = EARTH_M * (latitude - middle)
    return dict(zip(degrees, zip(x_m.tolist(), y_m.tolist(), strict=True), strict=True))


def great_circle_m(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return the distance of two positions in degrees along the Earth's surface, by the haversine formula.

    hav θ = hav(φ₂ - φ₁) + cos φ₁ cos φ₂ hav(λ₂ - λ₁), where hav x = sin²(x/2); the distance is R θ.
    """
    phi1, lambda1 = np.radians(first)
    phi2, lambda2 = np.radians(second)
    haversine_phi = math.sin((phi2 - phi1) / 2.0) ** 2
    haversine = haversine_phi + math.cos(phi1) * math.cos(phi2) * math.sin((lambda2 - lambda1) / 2) ** 2
    return 2.0 * EARTH_M * math.asin(math.sqrt(min(haversine, 1.0)))


def complete_coordinates(graph: nx.MultiGraph[str], known: Coordinates) -> dict[str, tuple[float, float]]:
    """Add positions of nodes that are joined to *known* ones: each is the mean of its neighbours' positions.

    The conditions hold together, as for springs between the nodes: the harmonic extension, one linear system.
    """
    reached = [part for part in nx.connected_components(graph) if any(name in known for name in part)]
    unknown = [name for part in reached for name in graph if name in part and name not in known]
    row = {name: index for index, name in enumerate(unknown)}
    if not row:
        return {**known}
    # neighbours · position = Σ of their positions: the unknown ones on the left, the known ones on the right
    matrix = np.zeros((len(row), len(row)))
    right_side = np.zeros((len(row), 2))
    for name, index in row.items():
        for neighbour in graph[name]:
            matrix[index, index] += 1.0
            if neighbour in row:
                matrix[index, row[neighbour]] -= 1.0
            else:
                right_side[index] += known[neighbour]
    solved = np.asarray(np.linalg.solve(matrix, right_side))
    return {**known, **{name: (float(solved[i, 0]), float(solved[i, 1])) for name, i in row.items()}}
