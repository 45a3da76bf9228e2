"""Users at listed positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Listed(Placement):
    """Positions from a list, one for each user in the order of their numbers.

    Example::

        kind: listed
        places: [[0, 50 m], [30, 40], [10 m, 0], [-20, 5], [0, -60], [100 m, 100 m]]
    """

    places: tuple[Point, ...]
    """Position [x, y] of each user."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a wrong number of positions."""
        if len(self.places) != facts.users:
            yield Fault("places", f"{len(self.places)} places for {facts.users} users", remedy="give one each")

    def open(self, users: int, towers_xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """Return a position for each user."""
        return np.asarray(self.places, float).reshape(-1, 2)

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        return (Law.none("users stand where the scenario says"),)
