"""Laws of the random waypoint model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from netfl.network.motion._area import Area, DiskArea, Floats, RectangleArea
from netfl.network.motion._waypoint_paths import WaypointModel, WaypointPaths
from netfl.streams import Streams
from netfl.types import Law

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def waypoint_laws(model: WaypointModel) -> tuple[Law, ...]:
    """Return the laws of legs and, from a stationary start, of the state at any instant."""
    model = replace(model, centre_m=(0.0, 0.0))
    area, (slow, fast), share = model.area, model.speed_m_s, model.pause_share
    laws = [
        Law(
            "length of a leg in m",
            "the distance of two uniform places: mean 128R/45π in a disk, Ghosh's (0.5214 sides) in a rectangle",
            draw=lambda streams, size: _leg_m(model, streams, size),
            mean=area.mean_leg_m,
            variance=area.mean_square_leg_m2 - area.mean_leg_m**2,
        )
    ]
    if not model.is_stationary:
        return tuple(laws)
    instant_s = 1.3 * (sum(model.pause_s) / 2.0 + area.mean_leg_m * model.mean_inverse_speed)
    snapshot = _Snapshot(model, instant_s)
    if fast > slow:
        logs = math.log(fast / slow)
        mean = (fast - slow) / logs
        laws.append(
            Law(
                "speed on the way, at any instant, in m/s",
                "density 1 / (v ln(max/min)): a slow leg is seen for longer; mean (max - min) / ln(max/min)",
                draw=snapshot.moving_speeds,
                mean=mean,
                variance=(fast**2 - slow**2) / (2.0 * logs) - mean**2,
                cdf=lambda v: np.log(np.clip(v, slow, fast) / slow) / logs,
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


def stationary_positions(area: Area, pause_share: float, count: int, streams: Streams) -> Floats:
    """Draw positions at a late instant: uniform if pausing, else uniform along a leg drawn by length (Navidi, Camp)."""
    rng = streams.rng("places")
    ends = np.empty((0, 2, 2))
    while len(ends) < count:
        first, second = (area.place(*rng.random((2, 2 * count))) for _ in range(2))
        accepted = rng.random(2 * count) * area.longest_m < np.hypot(*(second - first).T)
        ends = np.concatenate([ends, np.stack([first, second], axis=1)[accepted]])
    first, second = ends[:count, 0], ends[:count, 1]
    moving = first + rng.random((count, 1)) * (second - first)
    return np.where(rng.random((count, 1)) < pause_share, area.place(*rng.random((2, count))), moving)


def _leg_m(model: WaypointModel, streams: Streams, size: int) -> Floats:
    """Return lengths of third legs, the first legs between two waypoints."""
    legs = WaypointPaths(model, np.zeros((size, 2)), streams).legs(np.arange(size), np.full(size, 2))
    return np.asarray(np.hypot(*(legs.target_m - legs.origin_m).T))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Many users at one instant, from a stationary start.

    Args:
        model: the parameters.
        instant_s: the instant.
    """

    model: WaypointModel
    instant_s: float

    def state(self, streams: Streams, size: int) -> tuple[Floats, Floats]:
        """Return positions and speeds; the speed of a pausing user is 0."""
        users, step_s = np.arange(size), 1e-5 * self.instant_s
        start_m = stationary_positions(self.model.area, self.model.pause_share, size, streams)
        paths = WaypointPaths(self.model, start_m, streams)
        instants_s = (self.instant_s - step_s, self.instant_s, self.instant_s + step_s)
        before_m, now_m, after_m = (paths.xy_m(users, at_s) for at_s in instants_s)
        before, after = (np.hypot(*way_m.T) / step_s for way_m in (now_m - before_m, after_m - now_m))
        # a user that begins or ends a leg in these steps has two speeds: the first counts
        return now_m, np.where(np.isclose(before, after, rtol=1e-6), after, before)

    def moving_speeds(self, streams: Streams, size: int) -> Floats:
        """Return the speeds of about *size* moving users."""
        speeds = self.state(streams, math.ceil(size / (1.0 - self.model.pause_share) * 1.2) + 100)[1]
        return np.asarray(speeds[speeds > 0.0])


def _position_law(snapshot: _Snapshot) -> Law:
    area, share = snapshot.model.area, snapshot.model.pause_share
    if isinstance(area, DiskArea):
        radius = area.radius_m
        table = np.linspace(0.0, 1.0, 4001)
        cdf = share * table**2 + (1.0 - share) * _moving_cdf(table)
        return Law(
            "distance to the centre, at any instant, in m",
            "pausing uniform; on the way of density 4R(R² - r²) E(r/R) / A²E[L], E the elliptic integral",
            draw=lambda streams, size: np.hypot(*snapshot.state(streams, size)[0].T),
            cdf=lambda r: np.interp(r / radius, table, cdf),
        )
    variance = share * area.width_m**2 / 12.0 + (1.0 - share) * _moving_variance(area)
    return Law(
        "distance east of the centre, at any instant, in m",
        "variance width²/12 pausing; on the way E[L (x₁² + x₁x₂ + x₂²)] / 3E[L], x₁ and x₂ of a leg's ends",
        draw=lambda streams, size: snapshot.state(streams, size)[0][:, 0],
        mean=0.0,
        variance=variance,
    )


def _moving_cdf(r: Floats) -> Floats:
    """Return P(distance ≤ rR) of a moving user in a disk: E. Hyytiä, P. Lassila and J. Virtamo, IEEE TMC 5 (2006)."""
    from scipy import special

    at = r[:, None] * (_NODES + 1.0) / 2.0
    density = 2.0 * math.pi * at * 4.0 * (1.0 - at**2) * special.ellipe(at**2) / (math.pi**2 * DiskArea(1.0).mean_leg_m)
    return np.asarray((density * _WEIGHTS).sum(axis=1) * r / 2.0)


def _moving_variance(area: RectangleArea) -> float:
    """Return the variance of the position east of a moving user, by quadrature over a leg's extents u east and v north.

    Given u, the two ends have E[x₁² + x₁x₂ + x₂²] = ((W - u)² + u²) / 4.
    """
    unit, weight = (_NODES + 1.0) / 2.0, _WEIGHTS * (1.0 - (_NODES + 1.0) / 2.0)
    east, north = area.width_m * unit, area.height_m * unit
    length = np.hypot(east[:, None], north[None])
    squares = ((area.width_m - east) ** 2 + east**2) / 4.0
    return float((weight * squares) @ length @ weight / (3.0 * area.mean_leg_m))
