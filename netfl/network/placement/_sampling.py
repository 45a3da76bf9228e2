"""Positions in an area or on circles, drawn independently for each user, and their distributions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Metres

Point = tuple[Metres, Metres]
"""A position [x, y], east and north of the origin."""
Draw = Callable[[Streams, int], Floats]


def in_disk(count: int, radius_m: float, streams: Streams) -> Floats:
    """Draw *count* positions uniformly over the area of the disk around the origin, ``[count, 2]``."""
    distance = radius_m * np.sqrt(streams.field("distance").uniform(np.arange(count)))
    return at_distance(count, distance, streams)


def at_distance(count: int, distance_m: ArrayLike, streams: Streams) -> Floats:
    """Draw *count* positions at given distances from the origin, in uniform directions, ``[count, 2]``."""
    angle = 2.0 * np.pi * streams.field("direction").uniform(np.arange(count))
    return _from_polar(distance_m, angle)


def in_rectangle(count: int, width_m: float, height_m: float, streams: Streams) -> Floats:
    """Draw *count* positions uniformly in the rectangle around the origin, ``[count, 2]``."""
    unit = streams.field("square").uniform(np.arange(count)[:, None], draw=np.arange(2))
    return np.asarray([width_m, height_m] * (unit - 0.5))


def on_circle(count: int, radius_m: float) -> Floats:
    """Return *count* positions spread evenly over the circle around the origin, from the east, ``[count, 2]``."""
    return _from_polar(radius_m, 2.0 * np.pi * np.arange(count) / max(count, 1))


def _from_polar(distance_m: ArrayLike, angle: Floats) -> Floats:
    return np.column_stack([distance_m * np.cos(angle), distance_m * np.sin(angle)])


def disk_distance_law(quantity: str, radius_m: float, draw_xy_m: Draw) -> Law:
    """Return the distribution of the distance to the centre, for positions uniform over a disk around the origin."""
    from scipy import stats

    return Law(
        quantity,
        "uniform over the disk's area: P(r ≤ x) = (x/R)², mean 2R/3, variance R²/18",
        draw=lambda streams, size: np.hypot(*draw_xy_m(streams, size).T),
        distribution=stats.powerlaw(2, scale=radius_m),
    )


def uniform_law(quantity: str, width: float, draw: Draw) -> Law:
    """Return the distribution of a value that is uniform on ±width/2."""
    from scipy import stats

    statement = f"uniform on ±{width / 2.0:g}: variance width²/12"
    return Law(quantity, statement, draw=draw, distribution=stats.uniform(-width / 2.0, width))
