"""Users uniform over a rectangle."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, in_rectangle, uniform_law
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Extent


class Rectangle(Placement):
    """Uniform over the area of a rectangle whose sides run east and north.

    Example::

        kind: rectangle
        width: 600 m
        height: 300 m
    """

    width: Annotated[Extent, Field(gt=0)]
    """Extent from west to east."""
    height: Annotated[Extent, Field(gt=0)]
    """Extent from south to north."""
    center: Point = (0.0, 0.0)
    """Centre [x, y] of the rectangle."""

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        return in_rectangle(users, self.width, self.height, streams) + self.center

    def laws(self) -> tuple[Law, ...]:
        def coordinate(axis: int, streams: Streams, size: int) -> Floats:
            return np.asarray((self.open(size, np.zeros((1, 2)), streams) - self.center)[:, axis])

        return (
            uniform_law("distance east of the centre in m", self.width, partial(coordinate, 0)),
            uniform_law("distance north of the centre in m", self.height, partial(coordinate, 1)),
        )
