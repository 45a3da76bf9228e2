"""Graph files read into plain graphs: GraphML, GML, node-link JSON and edge lists."""

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

_MOST_BYTES = 16_000_000
_MOST_NODES = 10_000
_MOST_LINE = 10_000
_LABELS = ("label", "name")


def read_graph(path: Path, form: str | None) -> nx.MultiGraph[str]:
    """The graph of a file, its nodes named by their labels; a label that repeats has the node's id put behind it.

    Args:
        path: the file.
        form: its format; ``None`` to go by its suffix.

    Raises:
        ScenarioError: there is no such file or format, or the file does not keep to it.
    """
    form = form or FORMATS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(FORMATS)
        raise _unusable(path, f"no format is known by the suffix '{path.suffix}'", f"set format; suffixes: {known}")
    try:
        graph = _READERS[form](files.read_text(path, _MOST_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise _unusable(path, f"cannot be read: {told}", _nearest(path)) from error
    except ScenarioError:
        raise
    except Exception as error:  # whatever a parser makes of a broken file
        told = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        told = f"{told} is missing" if isinstance(error, KeyError) else told
        raise _unusable(path, f"is no {form} file: {told}", "set format if it is another one") from error
    if not 0 < len(graph) <= _MOST_NODES:
        raise _unusable(path, f"holds {len(graph)} nodes", f"1 to {_MOST_NODES} are possible")
    return _labelled(graph)


def _unusable(path: Path, problem: str, remedy: str) -> ScenarioError:
    """A file that cannot be used."""
    return ScenarioError([Fault("file", problem, str(path), remedy)])


def _nearest(path: Path) -> str:
    """The hint for a file that is not there."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return suggest(path.name, sorted(other.name for other in path.parent.iterdir() if other.suffix in FORMATS))


def _graphml(text: str) -> nx.Graph[Any]:
    """GraphML; entities of its own, which a small file can blow up with, are refused."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a document type or entity of its own, which is not read")
    graph: nx.Graph[Any] = nx.parse_graphml(text, force_multigraph=True)
    return graph


def _gml(text: str) -> nx.Graph[Any]:
    """GML by ids, since labels may repeat; some files of the Topology Zoo have parallel links and do not say so."""
    if not re.search(r"^\s*multigraph\s+1", text, re.MULTILINE):
        text = re.sub(r"\bgraph\s*\[", "graph [\n multigraph 1\n", text, count=1)
        text = re.sub(r"^\s*multigraph\s+0\s*$", "", text, flags=re.MULTILINE)
    graph: nx.Graph[Any] = nx.parse_gml(text.splitlines(), label="id")
    return graph


def _json(text: str) -> nx.Graph[Any]:
    """Node-link data, its links under ``links`` or ``edges``."""
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
        told = {str(key): value for key, value in link.items() if key not in {"source", "target", "key"}}
        graph.add_edges_from([(link["source"], link["target"], told)])
    return graph


def _edges(text: str) -> nx.Graph[Any]:
    """Lines of two nodes and, in braces, attributes such as ``{'delay_s': 0.01}``; ``#`` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _MOST_LINE:  # longer ones can bring down the parser of Python's literals
            raise ValueError(f"line {number} has {len(line)} characters, {_MOST_LINE} are possible")
    graph: nx.Graph[Any] = nx.parse_edgelist(text.splitlines(), create_using=nx.MultiGraph)
    return graph


_READERS: Mapping[str, Callable[[str], nx.Graph[Any]]] = {
    "graphml": _graphml,
    "gml": _gml,
    "json": _json,
    "edges": _edges,
}


def _labelled(graph: nx.Graph[Any]) -> nx.MultiGraph[str]:
    """The graph without directions and loops, its nodes named by their labels."""
    labels = {node: _label(node, told) for node, told in graph.nodes(data=True)}
    repeated = {label for label, times in Counter(labels.values()).items() if times > 1}
    names = {node: f"{label}#{node}" if label in repeated else label for node, label in labels.items()}
    plain: nx.MultiGraph[str] = nx.MultiGraph()
    plain.add_nodes_from((names[node], told) for node, told in graph.nodes(data=True))
    plain.add_edges_from(
        (names[one], names[other], told) for one, other, told in graph.edges(data=True) if one != other
    )
    return plain


def _label(node: object, told: Mapping[str, Any]) -> str:
    """A node's label, or else its id."""
    return next((str(told[key]).strip() for key in _LABELS if str(told.get(key, "")).strip()), str(node))


# Where the nodes of a graph file stand, and how far apart they are.


EARTH_M = 6_371_008.8
"""The mean radius of the Earth, (2a + b) / 3 of the ellipsoid GRS 80 (H. Moritz, J. Geodesy 74 (2000))."""

_LATITUDE, _LONGITUDE = ("Latitude", "latitude", "lat"), ("Longitude", "longitude", "lon", "lng")

Places = Mapping[str, tuple[float, float]]
"""Positions by name."""


def finite_attribute(told: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    """The first of the attributes *keys* that holds a finite number."""
    for key in keys:
        try:
            number = float(told[key])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(number):
            return number
    return None


def read_coordinates(graph: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
    """Latitude and longitude, in degrees, of the nodes that tell them.

    Raises:
        ScenarioError: a latitude or longitude that is none.
    """
    found = {}
    for name, told in graph.nodes(data=True):
        latitude, longitude = finite_attribute(told, _LATITUDE), finite_attribute(told, _LONGITUDE)
        if latitude is None or longitude is None:
            continue
        if abs(latitude) > 90.0 or abs(longitude) > 360.0:
            problem = f"node {name} stands at latitude {latitude:g}°, longitude {longitude:g}°, which is nowhere"
            raise ScenarioError([Fault("file", problem, None, "latitudes go to ±90°, longitudes to ±360°")])
        found[name] = (latitude, longitude)
    return found


def projected(globe: Places) -> dict[str, tuple[float, float]]:
    """Metres east and north of the middle, by the equirectangular projection.

    x = R cos(φ0) (λ - λ0) and y = R (φ - φ0): true to scale from north to south, and along the middle latitude φ0.
    At a distance δ from φ0, in rad, ways from east to west are off by the share δ tan φ0: at 50° by 1 % half a degree
    (55 km) north or south of the middle.
    """
    if not globe:
        return {}
    latitude, longitude = np.radians(np.array([*globe.values()])).T
    middle = (latitude.min() + latitude.max()) / 2.0
    about = math.atan2(np.sin(longitude).mean(), np.cos(longitude).mean())
    off = np.angle(np.exp(1j * (longitude - about)))  # shorter way round, across the date line too
    off -= (off.min() + off.max()) / 2.0
    x_m, y_m = EARTH_M * math.cos(middle) * off, EARTH_M * (latitude - middle)
    return dict(zip(globe, zip(x_m.tolist(), y_m.tolist(), strict=True), strict=True))


def great_circle_m(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance of two places, given in degrees, along the Earth's surface, by the haversine formula."""
    (phi1, lambda1), (phi2, lambda2) = np.radians(one), np.radians(other)
    half = math.sin((phi2 - phi1) / 2.0) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin((lambda2 - lambda1) / 2) ** 2
    return 2.0 * EARTH_M * math.asin(math.sqrt(min(half, 1.0)))


def complete_coordinates(graph: nx.MultiGraph[str], known: Places) -> dict[str, tuple[float, float]]:
    """*known* places, and for every other node that is joined to one the mean of its neighbours' places.

    All of them hold at once, as for springs between the nodes: the harmonic extension, one linear system.
    """
    reached = [part for part in nx.connected_components(graph) if any(name in known for name in part)]
    open_ends = [name for part in reached for name in graph if name in part and name not in known]
    row = {name: index for index, name in enumerate(open_ends)}
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
