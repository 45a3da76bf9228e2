"""Graph files: GraphML, GML, node-link JSON and edge lists, and the coordinates of their nodes."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network import files

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

_MAX_BYTES = 16_000_000
_MAX_NODES = 10_000
_MAX_LINE = 10_000
_LABELS = ("label", "name")
_LATITUDE, _LONGITUDE = ("Latitude", "latitude", "lat"), ("Longitude", "longitude", "lon", "lng")


def read_graph(path: Path, form: str | None) -> nx.MultiGraph[str]:
    """Read a graph without directions and loops, whose nodes are named by their labels.

    A repeated label gets the node's id as a suffix.

    Args:
        path: the file.
        form: its format; ``None`` to take it from the suffix.

    Raises:
        ScenarioError: the file or the format does not exist, or the file does not match its format.
    """
    form = form or FORMATS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(FORMATS)
        raise _file_error(path, f"no format is known by the suffix '{path.suffix}'", f"set format; suffixes: {known}")
    try:
        graph = _READERS[form](files.read_text(path, _MAX_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise _file_error(path, f"cannot be read: {problem}", _suggest_file(path)) from error
    except ScenarioError:
        raise
    except Exception as error:  # parsers raise anything on a broken file
        problem = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        problem = f"{problem} is missing" if isinstance(error, KeyError) else problem
        raise _file_error(path, f"is no {form} file: {problem}", "set format if it is another one") from error
    if not 0 < len(graph) <= _MAX_NODES:
        raise _file_error(path, f"holds {len(graph)} nodes", f"1 to {_MAX_NODES} are possible")
    labels = {node: _label(node, attributes) for node, attributes in graph.nodes(data=True)}
    repeated = {label for label, count in Counter(labels.values()).items() if count > 1}
    names = {node: f"{label}#{node}" if label in repeated else label for node, label in labels.items()}
    named: nx.MultiGraph[str] = nx.MultiGraph()
    named.add_nodes_from((names[node], attributes) for node, attributes in graph.nodes(data=True))
    links = ((names[a], names[b], attributes) for a, b, attributes in graph.edges(data=True) if a != b)
    named.add_edges_from(links)
    return named


def _label(node: object, attributes: Mapping[str, Any]) -> str:
    labels = (str(attributes.get(key, "")).strip() for key in _LABELS)
    return next(filter(None, labels), str(node))


def _file_error(path: Path, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError([Fault("file", problem, str(path), remedy)])


def _suggest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return suggest(path.name, sorted(other.name for other in path.parent.iterdir() if other.suffix in FORMATS))


def _parse_graphml(text: str) -> nx.Graph[Any]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # entities can expand a small file without limit
        raise ValueError("a document type or entity of its own, which is not read")
    graph: nx.Graph[Any] = nx.parse_graphml(text, force_multigraph=True)
    return graph


def _parse_gml(text: str) -> nx.Graph[Any]:
    # some files of the Topology Zoo have parallel links without declaring a multigraph
    if not re.search(r"^\s*multigraph\s+1", text, re.MULTILINE):
        text = re.sub(r"\bgraph\s*\[", "graph [\n multigraph 1\n", text, count=1)
        text = re.sub(r"^\s*multigraph\s+0\s*$", "", text, flags=re.MULTILINE)
    graph: nx.Graph[Any] = nx.parse_gml(text.splitlines(), label="id")  # by id, as labels may repeat
    return graph


def _parse_json(text: str) -> nx.Graph[Any]:
    data = json.loads(text)
    edges = "links" if "links" in data else "edges"
    if not (isinstance(data["nodes"], list) and isinstance(data[edges], list)):
        raise TypeError("no list under 'nodes', or under 'links' or 'edges'")
    known = {node["id"] for node in data["nodes"]}
    for link in data[edges]:
        for end in (link["source"], link["target"]):
            if end not in known:
                raise ValueError(f"a link to {end!r}, which is no node; {suggest(str(end), [*map(str, known)])}")
    graph: nx.MultiGraph[Any] = nx.MultiGraph()
    for node in data["nodes"]:
        graph.add_node(node["id"], **{str(key): value for key, value in node.items() if key != "id"})
    for link in data[edges]:
        attributes = {str(key): value for key, value in link.items() if key not in {"source", "target", "key"}}
        graph.add_edges_from([(link["source"], link["target"], attributes)])
    return graph


def _parse_edges(text: str) -> nx.Graph[Any]:
    """Parse lines of two nodes and attributes such as ``{'delay_s': 0.01}``; ``#`` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MAX_LINE:  # a longer one can crash the parser of Python's literals
            raise ValueError(f"line {number} has {len(line)} characters, {_MAX_LINE} are possible")
    graph: nx.Graph[Any] = nx.parse_edgelist(text.splitlines(), create_using=nx.MultiGraph)
    return graph


_READERS: Mapping[str, Callable[[str], nx.Graph[Any]]] = {
    "graphml": _parse_graphml,
    "gml": _parse_gml,
    "json": _parse_json,
    "edges": _parse_edges,
}


def finite_attribute(attributes: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    """Return the first of the attributes *keys* that is a finite number."""
    for key in keys:
        try:
            number = float(attributes[key])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(number):
            return number
    return None


def read_coordinates(graph: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
    """Return latitude and longitude, in degrees, of the nodes that have them.

    Raises:
        ScenarioError: a latitude or longitude is out of range.
    """
    coordinates = {}
    for name, attributes in graph.nodes(data=True):
        latitude, longitude = finite_attribute(attributes, _LATITUDE), finite_attribute(attributes, _LONGITUDE)
        if latitude is None or longitude is None:
            continue
        if abs(latitude) > 90.0 or abs(longitude) > 360.0:
            problem = f"node {name} stands at latitude {latitude:g}°, longitude {longitude:g}°, which does not exist"
            raise ScenarioError([Fault("file", problem, None, "latitudes go to ±90°, longitudes to ±360°")])
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
    x_m, y_m = EARTH_M * math.cos(middle) * offset, EARTH_M * (latitude - middle)
    return dict(zip(degrees, zip(x_m.tolist(), y_m.tolist(), strict=True), strict=True))


def great_circle_m(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return the distance of two positions in degrees along the Earth's surface, by the haversine formula."""
    (phi1, lambda1), (phi2, lambda2) = np.radians(first), np.radians(second)
    half = math.sin((phi2 - phi1) / 2.0) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin((lambda2 - lambda1) / 2) ** 2
    return 2.0 * EARTH_M * math.asin(math.sqrt(min(half, 1.0)))


def complete_coordinates(graph: nx.MultiGraph[str], known: Coordinates) -> dict[str, tuple[float, float]]:
    """Add positions of nodes that are joined to *known* ones: each is the mean of its neighbours' positions.

    The conditions hold together, as for springs between the nodes: the harmonic extension, one linear system.
    """
    reached = [part for part in nx.connected_components(graph) if any(name in known for name in part)]
    unknown = [name for part in reached for name in graph if name in part and name not in known]
    row = {name: index for index, name in enumerate(unknown)}
    matrix, side = np.zeros((len(row), len(row))), np.zeros((len(row), 2))
    for name, index in row.items():
        for neighbour in graph[name]:
            matrix[index, index] += 1.0
            if neighbour in row:
                matrix[index, row[neighbour]] -= 1.0
            else:
                side[index] += known[neighbour]
    solved = np.asarray(np.linalg.solve(matrix, side)) if row else side
    return {**known, **{name: (float(solved[i, 0]), float(solved[i, 1])) for name, i in row.items()}}
