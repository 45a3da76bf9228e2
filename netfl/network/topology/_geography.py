"""Where the nodes of a graph file stand, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from netfl.errors import Fault, ScenarioError

EARTH_M = 6_371_008.8
"""The mean radius of the Earth, (2a + b) / 3 of the ellipsoid GRS 80 (H. Moritz, J. Geodesy 74 (2000))."""

_LATITUDE, _LONGITUDE = ("Latitude", "latitude", "lat"), ("Longitude", "longitude", "lon", "lng")

Places = Mapping[str, tuple[float, float]]
"""Positions by name."""


def figure(told: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    """The first of the attributes *keys* that holds a finite number."""
    for key in keys:
        try:
            number = float(told[key])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(number):
            return number
    return None


def globe(graph: nx.MultiGraph[str]) -> dict[str, tuple[float, float]]:
    """Latitude and longitude, in degrees, of the nodes that tell them.

    Raises:
        ScenarioError: a latitude or longitude that is none.
    """
    found = {}
    for name, told in graph.nodes(data=True):
        latitude, longitude = figure(told, _LATITUDE), figure(told, _LONGITUDE)
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


def completed(graph: nx.MultiGraph[str], known: Places) -> dict[str, tuple[float, float]]:
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
