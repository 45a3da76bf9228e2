"""Users in clusters around towers or other centres."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import ByForm, NotWith, check_one_of
from netfl.network.placement import Placement
from netfl.network.placement._sampling import disk_distance_law, in_disk
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Extent, Metres


class Clusters(Placement):
    """Clusters: each user belongs to one of several centres, all equally likely, and is near it.

    With ``sigma``, each coordinate is normal around the centre's (a Thomas cluster): the distance r to the centre
    follows a Rayleigh distribution, P(r ≤ x) = 1 - exp(-x²/2σ²).  With ``radius``, a place is uniform over the area of
    a disk around the centre (a Matérn cluster): P(r ≤ x) = (x/R)².  Given the number of users and the centres, these
    are the processes of M. Thomas, Biometrika 36 (1949), and B. Matérn, "Spatial variation" (1960).  Centres are the
    towers, or a number of places uniform over the disk of radius ``area`` around the origin.  Exactly one of ``sigma``
    and ``radius`` is given; ``area`` goes with a number of centres.

    Example::

        kind: clusters
        centers: 3
        area: 150 m
        sigma: 20 m
    """

    centers: Annotated[Literal["towers"] | Annotated[int, Field(ge=1, le=1_000_000)], ByForm()] = "towers"
    """``towers``, or the number of centres drawn."""
    area: Annotated[Annotated[Extent, Field(gt=0)] | None, NotWith("centers", "towers")] = None
    """Radius of the disk over which drawn centres are spread."""
    sigma: Annotated[Metres, Field(gt=0)] | None = None
    """σ, the standard deviation of each coordinate."""
    radius: Annotated[Metres, Field(gt=0)] | None = None
    """R, the radius of each cluster."""

    @model_validator(mode="after")
    def _check_keys(self) -> Clusters:
        check_one_of(self, "sigma", "radius")
        if self.centers != "towers" and self.area is None:
            raise ValueError("area is missing; give the radius of the disk over which centres are drawn")
        return self

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        if self.centers == "towers":
            centres_m = towers_xy_m
        else:
            centres_m = in_disk(self.centers, self.area or 0.0, streams.at("centres"))
        draw = streams.field("cluster").uniform(np.arange(users))
        cluster = (draw * len(centres_m)).astype(np.int64)
        return centres_m[cluster] + self._offsets(users, streams)

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        def draw_xy_m(streams: Streams, size: int) -> Floats:
            return self._offsets(size, streams)

        quantity = "distance to the cluster's centre in m"
        if self.sigma is None:
            return (disk_distance_law(quantity, self.radius or 0.0, draw_xy_m),)
        by_distance = Law(
            quantity,
            "Rayleigh: P(r ≤ x) = 1 - exp(-x²/2σ²), mean σ√(π/2), variance (2 - π/2)σ²",
            draw=lambda streams, size: np.hypot(*draw_xy_m(streams, size).T),
            distribution=stats.rayleigh(scale=self.sigma),
        )
        return (by_distance,)

    def _offsets(self, users: int, streams: Streams) -> Floats:
        """Return the positions relative to the centres, ``[users, 2]``."""
        if self.sigma is None:
            return in_disk(users, self.radius or 0.0, streams.at("offset"))
        return self.sigma * streams.field("offset").normal(np.arange(users)[:, None], draw=np.arange(2))
