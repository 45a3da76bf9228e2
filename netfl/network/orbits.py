"""Orbits: when satellites of a constellation pass over ground stations, at which range, with which gain and delay.

A Walker constellation has T satellites in P planes of equal inclination and altitude.  Of a ``delta`` the ascending
nodes of the planes are spread over 360°, of a ``star`` over 180°.  Neighbours in a plane are 360° P / T apart, and a
satellite is F · 360° / T ahead of the one with its number in the plane before: T/P/F (J. G. Walker, "Satellite
constellations", J. Brit. Interplanet. Soc. 37 (1984), p. 559).  Satellites are numbered plane by plane.

Orbits are circles around a sphere of 6371 km, without perturbations, and the Earth turns below them.  A pass is an
interval in which the elevation of a satellite is at least ``min_elevation``.  The range d gives the gain of free space,
-20 log10(4π d f / c), and the delay d / c.

>>> orbits = Orbits(satellites=12, planes=3, phasing=1, inclination=53, altitude=550e3, frequency=2e9,
...     stations=[{"latitude": 48.0, "longitude": 11.6}], duration=86400)
>>> round(orbits.period_s, 2)
5730.13
>>> len(orbits.passes())
67
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from netfl.core.spec import Spec
from netfl.core.spec_errors import invalid
from netfl.errors import Fault, ScenarioError
from netfl.network.channel._path_loss import friis_db
from netfl.network.layout import LIGHT_M_S
from netfl.types import Floats, Ints
from netfl.units import Carrier, Metres, Seconds

EARTH_M = 6_371_000.0
"""Mean radius of the Earth."""
_MU_M3_S2 = 3.986_004_418e14
"""Gravitational parameter of the Earth (WGS 84)."""
_TURN_RAD_S = 7.292_115_9e-5
"""Angular speed of the Earth (WGS 84)."""
_SEARCH_S = 10.0
"""Time between the instants at which passes are searched; a shorter pass is found by its highest point."""
_HALVINGS = 48
"""Halvings of an interval until it is below a nanosecond."""
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_MOST_AT_ONCE = 1 << 21
"""Most pairs of a satellite and an instant that are searched at once."""
_DECIMALS = 6
"""Of times in s, in the files."""
_MOST_LINES = 20_000_000
"""Most lines of the file of gains."""


class Station(Spec):
    """A ground station at sea level."""

    latitude: Annotated[float, Field(ge=-90, le=90)]
    """Latitude in degrees, positive in the north."""
    longitude: Annotated[float, Field(ge=-180, le=360)]
    """Longitude in degrees, positive in the east."""
    name: str = ""
    """A name for tables."""


class Orbits(Spec):
    """A Walker constellation over ground stations, which become users and towers of a network.

    Satellite i is user i, and station i is ``tower:i``.

    Example::

        satellites: 66
        planes: 6
        phasing: 2
        pattern: star
        inclination: 86.4
        altitude: 780 km
        min_elevation: 10
        stations:
          - {name: Svalbard, latitude: 78.2, longitude: 15.4}
        frequency: 2 GHz
        duration: 1 day
    """

    satellites: Annotated[int, Field(ge=1, le=100_000)]
    """T, the number of satellites: a multiple of ``planes``."""
    planes: Annotated[int, Field(ge=1)] = 1
    """P, the number of orbital planes."""
    phasing: Annotated[int, Field(ge=0)] = 0
    """F, the phase between neighbouring planes in units of 360° / T; below ``planes``."""
    pattern: Literal["delta", "star"] = "delta"
    """Spread of the ascending nodes: over 360° (``delta``) or over 180° (``star``)."""
    inclination: Annotated[float, Field(ge=0, le=180)]
    """Inclination of all planes to the equator in degrees; above 90 against the turn of the Earth."""
    altitude: Annotated[Metres, Field(ge=100e3, le=50_000e3)]
    """Altitude above the ground."""
    stations: Annotated[tuple[Station, ...], Field(min_length=1)]
    """Ground stations: the first is ``tower:0``."""
    min_elevation: Annotated[float, Field(ge=0, lt=90)] = 10.0
    """Smallest elevation of a satellite that a station hears, in degrees above the horizon."""
    frequency: Carrier
    """Carrier frequency f, for the gain."""
    duration: Annotated[Seconds, Field(gt=0)]
    """Length of the files, from time 0."""
    every: Annotated[Seconds, Field(ge=0.1)] = 10.0
    """Time between lines of gains and delays within a pass."""
    earth_turns: bool = True
    """Whether the Earth turns below the orbits."""

    @model_validator(mode="after")
    def _check_pattern(self) -> Orbits:
        if self.satellites % self.planes:
            raise invalid(
                f"{self.satellites} satellites cannot be spread evenly over {self.planes} planes",
                "let planes divide satellites",
            )
        if self.phasing >= self.planes:
            raise invalid(
                f"phasing {self.phasing} is not below the {self.planes} planes", f"use 0 to {self.planes - 1}"
            )
        return self

    @property
    def radius_m(self) -> float:
        """Radius of the orbits."""
        return EARTH_M + self.altitude

    @property
    def period_s(self) -> float:
        """Time of one revolution, 2π √(a³ / μ)."""
        return 2.0 * math.pi * math.sqrt(self.radius_m**3 / _MU_M3_S2)

    @property
    def max_angle_rad(self) -> float:
        """Largest angle at the centre of the Earth between a station and a satellite that it hears, in radians."""
        elevation = math.radians(self.min_elevation)
        return math.acos(EARTH_M * math.cos(elevation) / self.radius_m) - elevation

    def cosines(self, satellites: Ints, stations: Ints, times_s: Floats) -> Floats:
        """Return the cosine of the angle at the centre of the Earth between satellite and station, of their shape."""
        in_plane = satellites % (self.satellites // self.planes)
        plane = satellites // (self.satellites // self.planes)
        spread = 2.0 * math.pi if self.pattern == "delta" else math.pi
        node = plane * (spread / self.planes)
        step = 2.0 * math.pi / self.satellites
        argument = in_plane * (step * self.planes) + plane * (step * self.phasing)
        argument = argument + times_s * (2.0 * math.pi / self.period_s)

        latitudes = np.radians([station.latitude for station in self.stations])[stations]
        longitudes = np.radians([station.longitude for station in self.stations])[stations]
        if self.earth_turns:
            longitudes = longitudes + times_s * _TURN_RAD_S
        tilt = math.radians(self.inclination)
        east_of_node = longitudes - node
        along = np.cos(latitudes) * np.cos(east_of_node)  # the station along the ascending node, and a quarter ahead
        ahead = np.cos(latitudes) * np.sin(east_of_node) * math.cos(tilt) + np.sin(latitudes) * math.sin(tilt)
        return np.asarray(np.cos(argument) * along + np.sin(argument) * ahead)

    def ranges_m(self, satellites: Ints, stations: Ints, times_s: Floats) -> Floats:
        """Return the distance between satellite and station, through the Earth where it is in the way."""
        return self._ranges_m(self.cosines(satellites, stations, times_s))

    def elevations(self, satellites: Ints, stations: Ints, times_s: Floats) -> Floats:
        """Return the elevation of each satellite over the horizon of its station, in degrees."""
        cosines = self.cosines(satellites, stations, times_s)
        ranges_m = self._ranges_m(cosines)
        sines = (self.radius_m * cosines - EARTH_M) / ranges_m
        return np.degrees(np.arcsin(np.clip(sines, -1.0, 1.0)))

    def passes(self) -> pd.DataFrame:
        """Return the passes from time 0 to the end, in the order of satellite, station and time.

        Returns:
            A row for each: ``user``, ``tower``, ``start`` and ``end`` in s, and the highest elevation ``highest_deg``.
        """
        found = (part for station in range(len(self.stations)) for part in self._passes_over(station))
        table = pd.concat(found, ignore_index=True)
        return table.sort_values(["user", "tower", "start"], kind="stable", ignore_index=True)

    def gains(self, passes: pd.DataFrame) -> pd.DataFrame:
        """Return gains and delays over time, for the channel ``trace``.

        Each satellite and station have lines at time 0 and at the end, and within *passes* ``every`` so often.  Between
        passes the values mean nothing, as the link is not there.

        Returns:
            A row for each line: ``user``, ``tower``, ``time_s``, ``gain_db`` and ``delay_s``.

        Raises:
            ScenarioError: there would be too many lines; the key is ``every``.
        """
        towers = passes["tower"].str.removeprefix("tower:").to_numpy(np.int64)
        starts_s = passes["start"].to_numpy()
        ends_s = passes["end"].to_numpy()
        counts = np.ceil((ends_s - starts_s) / self.every).astype(np.int64) + 1
        pairs = self.satellites * len(self.stations)
        lines = int(counts.sum()) + 2 * pairs
        if lines > _MOST_LINES:
            problem = f"{lines:,} lines of gains, more than {_MOST_LINES:,}"
            raise ScenarioError([Fault("every", problem, self.every, "make it longer, or the duration shorter")])

        row = np.repeat(np.arange(len(passes)), counts)
        number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        within_s = np.minimum(starts_s[row] + self.every * number, ends_s[row])
        of_pair = np.arange(pairs)
        users = np.concatenate([passes["user"].to_numpy()[row], np.repeat(of_pair // len(self.stations), 2)])
        stations = np.concatenate([towers[row], np.repeat(of_pair % len(self.stations), 2)])
        times_s = np.concatenate([within_s, np.tile([0.0, self.duration], pairs)])
        keys = pd.DataFrame({"user": users, "station": stations, "time_s": times_s.round(_DECIMALS)})
        keys = keys.drop_duplicates().sort_values(["user", "station", "time_s"], ignore_index=True)

        ranges_m = self.ranges_m(keys["user"].to_numpy(), keys["station"].to_numpy(), keys["time_s"].to_numpy())
        return pd.DataFrame(
            {
                "user": keys["user"],
                "tower": "tower:" + keys["station"].astype(str),
                "time_s": keys["time_s"],
                "gain_db": -friis_db(self.frequency, ranges_m),
                "delay_s": ranges_m / LIGHT_M_S,
            }
        )

    def write(self, folder: Path, passes: pd.DataFrame) -> tuple[Path, Path]:
        """Write ``passes.csv`` for the association ``windows``, and ``gains.csv`` for the channel ``trace``.

        Args:
            folder: made if it is not there.
            passes: as from `passes`.

        Returns:
            The paths of both files.

        Raises:
            ScenarioError: no satellite passes over a station; or as `gains`.
            OSError: a file cannot be written.
        """
        if passes.empty:
            problem = (
                f"no satellite is {self.min_elevation:g}° above the horizon of a station within {self.duration:g} s"
            )
            raise ScenarioError([Fault("min_elevation", problem, None, "lower it, or change orbits or stations")])
        gains = self.gains(passes)
        folder.mkdir(parents=True, exist_ok=True)
        passes_path = folder / "passes.csv"
        gains_path = folder / "gains.csv"
        passes[["user", "tower", "start", "end"]].to_csv(passes_path, index=False, float_format=f"%.{_DECIMALS}f")
        rounded = gains.assign(gain_db=gains["gain_db"].round(4), delay_s=gains["delay_s"].round(9))
        rounded.to_csv(gains_path, index=False)
        return passes_path, gains_path

    def _ranges_m(self, cosines: Floats) -> Floats:
        """Return the distance between satellite and station from `cosines`."""
        return np.sqrt(EARTH_M**2 + self.radius_m**2 - 2.0 * EARTH_M * self.radius_m * cosines)

    def _passes_over(self, station: int) -> Iterator[pd.DataFrame]:
        """Yield the passes over one station, for some satellites at a time."""
        instants_s = np.linspace(0.0, self.duration, max(2, math.ceil(self.duration / _SEARCH_S) + 1))
        at_once = max(1, _MOST_AT_ONCE // len(instants_s))
        for first in range(0, self.satellites, at_once):
            satellites = np.arange(first, min(first + at_once, self.satellites))
            above = self._above(satellites[:, None], station, instants_s[None, :])
            for find in (self._long_passes, self._short_passes):
                users, starts_s, ends_s = find(satellites, station, instants_s, above)
                tops_s = self._highest(users, station, starts_s, ends_s)
                highest = self.elevations(users, np.full(len(users), station), tops_s)
                columns = {"user": users, "tower": f"tower:{station}", "start": starts_s, "end": ends_s}
                yield pd.DataFrame({**columns, "highest_deg": highest})

    def _long_passes(
        self, satellites: Ints, station: int, instants_s: Floats, above: Floats
    ) -> tuple[Ints, Floats, Floats]:
        """Return satellite, start and end of the passes that hold one of the instants, ``[n]`` each.

        Args:
            satellites: numbers of some, ``[k]``.
            station: number of the station.
            instants_s: increasing times from 0 to the end, ``[m]``.
            above: `_above` of these satellites at these times, ``[k, m]``.
        """
        is_up = above >= 0.0
        already = satellites[is_up[:, 0]]
        still = satellites[is_up[:, -1]]
        row, before = np.nonzero(~is_up[:, :-1] & is_up[:, 1:])
        rising = satellites[row]
        rises_s = self._crossing(rising, station, instants_s[before], instants_s[before + 1])
        row, before = np.nonzero(is_up[:, :-1] & ~is_up[:, 1:])
        falling = satellites[row]
        falls_s = self._crossing(falling, station, instants_s[before], instants_s[before + 1])

        # starts and ends of a satellite take turns, so that both are in one order
        users, starts_s = _in_order([already, rising], [np.zeros(len(already)), rises_s])
        _, ends_s = _in_order([still, falling], [np.full(len(still), self.duration), falls_s])
        return users, starts_s, ends_s

    def _short_passes(
        self, satellites: Ints, station: int, instants_s: Floats, above: Floats
    ) -> tuple[Ints, Floats, Floats]:
        """Return satellite, start and end of the passes between two instants, as `_long_passes`.

        The satellite is below at three instants in a row, and highest about the middle one.
        """
        middle = above[:, 1:-1]
        row, before = np.nonzero((middle < 0.0) & (middle >= above[:, :-2]) & (middle >= above[:, 2:]))
        users = satellites[row]
        low_s = instants_s[before]
        high_s = instants_s[before + 2]
        tops_s = self._highest(users, station, low_s, high_s)
        is_pass = self._above(users, station, tops_s) >= 0.0
        users = users[is_pass]
        tops_s = tops_s[is_pass]
        starts_s = self._crossing(users, station, low_s[is_pass], tops_s)
        ends_s = self._crossing(users, station, tops_s, high_s[is_pass])
        return users, starts_s, ends_s

    def _above(self, satellites: Ints, station: int, times_s: Floats) -> Floats:
        """Return how far each satellite is above the smallest elevation: at least 0 in a pass."""
        stations = np.full(np.broadcast(satellites, times_s).shape, station)
        return self.cosines(satellites, stations, times_s) - math.cos(self.max_angle_rad)

    def _crossing(self, satellites: Ints, station: int, low_s: Floats, high_s: Floats) -> Floats:
        """Return when each satellite crosses the smallest elevation between two times, one of them in a pass."""
        is_up_at_low = self._above(satellites, station, low_s) >= 0.0
        for _ in range(_HALVINGS):
            middle_s = (low_s + high_s) / 2.0
            is_before = (self._above(satellites, station, middle_s) >= 0.0) == is_up_at_low
            low_s = np.where(is_before, middle_s, low_s)
            high_s = np.where(is_before, high_s, middle_s)
        return np.where(is_up_at_low, low_s, high_s)

    def _highest(self, satellites: Ints, station: int, low_s: Floats, high_s: Floats) -> Floats:
        """Return when each satellite is highest between two times, by golden section."""
        for _ in range(_HALVINGS):
            part_s = _GOLDEN * (high_s - low_s)
            inner_low_s = high_s - part_s
            inner_high_s = low_s + part_s
            left = self._above(satellites, station, inner_low_s)
            right = self._above(satellites, station, inner_high_s)
            is_right = right > left
            low_s = np.where(is_right, inner_low_s, low_s)
            high_s = np.where(is_right, high_s, inner_high_s)
        return (low_s + high_s) / 2.0


def _in_order(users: Sequence[Ints], times_s: Sequence[Floats]) -> tuple[Ints, Floats]:
    """Return all users and times, by user and then by time."""
    all_users = np.concatenate(users)
    all_times_s = np.concatenate(times_s)
    order = np.lexsort((all_times_s, all_users))
    return all_users[order], all_times_s[order]
