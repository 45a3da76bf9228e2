"""Users uniform over a disk."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, disk_distance_law, in_disk
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres


class Disk(Placement):
    """Uniform over the area of a disk: the distance r to its centre has P(r ≤ x) = (x/R)².

    Example::

        kind: disk
        radius: 500 m
    """

    radius: Annotated[Metres, Field(gt=0)]
    """R, the radius of the disk."""
    centre: Point = (0.0, 0.0)
    """Centre [x, y] of the disk."""

    def open(self, users: int, towers_xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """Return a position for each user."""
        return in_disk(users, self.radius, streams) + self.centre

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""

        def distance(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.asarray(np.hypot(*(self.open(size, np.zeros((1, 2)), streams) - self.centre).T))

        return (disk_distance_law("distance to the centre in m", self.radius, distance),)
