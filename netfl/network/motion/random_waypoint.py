"""The random waypoint model."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.motion import Motion
from netfl.network.motion._area import Area, DiskArea, RectangleArea
from netfl.network.motion._waypoint_laws import waypoint_laws
from netfl.network.motion._waypoint_paths import WaypointModel, WaypointPaths
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres, Seconds, Speed


class RandomWaypoint(Motion):
    """The random waypoint model: walk straight to a place uniform in the area, pause, walk on to another.

    D. B. Johnson and D. A. Maltz, "Dynamic source routing in ad hoc wireless networks", 1996.  The speed of a leg is
    uniform on [min, max] with min > 0, as otherwise users come to a standstill in the long run (J. Yoon, M. Liu and
    B. Noble, INFOCOM 2003); a pause is uniform on its own [min, max].  The area is a disk or a rectangle.  The mean
    length of a leg is 128R/45π in a disk, and 0.5214 sides in a square.  In the long run the speed of a moving user has
    the density 1 / (v ln(max/min)), its reciprocal mean being 1 / E[1/V], and users are nearer the centre than uniform.

    At time 0 users are at the positions of the topology.  With ``start: stationary``, a user's state (pausing, or
    moving with a speed and a target) has the stationary distribution given its position (W. Navidi and T. Camp,
    IEEE Trans. Mobile Computing 3 (2004), conditioned on the place): speeds and pauses are stationary as soon as
    positions are.  Positions are stationary if they are so at time 0; from any other placement they become so within a
    few legs.  With ``start: fresh`` every user begins a whole leg at time 0, and speeds fall for as long as the longest
    legs last.

    Example::

        kind: random_waypoint
        radius: 250 m
        speed: [1, 3]
        pause: [0, 1 min]
    """

    speed: tuple[Annotated[Speed, Field(gt=0)], Annotated[Speed, Field(gt=0)]]
    """[min, max] of a leg's speed; units such as ``5 km/h`` are possible."""
    pause: tuple[Annotated[Seconds, Field(ge=0)], Annotated[Seconds, Field(ge=0)]] = (0.0, 0.0)
    """[min, max] of the time between two legs."""
    radius: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """R, the radius of the area, a disk."""
    width: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """Extent from west to east of the area, a rectangle, in place of ``radius``."""
    height: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """Extent from south to north of the rectangle."""
    centre: Point = (0.0, 0.0)
    """The centre [x, y] of the area."""
    start: Literal["stationary", "fresh"] = "stationary"
    """State of the users at time 0."""

    @model_validator(mode="after")
    def _check_area(self) -> RandomWaypoint:
        if (self.width is None) != (self.height is None) or (self.radius is None) == (self.width is None):
            raise ValueError("give radius, or width and height")
        for name, (low, high) in (("speed", self.speed), ("pause", self.pause)):
            if low > high:
                raise ValueError(f"{name} goes from {low:g} to {high:g}; put the smaller one first")
        return self

    @property
    def model(self) -> WaypointModel:
        """Parameters of the trajectories."""
        area: Area = DiskArea(self.radius or 0.0)
        if self.width is not None and self.height is not None:
            area = RectangleArea(self.width, self.height)
        return WaypointModel(area, self.centre, self.speed, self.pause, self.start == "stationary")

    def open(self, layout: Layout, streams: Streams) -> WaypointPaths:
        """Return the trajectories of all users.

        Raises:
            ScenarioError: users are outside of the area at time 0.
        """
        model = self.model
        outside = np.flatnonzero(~model.area.holds(layout.user_xy_m - self.centre))
        if outside.size:
            names = ", ".join(map(str, outside[:8])) + (f" and {len(outside) - 8} more" if len(outside) > 8 else "")
            key = "radius" if self.width is None else "width"
            problem = f"placed outside of the area: user{'s' * (len(outside) > 1)} {names}"
            remedy = "make the area larger, move its centre, or place users within it"
            raise ScenarioError([Fault(key, problem, None, remedy)])
        return WaypointPaths(model, layout.user_xy_m, streams)

    def laws(self) -> tuple[Law, ...]:
        """Return the laws of legs and, from a stationary start, of the state at any instant."""
        return waypoint_laws(self.model)
