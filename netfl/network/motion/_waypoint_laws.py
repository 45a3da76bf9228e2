"""What the random waypoint model claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.network.motion._area import Area, DiskArea, Floats, RectangleArea
from netfl.network.motion._waypoint_legs import WaypointJourneys, mean_inverse_speed, paused_share
from netfl.streams import Streams
from netfl.types import Law

Opened = Callable[[Floats, Streams], WaypointJourneys]
"""Opens the model for users at given places, the area's centre being the origin."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def waypoint_laws(
    area: Area, speed: tuple[float, float], pause: tuple[float, float], opened: Opened, *, stationary: bool
) -> tuple[Law, ...]:
    """The laws of legs and, from a stationary start, of what is seen at any instant."""
    (least, most), share = speed, paused_share(area, speed, pause)
    logs, instant_s = math.log(most / least), 1.3 * (sum(pause) / 2.0 + area.mean_leg_m * mean_inverse_speed(speed))
    view = _View(area, share, instant_s, opened)
    laws = [
        Law(
            "length of a leg in m",
            "the distance of two uniform places: mean 128R/45π in a disk, Ghosh's (0.5214 sides) in a rectangle",
            draw=lambda streams, size: _leg_m(area, opened, streams, size),
            mean=area.mean_leg_m,
            variance=area.mean_square_leg_m2 - area.mean_leg_m**2,
        )
    ]
    if not stationary:
        return tuple(laws)
    if most > least:
        mean = (most - least) / logs
        laws.append(
            Law(
                "speed on the way, at any instant, in m/s",
                "density 1 / (v ln(max/min)): a slow leg is seen for longer; mean (max - min) / ln(max/min)",
                draw=view.speeds,
                mean=mean,
                variance=(most**2 - least**2) / (2.0 * logs) - mean**2,
                cdf=lambda v: np.log(np.clip(v, least, most) / least) / logs,
            )
        )
    if share > 0.0:
        laws.append(
            Law(
                "whether a user pauses, at any instant (1 is yes)",
                "with probability E[P] / (E[P] + E[L] E[1/V])",
                draw=view.pausing,
                mean=share,
                variance=share * (1.0 - share),
            )
        )
    return (*laws, _place_law(view))


def stationary_places(area: Area, pause_share: float, count: int, streams: Streams) -> Floats:
    """Places as at any late instant: uniform if pausing, else uniform along a leg drawn by length (Navidi, Camp)."""
    rng = streams.rng("places")
    ends = np.empty((0, 2, 2))
    while len(ends) < count:
        one, other = (area.place(*rng.random((2, 2 * count))) for _ in range(2))
        kept = rng.random(2 * count) * area.longest_m < np.hypot(*(other - one).T)
        ends = np.concatenate([ends, np.stack([one, other], axis=1)[kept]])
    one, other = ends[:count, 0], ends[:count, 1]
    on_the_way = one + rng.random((count, 1)) * (other - one)
    return np.where(rng.random((count, 1)) < pause_share, area.place(*rng.random((2, count))), on_the_way)


def _leg_m(area: Area, opened: Opened, streams: Streams, size: int) -> Floats:
    """The lengths of the third legs, the first that are between two waypoints."""
    legs = opened(np.zeros((size, 2)), streams).legs(np.arange(size), np.full(size, 2))
    return np.asarray(np.hypot(*(legs.target_m - legs.origin_m).T))


@dataclass(frozen=True, slots=True)
class _View:
    """Many users at one instant, who began where a user is at any late instant."""

    area: Area
    share: float
    instant_s: float
    opened: Opened

    def seen(self, streams: Streams, size: int) -> tuple[Floats, Floats]:
        """Where users are, and how fast; 0 for who pauses."""
        users, step_s = np.arange(size), 1e-5 * self.instant_s
        paths = self.opened(stationary_places(self.area, self.share, size, streams), streams)
        instants_s = (self.instant_s - step_s, self.instant_s, self.instant_s + step_s)
        before_m, now_m, after_m = (paths.xy_m(users, at_s) for at_s in instants_s)
        before, after = (np.hypot(*way_m.T) / step_s for way_m in (now_m - before_m, after_m - now_m))
        # who begins or ends a leg in these steps has two speeds: the first counts
        return now_m, np.where(np.isclose(before, after, rtol=1e-6), after, before)

    def places(self, streams: Streams, size: int) -> Floats:
        """Where users are."""
        return self.seen(streams, size)[0]

    def pausing(self, streams: Streams, size: int) -> Floats:
        """Which users pause."""
        return np.asarray(self.seen(streams, size)[1] == 0.0, float)

    def speeds(self, streams: Streams, size: int) -> Floats:
        """The speeds of *size* users who are on their way."""
        found = self.seen(streams, math.ceil(size / (1.0 - self.share) * 1.2) + 100)[1]
        return np.asarray(found[found > 0.0])


def _place_law(view: _View) -> Law:
    """Where a user is at any instant."""
    area, share = view.area, view.share
    if isinstance(area, DiskArea):
        radius = area.radius_m
        table = np.linspace(0.0, 1.0, 4001)
        found = share * table**2 + (1.0 - share) * _on_the_way(table)
        return Law(
            "distance to the centre, at any instant, in m",
            "pausing uniform; on the way of density 4R(R² - r²) E(r/R) / A²E[L], E the elliptic integral",
            draw=lambda streams, size: np.hypot(*view.places(streams, size).T),
            cdf=lambda r: np.interp(r / radius, table, found),
        )
    variance = share * area.width_m**2 / 12.0 + (1.0 - share) * _variance_on_the_way(area)
    return Law(
        "distance east of the centre, at any instant, in m",
        "variance width²/12 pausing; on the way E[L (x₁² + x₁x₂ + x₂²)] / 3E[L], x₁ and x₂ of a leg's ends",
        draw=lambda streams, size: view.places(streams, size)[:, 0],
        mean=0.0,
        variance=variance,
    )


def _on_the_way(r: NDArray[np.float64]) -> Floats:
    """P(distance / R ≤ r) of who is on the way in a disk: E. Hyytiä, P. Lassila and J. Virtamo, IEEE TMC 5 (2006)."""
    from scipy import special

    at = r[:, None] * (_NODES + 1.0) / 2.0
    density = 2.0 * math.pi * at * 4.0 * (1.0 - at**2) * special.ellipe(at**2) / (math.pi**2 * DiskArea(1.0).mean_leg_m)
    return np.asarray((density * _WEIGHTS).sum(axis=1) * r / 2.0)


def _variance_on_the_way(area: RectangleArea) -> float:
    """The variance of the place east, by quadrature over a leg's extents u east and v north.

    Given u, the two ends have E[x₁² + x₁x₂ + x₂²] = ((W - u)² + u²) / 4.
    """
    unit, weight = (_NODES + 1.0) / 2.0, _WEIGHTS * (1.0 - (_NODES + 1.0) / 2.0)
    east, north = area.width_m * unit, area.height_m * unit
    length = np.hypot(east[:, None], north[None])
    squares = ((area.width_m - east) ** 2 + east**2) / 4.0
    return float((weight * squares) @ length @ weight / (3.0 * area.mean_leg_m))
