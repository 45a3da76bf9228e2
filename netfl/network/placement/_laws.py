"""What placements claim: the laws of distances and coordinates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams
from netfl.types import Law

Draw = Callable[[Streams, int], NDArray[np.float64]]


def disk_distance(quantity: str, radius_m: float, draw: Draw) -> Law:
    """The distance to the centre of a disk over whose area a place is uniform."""
    return Law(
        quantity,
        "uniform over the disk's area: P(r ≤ x) = (x/R)², mean 2R/3, variance R²/18",
        draw=draw,
        mean=2.0 * radius_m / 3.0,
        variance=radius_m**2 / 18.0,
        cdf=lambda x: np.clip(x / radius_m, 0.0, 1.0) ** 2,
    )


def uniform(quantity: str, width: float, draw: Draw) -> Law:
    """A figure that is uniform on ±width/2."""
    return Law(
        quantity,
        f"uniform on ±{width / 2.0:g}: variance width²/12",
        draw=draw,
        mean=0.0,
        variance=width**2 / 12.0,
        cdf=lambda x: np.clip(x / width + 0.5, 0.0, 1.0),
    )
