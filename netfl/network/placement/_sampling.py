"""Places drawn in an area or on circles; each place is a draw of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.streams import Streams
from netfl.units import Metres

Point = tuple[Metres, Metres]
"""A position [x, y], east and north of the origin."""


def in_disk(count: int, radius_m: float, streams: Streams) -> NDArray[np.float64]:
    """*count* places, uniform over the area of the disk around the origin, ``[count, 2]``."""
    distance = radius_m * np.sqrt(streams.field("distance").uniform(np.arange(count)))
    return at_distance(count, distance, streams)


def at_distance(count: int, distance_m: ArrayLike, streams: Streams) -> NDArray[np.float64]:
    """*count* places at given distances from the origin, in directions of their own, ``[count, 2]``."""
    angle = 2.0 * np.pi * streams.field("direction").uniform(np.arange(count))
    return from_polar(distance_m, angle)


def in_rectangle(count: int, width_m: float, height_m: float, streams: Streams) -> NDArray[np.float64]:
    """*count* places, uniform in the rectangle around the origin, ``[count, 2]``."""
    unit = streams.field("square").uniform(np.arange(count)[:, None], draw=np.arange(2))
    return np.asarray([width_m, height_m] * (unit - 0.5))


def in_square(count: int, side_m: float, streams: Streams) -> NDArray[np.float64]:
    """*count* places, uniform in the square around the origin, ``[count, 2]``."""
    return in_rectangle(count, side_m, side_m, streams)


def ring_places(count: int, radius_m: float) -> NDArray[np.float64]:
    """*count* places spread evenly over the circle around the origin, the first to the east, ``[count, 2]``."""
    return from_polar(radius_m, 2.0 * np.pi * np.arange(count) / max(count, 1))


def from_polar(distance_m: ArrayLike, angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from their distance and direction, ``[n, 2]``."""
    return np.column_stack([distance_m * np.cos(angle), distance_m * np.sin(angle)])
