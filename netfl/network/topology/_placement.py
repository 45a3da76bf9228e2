"""Where users and sites are put: uniform in an area, on circles; each user's place is its own draw."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.streams import Streams


def in_disk(count: int, radius_m: float, streams: Streams) -> NDArray[np.float64]:
    """*count* places, uniform over the area of the disk around the origin, ``[count, 2]``."""
    distance = radius_m * np.sqrt(streams.field("distance").uniform(np.arange(count)))
    return at_distance(count, distance, streams)


def at_distance(count: int, distance_m: ArrayLike, streams: Streams) -> NDArray[np.float64]:
    """*count* places at given distances from the origin, in directions of their own, ``[count, 2]``."""
    angle = 2.0 * np.pi * streams.field("direction").uniform(np.arange(count))
    return polar(distance_m, angle)


def in_square(count: int, side_m: float, streams: Streams) -> NDArray[np.float64]:
    """*count* places, uniform in the square around the origin, ``[count, 2]``."""
    unit = streams.field("square").uniform(np.arange(count)[:, None], draw=np.arange(2))
    return np.asarray(side_m * (unit - 0.5))


def on_ring(count: int, radius_m: float) -> NDArray[np.float64]:
    """*count* places spread evenly over the circle around the origin, the first to the east, ``[count, 2]``."""
    return polar(radius_m, 2.0 * np.pi * np.arange(count) / count)


def polar(distance_m: ArrayLike, angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from their distance and direction, ``[n, 2]``."""
    return np.column_stack([distance_m * np.cos(angle), distance_m * np.sin(angle)])


def add_site(graph: nx.Graph[str], name: str, place: Sequence[float] | NDArray[np.float64]) -> str:
    """Put a site into *graph* and give its name back; its role is the word before the colon."""
    graph.add_node(name, role=name.partition(":")[0], x_m=float(place[0]), y_m=float(place[1]))
    return name
