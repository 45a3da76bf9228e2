"""The random waypoint model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion import Motion
from netfl.network.motion._area import Area, DiskArea, RectangleArea
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Extent, Seconds, UserSpeed

_STRIDE = 64
"""Legs between two instants that are kept."""
_UNSET = -np.inf
"""End of the current leg of a user that has none yet."""
_ONE_BY_ONE = 16
"""Users up to which their legs are found one by one."""
_MAX_CACHED = 4096
"""Users for whom legs are drawn ahead."""
_NO_LEGS = np.empty((0, 6))
"""Rows of no leg: travel time, pause, origin and target."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
"""Gauss-Legendre quadrature on [-1, 1]."""


class RandomWaypoint(Motion):
    """The random waypoint model: walk straight to a place uniform in the area, pause, walk on to another.

    D. B. Johnson and D. A. Maltz, "Dynamic source routing in ad hoc wireless networks", 1996.  The speed of a leg is
    uniform on [min, max] with min > 0, as otherwise users stop moving in the long run (J. Yoon, M. Liu and
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

    speed: tuple[Annotated[UserSpeed, Field(gt=0)], Annotated[UserSpeed, Field(gt=0)]]
    """[min, max] of a leg's speed; units such as ``5 km/h`` are possible."""
    pause: tuple[Annotated[Seconds, Field(ge=0)], Annotated[Seconds, Field(ge=0)]] = (0.0, 0.0)
    """[min, max] of the time between two legs."""
    radius: Annotated[Extent, Field(gt=0, le=1e9)] | None = None
    """R, the radius of the area, a disk."""
    width: Annotated[Extent, Field(gt=0, le=1e9)] | None = None
    """Extent from west to east of the area, a rectangle, in place of ``radius``."""
    height: Annotated[Extent, Field(gt=0, le=1e9)] | None = None
    """Extent from south to north of the rectangle."""
    center: Point = (0.0, 0.0)
    """The centre [x, y] of the area."""
    start: Literal["stationary", "fresh"] = "stationary"
    """State of the users at time 0."""

    @model_validator(mode="after")
    def _check_area(self) -> RandomWaypoint:
        if (self.width is None) != (self.height is None) or (self.radius is None) == (self.width is None):
            raise ValueError("the area is not defined; give radius, or width and height")
        for name, (low, high) in (("speed", self.speed), ("pause", self.pause)):
            if low > high:
                raise ValueError(f"{name} is [{low:g}, {high:g}]; put the smaller value first")
        return self

    @cached_property
    def area(self) -> Area:
        """The area, as if its centre were the origin."""
        if self.width is not None and self.height is not None:
            return RectangleArea(self.width, self.height)
        return DiskArea(self.radius or 0.0)

    @property
    def mean_inverse_speed(self) -> float:
        """E[1/V] in s/m."""
        slow, fast = self.speed
        if fast == slow:
            return 1.0 / slow
        return math.log(fast / slow) / (fast - slow)

    @property
    def pause_share(self) -> float:
        """Share of time spent pausing, E[P] / (E[P] + E[L] E[1/V])."""
        pause_s = sum(self.pause) / 2.0
        return pause_s / (pause_s + self.area.mean_leg_m * self.mean_inverse_speed)

    def open(self, layout: Layout, streams: Streams) -> WaypointPaths:
        outside = np.flatnonzero(~self.area.holds(layout.user_xy_m - self.center))
        if outside.size:
            key = "width" if self.radius is None else "radius"
            problem = f"placed outside of the area: {len(outside)} of {layout.users} users, first user {outside[0]}"
            remedy = "make the area larger, move its centre, or place users within it"
            raise ScenarioError([Fault(key, problem, None, remedy)])
        return WaypointPaths(self, layout.user_xy_m, streams)

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        model = self.model_copy(update={"center": (0.0, 0.0)})
        area = self.area
        slow, fast = self.speed
        share = self.pause_share

        def third_legs_m(streams: Streams, size: int) -> Floats:
            legs = WaypointPaths(model, np.zeros((size, 2)), streams).legs(np.arange(size), np.full(size, 2))
            return np.asarray(np.hypot(*(legs.target_m - legs.origin_m).T))

        laws = [
            Law(
                "length of a leg in m",
                "the distance of two uniform points: mean 128R/45π in a disk, Ghosh's (0.5214 sides) in a rectangle",
                draw=third_legs_m,  # the first between two waypoints
                mean=area.mean_leg_m,
                variance=area.mean_square_leg_m2 - area.mean_leg_m**2,
            )
        ]
        if self.start == "fresh":
            return tuple(laws)
        mean_pause_s = sum(self.pause) / 2.0
        mean_travel_s = area.mean_leg_m * self.mean_inverse_speed
        snapshot = _Snapshot(model, instant_s=1.3 * (mean_pause_s + mean_travel_s))
        if fast > slow:
            laws.append(
                Law(
                    "speed while moving, at any instant, in m/s",
                    "density 1 / (v ln(max/min)): a slow leg is seen for longer; mean (max - min) / ln(max/min)",
                    draw=snapshot.moving_speeds,
                    distribution=stats.loguniform(slow, fast),
                )
            )
        if share > 0.0:
            laws.append(
                Law(
                    "whether a user pauses, at any instant (1 is yes)",
                    "with probability E[P] / (E[P] + E[L] E[1/V])",
                    draw=lambda streams, size: np.asarray(snapshot.state(streams, size)[1] == 0.0, float),
                    mean=share,
                    variance=share * (1.0 - share),
                )
            )
        return (*laws, _position_law(snapshot))


class WaypointLegs(NamedTuple):
    """One leg of each of some users: straight to its target, ``[n, 2]``, at one speed, and a pause there, ``[n]``."""

    origin_m: Floats
    target_m: Floats
    travel_s: Floats
    pause_s: Floats


class WaypointPaths(Trajectories):
    """Trajectories made of legs; leg k of user u is drawn by the key (u, k).

    The current leg of each user is kept, and the instant at which every 64th leg begins, from which an earlier time is
    found again.  Instants are sums in the order of the legs, so that answers do not depend on the order of the calls.
    For a user whose legs are asked for one after another, the next ones are drawn ahead.

    Args:
        model: its parameters.
        xy_m: positions at time 0, ``[users, 2]``.
        streams: random streams of the motion.
    """

    def __init__(self, model: RandomWaypoint, xy_m: Floats, streams: Streams) -> None:
        users = len(xy_m)
        self._model = model
        self._start_m = xy_m
        self._waypoint = streams.field("waypoint")
        self._speed = streams.field("speed")
        self._pause = streams.field("pause")
        # whether each user pauses at time 0 (unless all start afresh), and where its first leg ends
        self._is_pausing: Bools | None = None
        self._first_target_m = xy_m
        if model.start == "stationary":
            self._is_pausing, target_m = _draw_stationary_start(model, xy_m - model.center, streams)
            self._first_target_m = np.where(self._is_pausing[:, None], xy_m, target_m + model.center)
        # the current leg of each user: its number; begin, end and travel time, origin and target, also as one row
        self._number = np.zeros(users, np.int64)
        self._current = np.zeros((users, 7))
        self._begin_s, self._end_s, self._travel_s = self._current.T[:3]
        self._origin_m = self._current[:, 3:5]
        self._target_m = self._current[:, 5:]
        self._end_s[:] = _UNSET
        self._marks_s = np.zeros((users, 1))  # in column j, the begin of leg j * _STRIDE; infinity if unknown
        self._drawn_ahead: dict[int, tuple[int, Floats]] = {}  # by user: number of the first leg, and their rows

    def legs(self, users: Ints, number: Ints, origin_m: Floats | None = None) -> WaypointLegs:
        """Return the leg of each user with that number, from 0; leg 0 begins at time 0.

        Args:
            users: the users, ``[n]``.
            number: the number of a leg of each, ``[n]``.
            origin_m: the places where they begin, ``[n, 2]``, if known.
        """
        is_first = number == 0
        if origin_m is None:
            before_m = self._targets(users, np.maximum(number - 1, 0))
            origin_m = np.where(is_first[:, None], self._start_m[users], before_m)
        target_m = self._targets(users, number)
        slow, fast = self._model.speed
        speed_draw = self._speed.uniform(users, number)
        speed_m_s = slow + speed_draw * (fast - slow)
        short, long = self._model.pause
        pause_draw = self._pause.uniform(users, number)
        pause_s = short + pause_draw * (long - short)
        if self._is_pausing is not None and is_first.any():
            # slow legs are under way more often: density 1 / (v ln(max/min))
            speed_m_s = np.where(is_first, slow * (fast / slow) ** speed_draw, speed_m_s)
            # so are long pauses, of density proportional to their length; a uniform share of it remains
            whole_s = np.sqrt(short**2 + pause_draw * (long**2 - short**2))
            remaining_s = whole_s * self._pause.uniform(users, number, draw=1)
            pause_s = np.where(is_first & self._is_pausing[users], remaining_s, pause_s)
        travel_s = np.hypot(*(target_m - origin_m).T) / speed_m_s
        return WaypointLegs(origin_m, target_m, travel_s, pause_s)

    def _targets(self, users: Ints, number: Ints) -> Floats:
        first_draw = self._waypoint.uniform(users, number, draw=0)
        second_draw = self._waypoint.uniform(users, number, draw=1)
        target_m = self._model.area.place(first_draw, second_draw) + self._model.center
        if self._is_pausing is None:
            return target_m
        return np.where((number == 0)[:, None], self._first_target_m[users], target_m)

    def xy_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        users = np.asarray(users)
        if len(users) == 1 and np.ndim(time_s) == 0:  # the commonest call, faster without arrays
            return np.array([self._place(int(users[0]), float(time_s))])  # type: ignore[arg-type]
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        positions_m = self._along(users, time)
        # those whose current leg is another one
        is_outside = (time < self._begin_s[users]) | (time >= self._end_s[users])
        if not is_outside.any():
            return positions_m
        outside_users = users[is_outside]
        outside_s = time[is_outside]
        if len(outside_users) > _ONE_BY_ONE and len(np.unique(outside_users)) == len(outside_users):
            self._find(outside_users, outside_s)
            positions_m[is_outside] = self._along(outside_users, outside_s)
        else:  # few, or a user at several instants, which has one current leg only
            pairs = zip(outside_users.tolist(), outside_s.tolist(), strict=True)
            positions_m[is_outside] = [self._place(user, at_s) for user, at_s in pairs]
        return positions_m

    def speeds_m_s(self, users: Ints) -> tuple[Floats, Floats]:
        slow, fast = self._model.speed
        return np.full(len(users), slow), np.full(len(users), fast)

    def _along(self, users: Ints, time_s: Floats) -> Floats:
        """Return the positions on the current legs, ``[n, 2]``; a user that pauses is at its target."""
        travel_s = self._travel_s[users]
        origin_m = self._origin_m[users]
        elapsed_s = np.minimum(time_s - self._begin_s[users], travel_s)
        share = np.divide(elapsed_s, travel_s, out=np.ones(len(users)), where=travel_s > 0.0)
        return np.asarray(origin_m + share[:, None] * (self._target_m[users] - origin_m))

    def _place(self, user: int, time_s: float) -> tuple[float, float]:
        """Return the position of one user, by the steps of `_along`."""
        begin_s, end_s, travel_s, x_m, y_m, target_x_m, target_y_m = self._current[user].tolist()
        if not begin_s <= time_s < end_s:
            self._find_one(user, time_s)
            begin_s, end_s, travel_s, x_m, y_m, target_x_m, target_y_m = self._current[user].tolist()
        if travel_s > 0.0:
            share = min(time_s - begin_s, travel_s) / travel_s
        else:
            share = 1.0
        return x_m + share * (target_x_m - x_m), y_m + share * (target_y_m - y_m)

    def _find_one(self, user: int, time_s: float) -> None:
        """Make the leg of one user at *time_s* the current one."""
        begin_s, end_s = self._current[user, :2].tolist()
        number = int(self._number[user])
        mark = max(int(np.count_nonzero(self._marks_s[user] <= time_s)) - 1, 0)
        if end_s == _UNSET or time_s < begin_s or mark * _STRIDE > number:  # start from the last mark before
            number = mark * _STRIDE
            begin_s = float(self._marks_s[user, mark])
        else:
            number += 1
            begin_s = end_s
        while True:
            travel_s, pause_s, *ends_m = self._leg_row(user, number)
            end_s = begin_s + (travel_s + pause_s)
            if number % _STRIDE == 0:
                self._mark(np.array([user]), np.array([number]), np.array([begin_s]))
            if time_s < end_s:
                break
            number += 1
            begin_s = end_s
        self._number[user] = number
        self._current[user] = begin_s, end_s, travel_s, *ends_m

    def _leg_row(self, user: int, number: int) -> list[float]:
        """Return travel time, pause, origin and target of a leg; for successive legs, several are drawn at once."""
        first, rows = self._drawn_ahead.get(user, (-1, _NO_LEGS))
        if not 0 <= number - first < len(rows):
            if len(self._drawn_ahead) >= _MAX_CACHED:
                self._drawn_ahead.clear()
            if len(rows) > 0 and number == first + len(rows):  # one after another: draw more each time
                count = min(4 * len(rows), _STRIDE)
            else:
                count = 1
            numbers = np.arange(number, number + count)
            legs = self.legs(np.full(count, user), numbers)
            rows = np.column_stack([legs.travel_s, legs.pause_s, legs.origin_m, legs.target_m])
            first = number
            self._drawn_ahead[user] = first, rows
        return rows[number - first].tolist()  # type: ignore[no-any-return]

    def _find(self, users: Ints, time_s: Floats) -> None:
        """Make the legs of different users at *time_s* the current ones."""
        # start from the last mark before, where that is nearer than the current leg
        mark = np.maximum((self._marks_s[users] <= time_s[:, None]).sum(axis=1) - 1, 0)
        is_unset = self._end_s[users] == _UNSET
        is_from_mark = is_unset | (time_s < self._begin_s[users]) | (mark * _STRIDE > self._number[users])
        from_mark = users[is_from_mark]
        mark = mark[is_from_mark]
        self._take(from_mark, mark * _STRIDE, self._marks_s[from_mark, mark])
        # walk on, leg by leg
        has_ended = time_s >= self._end_s[users]
        while has_ended.any():
            users = users[has_ended]
            time_s = time_s[has_ended]
            self._take(users, self._number[users] + 1, self._end_s[users], self._target_m[users])
            has_ended = time_s >= self._end_s[users]

    def _take(self, users: Ints, number: Ints, begin_s: Floats, origin_m: Floats | None = None) -> None:
        """Make the legs with these numbers, which begin at *begin_s*, the current ones."""
        legs = self.legs(users, number, origin_m)
        self._number[users] = number
        self._begin_s[users] = begin_s
        self._travel_s[users] = legs.travel_s
        self._end_s[users] = begin_s + (legs.travel_s + legs.pause_s)
        self._origin_m[users] = legs.origin_m
        self._target_m[users] = legs.target_m
        is_marked = number % _STRIDE == 0
        if is_marked.any():
            self._mark(users[is_marked], number[is_marked], begin_s[is_marked])

    def _mark(self, users: Ints, number: Ints, begin_s: Floats) -> None:
        """Keep the begins of legs whose numbers are multiples of the stride."""
        column = number // _STRIDE
        missing = int(column.max()) + 1 - self._marks_s.shape[1]
        if missing > 0:
            self._marks_s = np.pad(self._marks_s, ((0, 0), (0, missing)), constant_values=np.inf)
        self._marks_s[users, column] = begin_s


def _draw_stationary_start(model: RandomWaypoint, xy_m: Floats, streams: Streams) -> tuple[Bools, Floats]:
    """Draw whether users at *xy_m* pause, ``[n]``, and the ends of their legs, ``[n, 2]``, as at any late instant.

    A moving user is, at any instant, on a leg between two places of density 1/A² each, drawn in proportion to
    its length l, uniformly along it.  Let behind and ahead be the distances back to the leg's begin and on to its end,
    and φ the direction.  The density over place, φ, behind and ahead is (behind + ahead) / A²E[l].
    So the density of the place and of φ is b a (b + a) / 2A²E[l], where b and a are the distances to the area's edge;
    and that of ahead, given these, is proportional to b/2 + ahead.  A pausing user is uniform in the area.  The state
    is drawn by rejection from a bound on these densities, from the pause with weight share / A and from the directions.
    """
    area = model.area
    pause_share = model.pause_share
    inner_m = area.inward(xy_m)
    is_pausing = np.ones(len(xy_m), bool)
    target_m = xy_m.copy()
    field = streams.field("start")
    # the bound: b a ≤ `area.heading`'s, and b + a ≤ the longest leg
    moving_weight = (1.0 - pause_share) / (2.0 * area.size_m2**2 * area.mean_leg_m) * area.longest_m
    pause_weight = pause_share / area.size_m2
    pause_chance = pause_weight / (pause_weight + moving_weight * area.headings(inner_m))
    undecided: Ints = np.arange(len(xy_m))
    attempt = 0
    while undecided.size:
        draws = [field.uniform(undecided, index=attempt, draw=draw) for draw in range(5)]
        state_draw, first_draw, second_draw, acceptance_draw, distance_draw = draws
        # propose a pause, or a direction
        is_moving = state_draw >= pause_chance[undecided]
        angle, bound = area.heading(inner_m[undecided], first_draw, second_draw)
        direction = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        # accept a direction with probability b a (b + a) / bound
        b = area.reach_m(inner_m[undecided], -direction)
        a = area.reach_m(inner_m[undecided], direction)
        is_accepted = ~is_moving | (acceptance_draw * bound * area.longest_m < b * a * (b + a))
        # invert P(ahead ≤ x) = (b x + x²) / (b a + a²): x² + b x - u a (b + a) = 0
        constant = distance_draw * a * (b + a)
        ahead_m = 2.0 * constant / (np.sqrt(b**2 + 4.0 * constant) + b)
        starts_moving = is_accepted & is_moving
        moving = undecided[starts_moving]
        is_pausing[moving] = False
        target_m[moving] = inner_m[moving] + ahead_m[starts_moving, None] * direction[starts_moving]
        undecided = undecided[~is_accepted]
        attempt += 1
    return is_pausing, target_m


def stationary_positions(area: Area, pause_share: float, count: int, streams: Streams) -> Floats:
    """Draw positions at a late instant: uniform if pausing, else uniform along a leg drawn by length (Navidi, Camp)."""
    rng = streams.rng("places")
    legs_m = np.empty((0, 2, 2))  # origin and target of each
    while len(legs_m) < count:
        origin_m = area.place(*rng.random((2, 2 * count)))
        target_m = area.place(*rng.random((2, 2 * count)))
        is_accepted = rng.random(2 * count) * area.longest_m < np.hypot(*(target_m - origin_m).T)
        legs_m = np.concatenate([legs_m, np.stack([origin_m, target_m], axis=1)[is_accepted]])
    origin_m = legs_m[:count, 0]
    target_m = legs_m[:count, 1]
    moving_m = origin_m + rng.random((count, 1)) * (target_m - origin_m)
    is_pausing = rng.random((count, 1)) < pause_share
    return np.where(is_pausing, area.place(*rng.random((2, count))), moving_m)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Many users at one instant, from a stationary start."""

    model: RandomWaypoint
    instant_s: float

    def state(self, streams: Streams, size: int) -> tuple[Floats, Floats]:
        """Return positions and speeds; the speed of a pausing user is 0."""
        users = np.arange(size)
        step_s = 1e-5 * self.instant_s
        start_m = stationary_positions(self.model.area, self.model.pause_share, size, streams)
        paths = WaypointPaths(self.model, start_m, streams)
        before_m = paths.xy_m(users, self.instant_s - step_s)
        now_m = paths.xy_m(users, self.instant_s)
        after_m = paths.xy_m(users, self.instant_s + step_s)
        speed_before_m_s = np.hypot(*(now_m - before_m).T) / step_s
        speed_after_m_s = np.hypot(*(after_m - now_m).T) / step_s
        # a user that begins or ends a leg in these steps has two speeds: the first counts
        is_steady = np.isclose(speed_before_m_s, speed_after_m_s, rtol=1e-6)
        return now_m, np.where(is_steady, speed_after_m_s, speed_before_m_s)

    def moving_speeds(self, streams: Streams, size: int) -> Floats:
        """Return the speeds of about *size* moving users."""
        users = math.ceil(size / (1.0 - self.model.pause_share) * 1.2) + 100
        _, speeds_m_s = self.state(streams, users)
        return np.asarray(speeds_m_s[speeds_m_s > 0.0])


def _position_law(snapshot: _Snapshot) -> Law:
    area = snapshot.model.area
    share = snapshot.model.pause_share
    if isinstance(area, DiskArea):
        radius = area.radius_m
        table = np.linspace(0.0, 1.0, 4001)
        cdf = share * table**2 + (1.0 - share) * _moving_cdf(table)
        return Law(
            "distance to the centre, at any instant, in m",
            "pausing uniform; moving with density 4R(R² - r²) E(r/R) / A²E[L], E the elliptic integral",
            draw=lambda streams, size: np.hypot(*snapshot.state(streams, size)[0].T),
            cdf=lambda r: np.interp(r / radius, table, cdf),
        )
    variance = share * area.width_m**2 / 12.0 + (1.0 - share) * _moving_variance(area)
    return Law(
        "distance east of the centre, at any instant, in m",
        "variance width²/12 pausing; moving E[L (x₁² + x₁x₂ + x₂²)] / 3E[L], x₁ and x₂ of a leg's ends",
        draw=lambda streams, size: snapshot.state(streams, size)[0][:, 0],
        mean=0.0,
        variance=variance,
    )


def _moving_cdf(r: Floats) -> Floats:
    """Return P(distance ≤ rR) of a moving user in a disk: E. Hyytiä, P. Lassila and J. Virtamo, IEEE TMC 5 (2006).

    The integral of 2πs f(s) over [0, r] for R = 1, with f(s) = 4 (1 - s²) E(s) / A²E[L], E the elliptic integral.
    """
    from scipy import special

    s = r[:, None] * (_NODES + 1.0) / 2.0  # [r, nodes]
    density = 2.0 * math.pi * s * 4.0 * (1.0 - s**2) * special.ellipe(s**2) / (math.pi**2 * DiskArea(1.0).mean_leg_m)
    return np.asarray((density * _WEIGHTS).sum(axis=1) * r / 2.0)


def _moving_variance(area: RectangleArea) -> float:
    """Return the variance of the position east of a moving user, by quadrature over a leg's extents u east and v north.

    Given u, the two ends have E[x₁² + x₁x₂ + x₂²] = ((W - u)² + u²) / 4.
    """
    unit = (_NODES + 1.0) / 2.0
    weight = _WEIGHTS * (1.0 - (_NODES + 1.0) / 2.0)  # density 2 (1 - u/W) / W of the distance along one side
    u = area.width_m * unit
    v = area.height_m * unit
    length_m = np.hypot(u[:, None], v[None])  # [u, v]
    squares = ((area.width_m - u) ** 2 + u**2) / 4.0
    return float((weight * squares) @ length_m @ weight / (3.0 * area.mean_leg_m))
