"""Users on circles around a centre."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.placement import Placement
from netfl.network.placement._sampling import Point, at_distance, uniform_law
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts
from netfl.units import Extent


class Rings(Placement):
    """Circles of given radii, each user in a uniform random direction.

    With ``counts``, the first users are placed on the first ring, the next on the second, and so on; without them,
    user u is on ring u modulo the number of rings.

    Example::

        kind: rings
        radii: [50 m, 100 m, 200 m]
    """

    radii: Annotated[tuple[Annotated[Extent, Field(gt=0)], ...], Field(min_length=1)]
    """Radius of each ring."""
    counts: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Number of users on each ring; ``null`` assigns users to the rings in turn."""
    center: Point = (0.0, 0.0)
    """Centre [x, y] of all rings."""

    @model_validator(mode="after")
    def _check_counts(self) -> Rings:
        if self.counts is not None and len(self.counts) != len(self.radii):
            raise ValueError(f"{len(self.counts)} counts for {len(self.radii)} radii; give one for each radius")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.counts is not None and sum(self.counts) != facts.users:
            yield Fault(
                "counts",
                f"{sum(self.counts)} positions for {facts.users} users",
                self.counts,
                "make them sum to the number of users",
            )

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        if self.counts is None:
            distance_m = np.asarray(self.radii)[np.arange(users) % len(self.radii)]
        else:
            distance_m = np.repeat(self.radii, self.counts)
        return np.asarray(at_distance(users, distance_m, streams) + self.center)

    def laws(self) -> tuple[Law, ...]:
        def direction(streams: Streams, size: int) -> Floats:
            at_origin = Rings(radii=self.radii)
            x_m, y_m = at_origin.open(size, np.zeros((1, 2)), streams).T
            return np.asarray(np.arctan2(y_m, x_m))

        return (uniform_law("direction from the centre in rad", 2.0 * np.pi, direction),)
