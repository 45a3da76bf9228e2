"""Users who walk from one random place to the next, with pauses between."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.motion import Motion
from netfl.network.motion._area import Area, DiskArea, Floats, RectangleArea
from netfl.network.motion._waypoint_laws import waypoint_laws
from netfl.network.motion._waypoint_legs import (
    StationaryStart,
    WaypointJourneys,
    WaypointLegs,
    paused_share,
    stationary,
)
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres, Seconds, Speed


class RandomWaypoint(Motion):
    """The random waypoint model: walk straight to a place uniform in the area, pause, walk on to another.

    D. B. Johnson and D. A. Maltz, "Dynamic source routing in ad hoc wireless networks", 1996.  The speed of a leg is
    uniform on [min, max] with min > 0, as otherwise users come to a standstill in the long run (J. Yoon, M. Liu and
    B. Noble, INFOCOM 2003); a pause is uniform on its own [min, max].  The area is a disk or a rectangle.  A leg is on
    average 128R/45π long in a disk, and 0.5214 sides in a square.  In the long run the speed of who is on its way has
    the density 1 / (v ln(max/min)), its reciprocal mean being 1 / E[1/V], and users are nearer the centre than uniform.

    At time 0 a user is where the topology put it.  With ``start: stationary`` what it does there, pause or be on its
    way with what speed and where to, follows the law that it has there at any late instant (W. Navidi and T. Camp,
    IEEE Trans. Mobile Computing 3 (2004), conditioned on the place): speeds and pauses are stationary as soon as places
    are.  Places are if they were so at time 0; from any other placement they come to it within a few legs.  With
    ``start: fresh`` every user sets out on a whole leg at time 0, and speeds fall for as long as the longest legs last.

    Example::

        kind: random_waypoint
        radius: 250 m
        speed: [1, 3]
        pause: [0, 1 min]
    """

    speed: tuple[Annotated[Speed, Field(gt=0)], Annotated[Speed, Field(gt=0)]]
    """[min, max] of a leg's speed; a string with a unit, such as ``5 km/h``, will do."""
    pause: tuple[Annotated[Seconds, Field(ge=0)], Annotated[Seconds, Field(ge=0)]] = (0.0, 0.0)
    """[min, max] of the time between two legs."""
    radius: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """R, the radius of the disk that is moved in."""
    width: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """Extent from west to east of the rectangle that is moved in, in place of ``radius``."""
    height: Annotated[Metres, Field(gt=0, le=1e9)] | None = None
    """Extent from south to north of that rectangle."""
    centre: Point = (0.0, 0.0)
    """The centre [x, y] of the area."""
    start: Literal["stationary", "fresh"] = "stationary"
    """What users do at time 0."""

    @model_validator(mode="after")
    def _one_area(self) -> RandomWaypoint:
        """A disk or a rectangle; ranges in order."""
        if (self.width is None) != (self.height is None) or (self.radius is None) == (self.width is None):
            raise ValueError("give radius, or width and height")
        for name, (least, most) in (("speed", self.speed), ("pause", self.pause)):
            if least > most:
                raise ValueError(f"{name} goes from {least:g} to {most:g}; put the smaller one first")
        return self

    def open(self, sites: Layout, streams: Streams) -> WaypointJourneys:
        """The journeys of all users.

        Raises:
            ScenarioError: users who were put outside of the area.
        """
        inside = self.area.holds(sites.user_xy_m - self.centre)
        if not inside.all():
            out = np.flatnonzero(~inside)
            who = ", ".join(map(str, out[:8])) + (f" and {len(out) - 8} more" if len(out) > 8 else "")
            key = "radius" if self.width is None else "width"
            remedy = "make the area larger, move its centre, or place users within it"
            raise ScenarioError(
                [Fault(key, f"placed outside of the area: user{'s' * (len(out) > 1)} {who}", None, remedy)]
            )
        return _Walks(self, sites.user_xy_m, streams)

    def laws(self) -> tuple[Law, ...]:
        """Legs, and from a stationary start the speed, the pauses and the place at any instant."""
        return waypoint_laws(self.area, self.speed, self.pause, self.at_origin, stationary=self.start == "stationary")

    def at_origin(self, xy_m: Floats, streams: Streams) -> WaypointJourneys:
        """The journeys of users at places of an area whose centre is the origin."""
        return _Walks(self.model_copy(update={"centre": (0.0, 0.0)}), xy_m, streams)

    @property
    def area(self) -> Area:
        """The area, as if its centre were the origin."""
        if self.width is not None and self.height is not None:
            return RectangleArea(self.width, self.height)
        return DiskArea(self.radius or 0.0)


class _Walks(WaypointJourneys):
    """The legs of the random waypoint model; leg k of user u is keyed by (u, k)."""

    def __init__(self, model: RandomWaypoint, xy_m: Floats, streams: Streams) -> None:
        WaypointJourneys.__init__(self, len(xy_m))
        self._model, self._area, self._from_m = model, model.area, xy_m
        self._waypoint, self._speed, self._pause = map(streams.field, ("waypoint", "speed", "pause"))
        self._start: StationaryStart | None = None
        if model.start == "stationary":
            share = paused_share(self._area, model.speed, model.pause)
            local = stationary(xy_m - model.centre, self._area, share, streams)
            target_m = np.where(local.pausing[:, None], xy_m, local.target_m + model.centre)
            self._start = StationaryStart(local.pausing, target_m)

    def legs(self, users: NDArray[np.int64], number: NDArray[np.int64]) -> WaypointLegs:
        """From the last place to the next."""
        first = number == 0
        origin_m = np.where(first[:, None], self._from_m[users], self._place(users, np.maximum(number - 1, 0)))
        target_m = self._place(users, number)
        unit, rest = self._speed.uniform(users, number), self._pause.uniform(users, number)
        (slow, fast), (short, long) = self._model.speed, self._model.pause
        speed_m_s, pause_s = slow + unit * (fast - slow), short + rest * (long - short)
        if self._start is not None and first.any():
            speed_m_s = np.where(first, slow * (fast / slow) ** unit, speed_m_s)
            seen_s = np.sqrt(short**2 + rest * (long**2 - short**2)) * self._pause.uniform(users, number, draw=1)
            pause_s = np.where(first & self._start.pausing[users], seen_s, pause_s)
        return WaypointLegs(origin_m, target_m, np.hypot(*(target_m - origin_m).T) / speed_m_s, pause_s)

    def _place(self, users: NDArray[np.int64], number: NDArray[np.int64]) -> Floats:
        """Where the leg with that number ends."""
        east, north = (self._waypoint.uniform(users, number, draw=draw) for draw in (0, 1))
        place_m = self._area.place(east, north) + self._model.centre
        if self._start is None:
            return place_m
        return np.where((number == 0)[:, None], self._start.target_m[users], place_m)
