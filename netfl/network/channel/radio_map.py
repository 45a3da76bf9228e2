"""Gains from a map of measured or computed values around the towers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError
from netfl.files.schema import POSITION, FileColumn
from netfl.files.tables import UserTable
from netfl.network.channel import LinkGain, OutsideDataError, StaticGain
from netfl.network.channel._measured import (
    Measured,
    MeasuredTable,
    link_schema,
    listed,
)
from netfl.network.channel._path_loss import Outside
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints

_ROUNDING_M = 1e-6
"""Distance from the edge of the map that counts as rounding."""
_REMEDY = "enlarge the map, keep users within it, or set out_of_range: extend"


class RadioMap(Measured):
    """Gain of a link by the place of the user, from a grid of points around each tower.

    The CSV or Parquet file has the columns ``x_m``, ``y_m`` and one of ``gain_db``, ``snr_db``, ``rsrp_dbm`` and
    ``rate_bps``, with the same meaning as in the channel ``trace``.  The points of a tower form a full grid: each x of
    the file with each y.  The distances between neighbours may differ.  A point without coverage has an empty value,
    ``nan``, ``-inf`` or a number in ``missing``.  It counts as a gain of -300 dB, an SNR of -200 dB, a received power
    of -300 dBm or a rate of 0.

    Between the points the value v is ``bilinear``, in dB or in bit/s: with the shares p and q of the way from a
    point to its neighbours in x and y,
    v = (1 - p) (1 - q) v00 + p (1 - q) v10 + (1 - p) q v01 + p q v11.
    Or it is that of the ``nearest`` point, at equal distance that with the larger coordinate.

    With a column ``tower``, such as ``tower:0``, each tower has a grid of its own.  Without it, the file is the map of
    the only tower; or, with ``relative``, of each tower, and its coordinates are those from the tower.

    A map usually holds path loss and shadowing: add a model of fading.  Nothing is drawn: a user that returns to a
    place has the same gain there.

    Example::

        kind: radio_map
        file: campus.csv
        interpolation: bilinear
        relative: true
    """

    file_schema: ClassVar = link_schema(
        "channel `radio_map`",
        FileColumn("x_m", POSITION, fix_empty="fill it in"),
        FileColumn("y_m", POSITION, fix_empty="fill it in"),
        empty="no coverage",
        memory="its rows, which are all points of the grids",
    )

    relative: bool = False
    """Coordinates count from the position of the tower, and not from the origin of the topology."""
    interpolation: Literal["bilinear", "nearest"] = "bilinear"
    """Rule between the points: ``bilinear`` or ``nearest``."""
    out_of_range: Outside = "error"
    """Users outside of the map: ``error``, or ``extend`` for the value at the nearest place on its edge."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        self.check_towers(layout)
        self.check_gains()
        gain = _MapGain(self, layout, self._grids(layout))
        users = np.arange(layout.users)
        self._refuse_outside(layout, gain, users)
        if layout.moving:
            return gain
        return StaticGain(gain.at_places(users, layout.user_xy_m))

    def data_misfit(self, layout: Layout, end_s: float) -> Fault | None:
        if layout.paths is None or self.out_of_range == "extend":
            return None
        gain = _MapGain(self, layout, self._grids(layout))
        users, times_s, places_m = layout.paths.waypoints(np.arange(layout.users), end_s)
        is_outside = gain.is_outside(users, places_m)
        if not is_outside.any():
            return None
        row = int(np.flatnonzero(is_outside)[np.argmin(times_s[is_outside])])
        x_m, y_m = places_m[row]
        problem = f"user {users[row]} moves to ({x_m:g}, {y_m:g}) m at {times_s[row]:g} s, outside of the map"
        return Fault("out_of_range", problem, None, _REMEDY)

    def missing_towers(self, layout: Layout) -> Sequence[str]:
        if self.relative and self.measured.towers is None:
            return ()
        return Measured.missing_towers(self, layout)

    def _refuse_outside(self, layout: Layout, gain: _MapGain, users: Ints) -> None:
        if self.out_of_range == "extend":
            return
        is_outside = gain.is_outside(users, layout.user_xy_m)
        if not is_outside.any():
            return
        outside = np.flatnonzero(is_outside)
        x_m, y_m = layout.user_xy_m[outside[0]]
        problem = f"no value for user {listed(outside.tolist())}: user {outside[0]} is at ({x_m:g}, {y_m:g}) m"
        raise ScenarioError([Fault("out_of_range", problem, self.out_of_range, _REMEDY)])

    def _read(self, table: UserTable) -> MeasuredTable:
        measured = self.read_measured(table)
        keys: list[Floats] = [measured.columns["x_m"], measured.columns["y_m"]]
        names = ["x_m", "y_m"]
        if measured.towers is not None:
            _, numbers = np.unique(measured.towers.astype(str), return_inverse=True)
            keys.append(numbers.ravel().astype(float))
            names.append("tower")
        table.refuse_repeated(names, keys)
        table.check()
        for tower in _tower_names(measured):
            _check_grid(measured, tower)
        return measured

    def _grids(self, layout: Layout) -> list[_Grid]:
        """Return the grid of each tower of *layout* with links.

        Raises:
            ScenarioError: a tower has none; the key is ``file`` or ``relative``.
        """
        measured = self.measured
        if measured.towers is None:
            if len(layout.towers) > 1 and not self.relative:
                problem = f"{measured.file_name} has one map for {len(layout.towers)} towers"
                remedy = "add the column tower with a map for each; or set relative: true, for the same around each"
                raise ScenarioError([Fault("file", problem, None, remedy)])
            return [_grid(measured, None)] * len(layout.towers)
        used = {layout.towers[index] for index in np.unique(layout.tower_at_start).tolist()}
        missing = [name for name in layout.towers if name in used and name not in measured.towers]
        if missing:
            problem = f"{measured.file_name} has no map of {listed(missing)}"
            raise ScenarioError([Fault("file", problem, None, "add lines for each tower with users")])
        empty = _grid(measured, str(measured.towers[0]))
        return [_grid(measured, name) if name in used else empty for name in layout.towers]


@dataclass(frozen=True)
class _Grid:
    """Values at the points of a grid: coordinates in ascending order, and values, ``[x, y]``."""

    x_m: Floats
    y_m: Floats
    values: Floats

    def at(self, x_m: float, y_m: float, *, nearest: bool) -> float | None:
        """Return the value at one place, faster than `interpolate`; ``None`` outside of the grid."""
        x_list = self.x_list_m
        y_list = self.y_list_m
        if not (x_list[0] <= x_m <= x_list[-1] and y_list[0] <= y_m <= y_list[-1]):
            return None
        i = min(bisect_right(x_list, x_m), len(x_list) - 1) - 1
        j = min(bisect_right(y_list, y_m), len(y_list) - 1) - 1
        p = (x_m - x_list[i]) / (x_list[i + 1] - x_list[i])
        q = (y_m - y_list[j]) / (y_list[j + 1] - y_list[j])
        v = self.values
        if nearest:
            return float(v[i + (p >= 0.5), j + (q >= 0.5)])
        low = (1.0 - p) * v[i, j] + p * v[i + 1, j]
        high = (1.0 - p) * v[i, j + 1] + p * v[i + 1, j + 1]
        return float((1.0 - q) * low + q * high)

    @cached_property
    def x_list_m(self) -> list[float]:
        """The coordinates x as numbers of Python, which are faster one by one."""
        return [*map(float, self.x_m)]

    @cached_property
    def y_list_m(self) -> list[float]:
        """The coordinates y as numbers of Python."""
        return [*map(float, self.y_m)]

    def interpolate(self, x_m: Floats, y_m: Floats, *, nearest: bool) -> Floats:
        """Return the value at each place, ``[n]``; outside of the grid that on its edge."""
        i, p = _cell(self.x_m, x_m)
        j, q = _cell(self.y_m, y_m)
        if nearest:
            return self.values[i + (p >= 0.5), j + (q >= 0.5)]
        v = self.values
        low = (1.0 - p) * v[i, j] + p * v[i + 1, j]
        high = (1.0 - p) * v[i, j + 1] + p * v[i + 1, j + 1]
        return np.asarray((1.0 - q) * low + q * high)

    def is_outside(self, x_m: Floats, y_m: Floats) -> Bools:
        """Return whether each place is outside of the grid, ``[n]``."""
        is_beside = (x_m < self.x_m[0] - _ROUNDING_M) | (x_m > self.x_m[-1] + _ROUNDING_M)
        return np.asarray(is_beside | (y_m < self.y_m[0] - _ROUNDING_M) | (y_m > self.y_m[-1] + _ROUNDING_M))


def _cell(points_m: Floats, at_m: Floats) -> tuple[Ints, Floats]:
    """Return the number of the last point that is not after each coordinate, and the share of the way to the next."""
    number = np.searchsorted(points_m, at_m, side="right") - 1
    number = np.clip(number, 0, len(points_m) - 2)
    share = (at_m - points_m[number]) / (points_m[number + 1] - points_m[number])
    return number, np.clip(share, 0.0, 1.0)


def _tower_names(measured: MeasuredTable) -> list[str | None]:
    if measured.towers is None:
        return [None]
    return [str(name) for name in np.unique(measured.towers.astype(str))]


def _grid_rows(measured: MeasuredTable, tower: str | None) -> NDArray[np.int64]:
    if tower is None or measured.towers is None:
        return np.arange(len(measured.values))
    return np.flatnonzero(measured.towers == tower)


def _check_grid(measured: MeasuredTable, tower: str | None) -> None:
    """Check that the points of a tower are a full grid of at least two by two.

    Raises:
        ScenarioError: they are not; the key is empty.
    """
    rows = _grid_rows(measured, tower)
    x_m, column = np.unique(measured.columns["x_m"][rows], return_inverse=True)
    y_m, line = np.unique(measured.columns["y_m"][rows], return_inverse=True)
    of_tower = f" of {tower}" if tower is not None else ""
    size = f"{len(x_m)} x {len(y_m)} points"
    if min(len(x_m), len(y_m)) < 2:
        problem = f"{measured.file_name}: the grid{of_tower} has {size}"
        raise ScenarioError([Fault("", problem, None, "give at least 2 x 2 points")])
    if len(rows) < len(x_m) * len(y_m):  # no point occurs twice
        # the first point that is missing, found among the rows without an array of the grid
        points = np.sort(column.ravel() * len(y_m) + line.ravel())
        first = int(np.argmax(np.append(points != np.arange(len(points)), True)))
        i, j = divmod(first, len(y_m))
        problem = f"{measured.file_name} has no line for x_m {x_m[i]:g}, y_m {y_m[j]:g}{of_tower}"
        remedy = (
            f"give each x with each y, {size}, with coordinates that are equal to the last digit; a point without "
            "coverage has an empty value"
        )
        raise ScenarioError([Fault("", problem, None, remedy)])


def _grid(measured: MeasuredTable, tower: str | None) -> _Grid:
    rows = _grid_rows(measured, tower)
    x_m, column = np.unique(measured.columns["x_m"][rows], return_inverse=True)
    y_m, line = np.unique(measured.columns["y_m"][rows], return_inverse=True)
    values = np.empty((len(x_m), len(y_m)))
    values[column.ravel(), line.ravel()] = measured.values[rows]
    return _Grid(x_m, y_m, values)


class _MapGain(LinkGain):
    """Gain by the place of users that move, on the grid of each one's tower."""

    def __init__(self, model: RadioMap, layout: Layout, grids: Sequence[_Grid]) -> None:
        self._layout = layout
        self._tower_of = layout.tower_at_start
        self._nearest = model.interpolation == "nearest"
        self._refuses = model.out_of_range == "error"
        self._scale = model.scale()
        self._file_name = model.file.name
        self._origins_m = np.zeros((len(layout.towers), 2))
        if model.relative:
            numbers = [layout.number(name) for name in layout.towers]
            self._origins_m = layout.node_xy_m[numbers]
        self._grids = [*grids]

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        paths = self._layout.paths
        places_m = self._layout.user_xy_m[users] if paths is None else paths.xy_m(users, time_s)
        if len(users) == 1:
            user = int(users[0])
            tower = int(self._tower_of[user])
            x_m, y_m = places_m[0] - self._origins_m[tower]
            value = self._grids[tower].at(float(x_m), float(y_m), nearest=self._nearest)
            if value is not None:
                return self._scale.gain_db(np.array([value]))
        if self._refuses:
            is_outside = self.is_outside(users, places_m)
            if is_outside.any():
                row = int(np.argmax(is_outside))
                self._refuse(int(users[row]), places_m[row], float(np.broadcast_to(time_s, users.shape)[row]))
        return self.at_places(users, places_m)

    def peak_db(self, users: Ints) -> Floats:
        highest = np.array([grid.values.max() for grid in self._grids])
        return self._scale.gain_db(highest[self._tower_of[users]])

    def at_places(self, users: Ints, places_m: Floats) -> Floats:
        """Return the gain of each user's link if it is at the given place, ``[n]``."""
        towers = self._tower_of[users]
        x_m, y_m = (places_m - self._origins_m[towers]).T
        if len(self._grids) == 1:
            return self._scale.gain_db(self._grids[0].interpolate(x_m, y_m, nearest=self._nearest))
        values = np.empty(len(users))
        for tower in np.unique(towers).tolist():
            is_here = towers == tower
            grid = self._grids[tower]
            values[is_here] = grid.interpolate(x_m[is_here], y_m[is_here], nearest=self._nearest)
        return self._scale.gain_db(values)

    def is_outside(self, users: Ints, places_m: Floats) -> Bools:
        """Return whether each user is outside of the map of its tower at the given place, ``[n]``."""
        towers = self._tower_of[users]
        x_m, y_m = (places_m - self._origins_m[towers]).T
        is_outside = np.zeros(len(users), bool)
        for tower in np.unique(towers).tolist():
            is_here = towers == tower
            is_outside[is_here] = self._grids[tower].is_outside(x_m[is_here], y_m[is_here])
        return is_outside

    def _refuse(self, user: int, place_m: Floats, time_s: float) -> NoReturn:
        x_m, y_m = place_m
        problem = f"the user is at ({x_m:g}, {y_m:g}) m, outside of the map {self._file_name}; {_REMEDY}"
        raise OutsideDataError("channel radio_map", problem, user, time_s)
