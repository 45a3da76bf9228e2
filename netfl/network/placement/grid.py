"""Users on a square lattice."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Metres


class Grid(Placement):
    """A square lattice, filled row by row from the south-west; the last row may be short.

    Example::

        kind: grid
        spacing: 50 m
    """

    spacing: Annotated[Metres, Field(gt=0)]
    """Distance between neighbours."""
    columns: Annotated[int, Field(ge=1)] | None = None
    """Users in a row; by default such that the lattice is nearly square."""
    center: Point = (0.0, 0.0)
    """Centre [x, y] of the lattice."""

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        columns = self.columns or math.ceil(math.sqrt(max(users, 1)))
        row, column = np.divmod(np.arange(users), columns)
        rows = math.ceil(users / columns)
        middle = ((min(users, columns) - 1) / 2.0, (rows - 1) / 2.0)
        return self.spacing * (np.column_stack([column, row]) - middle) + self.center

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is drawn: a lattice"),)
