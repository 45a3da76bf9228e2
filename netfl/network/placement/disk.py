"""Users uniform over a disk."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, disk_distance_law, in_disk
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Extent


class Disk(Placement):
    """Uniform over the area of a disk: the distance r to its centre has P(r ≤ x) = (x/R)².

    Example::

        kind: disk
        radius: 500 m
    """

    radius: Annotated[Extent, Field(gt=0)]
    """R, the radius of the disk."""
    center: Point = (0.0, 0.0)
    """Centre [x, y] of the disk."""

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        return in_disk(users, self.radius, streams) + self.center

    def laws(self) -> tuple[Law, ...]:
        def draw_xy_m(streams: Streams, size: int) -> Floats:
            return in_disk(size, self.radius, streams)

        return (disk_distance_law("distance to the centre in m", self.radius, draw_xy_m),)
