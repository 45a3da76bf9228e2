"""Users at listed positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts


class Listed(Placement):
    """Positions from a list, one for each user in the order of their numbers.

    Example::

        kind: listed
        positions: [[0, 50 m], [30, 40], [10 m, 0], [-20, 5], [0, -60], [100 m, 100 m]]
    """

    positions: Annotated[tuple[Point, ...], PerUser()]
    """Position [x, y] of each user."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if len(self.positions) != facts.users:
            yield Fault(
                "positions", f"{len(self.positions)} positions for {facts.users} users", remedy="give one for each user"
            )

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        return np.asarray(self.positions, float).reshape(-1, 2)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the scenario gives the positions"),)
