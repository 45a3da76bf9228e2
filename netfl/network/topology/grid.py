"""Routers on a rectangular lattice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import ByForm
from netfl.network.layout import Layout
from netfl.network.placement import Placement
from netfl.network.placement._sampling import uniform_law
from netfl.network.placement.rectangle import Rectangle
from netfl.network.topology import Topology
from netfl.network.topology._graph import MAX_NODES, build_mesh, place_users
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Bitrate, Extent

Cell = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
"""A router of the lattice: its row from the south and its column from the west, both from 0."""


class Grid(Topology):
    """Routers in rows and columns around the origin, linked to the next in each row and column.

    ``router:i`` with i = row · columns + column is in that row, from the south, and column, from the west.  All or
    some routers carry a tower; the server is at one, by default in the middle (the lower of two).  A tower and the
    server are joined to their router by a link of no length; a link's delay is its length over the speed of light.
    Users are placed uniformly in the rectangle that gives each router a square of its own, columns · spacing wide and
    rows · spacing high, or as a placement states; each belongs to the nearest tower.

    Example::

        kind: grid
        rows: 2
        columns: 3
        spacing: 200 m
        towers: [[0, 0], [1, 2]]
        rate: 100 Mbps
    """

    rows: Annotated[int, Field(ge=1)]
    """Routers from south to north."""
    columns: Annotated[int, Field(ge=1)]
    """Routers from west to east."""
    spacing: Annotated[Extent, Field(gt=0)]
    """Distance between neighbours."""
    towers: Annotated[Literal["all"] | Annotated[tuple[Cell, ...], Field(min_length=1)], ByForm()] = "all"
    """``all`` routers carry a tower, or those at the listed [row, column]."""
    server: Cell | None = None
    """The [row, column] of the router at which the server is; ``null`` for the middle."""
    rate: Annotated[Bitrate, Field(gt=0)] = 1e9
    """Rate of each link."""
    placement: Annotated[Placement, FamilyMember()] | None = None
    """Positions of users; ``null`` for uniform in the rectangle."""

    @model_validator(mode="after")
    def _check_cells(self) -> Grid:
        routers = self.rows * self.columns
        if routers > MAX_NODES:
            raise ValueError(f"{routers:,} routers, more than {MAX_NODES:,}; use fewer rows or columns")
        cells: list[Cell] = []
        if self.towers != "all":
            cells += self.towers
        if self.server is not None:
            cells.append(self.server)
        for row, column in cells:
            if row >= self.rows or column >= self.columns:
                last = [self.rows - 1, self.columns - 1]
                raise ValueError(f"there is no router at {[row, column]}; use one up to {last}, counted from 0")
        if self.towers != "all" and len(set(self.towers)) < len(self.towers):
            raise ValueError("towers lists a router twice; list each once")
        return self

    def open(self, users: int, streams: Streams) -> Layout:
        row, column = np.divmod(np.arange(self.rows * self.columns), self.columns)
        middle = ((self.columns - 1) / 2.0, (self.rows - 1) / 2.0)
        positions = self.spacing * (np.column_stack([column, row]) - middle)
        tower_routers = [*range(len(positions))]
        if self.towers != "all":
            tower_routers = [self._router(cell) for cell in self.towers]
        server_router = self._router(self.server or ((self.rows - 1) // 2, (self.columns - 1) // 2))
        graph = build_mesh(positions, self._links(), tower_routers, server_router, self.rate)
        return Layout(graph, place_users(self.placement or self._rectangle, users, graph, streams))

    def laws(self) -> tuple[Law, ...]:
        if self.placement is not None:
            return (Law.none("the placement gives the positions of users"),)

        def draw(streams: Streams, size: int) -> Floats:
            return self.open(size, streams).user_xy_m[:, 0]

        return (uniform_law("distance of a user east of the origin in m", self._rectangle.width, draw),)

    @property
    def _rectangle(self) -> Rectangle:
        return Rectangle(width=self.columns * self.spacing, height=self.rows * self.spacing)

    def _router(self, cell: Cell) -> int:
        row, column = cell
        return row * self.columns + column

    def _links(self) -> Iterator[tuple[int, int]]:
        for router in range(self.rows * self.columns):
            if (router + 1) % self.columns:  # not the last of its row
                yield router, router + 1
            if router + self.columns < self.rows * self.columns:  # not in the last row
                yield router, router + self.columns
