"""Disasters that strike at random times and places, and take down all nodes nearby."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, Field, model_validator

from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import state_law
from netfl.network.outage._distributions import DurationDistribution, RadiusDistribution
from netfl.network.outage._targets import DiskMembership, Groups
from netfl.network.placement._sampling import Point
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Extent, Metres, Seconds

_CHUNK = 16
"""Disasters that are compared with each place at once."""
_BLOCK = 1024
"""Disasters that are drawn at once, at least."""
_MAX_LOAD = 6.0
"""Mean number of disasters under repair at one place, which with more would hardly ever be up."""
_QUADRATURE_STEPS = 20_000


def _as_distribution(value: Any) -> Any:
    """Return a single length as a fixed distribution."""
    if isinstance(value, int | float | str):
        return {"distribution": "fixed", "mean": value}
    return value


class Disaster(Outage):
    """Disasters strike at the times of a Poisson process of rate λ = 1 / mean_interval, at uniform places of an area.

    Each takes down all nodes within its radius, and links whose cable, a straight line between its ends, passes within
    it; they are up again together after one repair time.  Times, places, radii and repairs are independent.  A node is
    up with probability A = exp(-λ E[a] E[repair]), where a is the share of the area that is nearer to it than the
    radius: π E[radius²] / area where the area extends so far around it, less near its boundary (the empty probability
    of a Boolean model, S. N. Chiu et al., "Stochastic Geometry and its Applications", 3rd ed. 2013, section 3.1, with
    the number of disasters under repair that of an M/G/∞ queue).  Disks as disasters: S. Neumayer, E. Modiano, "Network
    reliability under random circular cuts", GLOBECOM 2011.  Moving users count at their positions at time 0.

    Example::

        kind: disaster
        mean_interval: 30 day
        corners: [[-10 km, -10 km], [10 km, 10 km]]
        radius: {distribution: uniform, mean: 3 km, width: 0.5}
        repair: {distribution: lognormal, mean: 12 h, sigma: 0.8}
    """

    mean_interval: Annotated[Seconds, Field(gt=0)]
    """Mean time between disasters anywhere in the area."""
    corners: tuple[Point, Point] | None = None
    """Two opposite corners [x, y] of the rectangle of disaster centres."""
    center: Point | None = None
    """In place of corners, the centre [x, y] of a disk."""
    area_radius: Annotated[Extent, Field(gt=0)] | None = None
    """The radius of that disk."""
    radius: Annotated[
        RadiusDistribution, BeforeValidator(_as_distribution, json_schema_input_type=RadiusDistribution | Metres)
    ]
    """Radius of a disaster: a length, or a distribution of lengths."""
    repair: DurationDistribution
    """Time that all affected nodes stay down."""
    affects: Groups = ("users", "towers", "routers", "links")
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of them."""
    start: Literal["stationary", "up"] = "stationary"
    """State at time 0: ``stationary``, as if disasters had always struck, or ``up``, before the first disaster."""

    @model_validator(mode="after")
    def _check_area(self) -> Disaster:
        if (self.corners is None) == (self.center is None) or (self.center is None) != (self.area_radius is None):
            raise ValueError("the area is not defined; give either corners, or center and area_radius")
        if self.corners is not None and not np.prod(np.subtract(*self.corners)):
            raise ValueError("the corners enclose no area; give three or more that are not on a line")
        if self._load > _MAX_LOAD:
            problem = f"a point in the middle would be in {self._load:.3g} disasters at once on average"
            raise ValueError(f"{problem}; make mean_interval longer, or repair shorter")
        return self

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        return _StruckNodes(DiskMembership(layout, self.affects), layout.nodes, DisasterEvents(self, streams))

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        def gaps(streams: Streams, size: int) -> Floats:
            events = DisasterEvents(self, streams)
            events.extend_to(size + 1 + events.before)
            return np.diff(events.start_s[events.before :])[:size]

        def states(streams: Streams, size: int) -> Floats:
            graph: nx.Graph[str] = nx.Graph()
            one_user = Layout(graph, np.array([self._middle_m]))
            timeline = self.model_copy(update={"affects": ("users",)}).open(one_user, streams)
            instants_s = 50.0 * self.repair.mean * np.arange(size)
            return timeline.up(np.zeros(size, np.int64), instants_s).astype(float)

        by_gap = Law(
            "time between disasters in s",
            "exponential with mean mean_interval",
            draw=gaps,
            distribution=stats.expon(scale=self.mean_interval),
        )
        if self.start == "up":
            return (by_gap,)
        statement = "up with probability exp(-λ E[a] E[repair])"
        quantity = "state of a node in the middle of the area (1 is up), at instants 50 mean repairs apart"
        return (by_gap, state_law(quantity, statement, states, float(np.exp(-self._load))))

    @property
    def _middle_m(self) -> Floats:
        if self.corners is None:
            return np.array(self.center)
        return np.asarray(np.mean(self.corners, axis=0))

    @property
    def _half_m(self) -> Floats:
        """Half the sides of the rectangle, or of the square around the disk."""
        if self.corners is None:
            return np.full(2, self.area_radius)
        return np.asarray(np.abs(np.subtract(*self.corners)) / 2.0)

    def place_m(self, u: Floats, v: Floats) -> Floats:
        """Return a point of the area for each two uniform draws, ``[n, 2]``."""
        if self.corners is None:
            direction = np.column_stack([np.cos(2.0 * np.pi * v), np.sin(2.0 * np.pi * v)])
            unit = np.sqrt(u)[:, None] * direction
        else:
            unit = 2.0 * np.column_stack([u, v]) - 1.0
        return np.asarray(self._middle_m + self._half_m * unit)

    @property
    def _load(self) -> float:
        """Mean number of disasters under repair in the middle, λ E[a] E[repair]."""
        return self.struck_share * self.repair.mean / self.mean_interval

    @property
    def struck_share(self) -> float:
        """Share of the disasters that strike the middle of the area, E[a].

        ∫ P(radius ≥ s) l(s) ds / area, l(s) the length of the circle of radius s around the middle in the area.
        l(s) = s · angle(s): the whole circle in a disk; in a rectangle of half sides h, 2π less 4 arccos(h / s) for
        each pair of sides that the circle crosses.
        """
        is_disk = self.corners is None
        if is_disk:
            max_m = float(self._half_m[0])
            area_m2 = np.pi * max_m**2
        else:
            max_m = float(np.hypot(*self._half_m))
            area_m2 = 4.0 * float(np.prod(self._half_m))
        s = (np.arange(_QUADRATURE_STEPS) + 0.5) * max_m / _QUADRATURE_STEPS  # the middles of equal steps
        angle = np.full(_QUADRATURE_STEPS, 2.0 * np.pi)
        if not is_disk:
            outside = sum(np.arccos(np.minimum(half / s, 1.0)) for half in self._half_m)
            angle = np.maximum(angle - 4.0 * outside, 0.0)
        integrand = (1.0 - self.radius.cdf(s)) * s * angle
        return float(integrand.sum() * max_m / _QUADRATURE_STEPS / area_m2)


class DisasterEvents:
    """The disasters of a run: a Poisson process of disks, drawn as far as needed.

    If the model starts stationary, a Poisson number of disasters, of mean λ E[repair], is under repair at time 0, each
    for the equilibrium residual of the repair.

    Args:
        model: distributions of the disasters.
        streams: source of random draws; disaster k is keyed by k.

    Attributes:
        start_s: time of each disaster, in order; 0 for those before time 0.
        repaired_s: end of the repair of each.
        centre_m: centre of the disk of each, [number, 2].
        radius_m: radius of the disk of each.
        before: number of those before time 0.
    """

    def __init__(self, model: Disaster, streams: Streams) -> None:
        self._model = model
        self._fields = {name: streams.field(name) for name in ("gap", "place", "radius", "repair")}
        self.before = 0
        if model.start == "stationary":
            mean = model.repair.mean / model.mean_interval
            self.before = int(streams.rng("before").poisson(mean))
        index = np.arange(self.before)
        places = streams.field("place before")
        self.start_s = np.zeros(self.before)
        self.repaired_s = model.repair.residual(streams.at("rest"), self.before)
        self.centre_m = model.place_m(places.uniform(0, index, 0), places.uniform(0, index, 1))
        self.radius_m = model.radius.draw(streams.field("radius before"), 0, index)
        self._all_repaired_s = np.maximum.accumulate(self.repaired_s)  # end of all repairs up to each disaster's
        self._drawn = 0  # disasters since time 0
        self._last_s = 0.0  # and the start of the last of them

    def extend_to(self, count: int) -> None:
        """Draw at least *count* disasters."""
        while len(self.start_s) < count:
            self._draw()

    def _extend_beyond(self, time_s: Floats) -> None:
        """Draw disasters beyond all of *time_s*."""
        while self._last_s <= time_s.max(initial=0.0, where=np.isfinite(time_s)):
            self._draw()

    def over_s(self, disk: DiskMembership, places: Ints, time_s: Floats) -> Floats:
        """Return the end of the last repair of disasters up to *time_s*, ``[n]``; minus infinity if all are over."""
        over_s = np.full(len(places), -np.inf)
        self._extend_beyond(time_s)
        # disasters from begin to end may be under repair: all repairs before are over, and later ones have not begun
        begin = np.searchsorted(self._all_repaired_s, time_s, side="right")
        end = np.searchsorted(self.start_s, time_s, side="right")
        remaining = np.flatnonzero(begin < end)
        while remaining.size:  # a chunk of disasters for each place
            event, is_struck = self._struck(disk, places[remaining], begin[remaining])
            has_begun = event < end[remaining, None]
            is_under_repair = self.repaired_s[event] > time_s[remaining, None]
            is_down = is_struck & has_begun & is_under_repair
            latest_s = np.where(is_down, self.repaired_s[event], -np.inf).max(axis=1)
            over_s[remaining] = np.maximum(over_s[remaining], latest_s)
            begin[remaining] += _CHUNK
            remaining = remaining[begin[remaining] < end[remaining]]
        return over_s

    def next_s(self, disk: DiskMembership, places: Ints, time_s: Floats) -> Floats:
        """Return the time of the next disaster at each place, or of one before it, some disasters ahead, ``[n]``."""
        self._extend_beyond(time_s)
        begin = np.searchsorted(self.start_s, time_s, side="right")
        self.extend_to(int(begin.max(initial=0)) + _CHUNK + 1)
        _, is_struck = self._struck(disk, places, begin)
        first = np.where(is_struck.any(axis=1), is_struck.argmax(axis=1), _CHUNK)
        return self.start_s[begin + first]

    def _struck(self, disk: DiskMembership, places: Ints, begin: Ints) -> tuple[Ints, Bools]:
        """Return disasters from number *begin* on, and whether each place lies within them, ``[n, _CHUNK]`` both."""
        event = np.minimum(begin[:, None] + np.arange(_CHUNK), len(self.start_s) - 1)
        is_struck = disk.distance_m(places[:, None], self.centre_m[event]) <= self.radius_m[event]
        return event, is_struck

    def _draw(self) -> None:
        """Double the number of disasters, in whole blocks, whose draws are keyed by their numbers."""
        model = self._model
        fields = self._fields
        index = self._drawn + np.arange(max(_BLOCK, self._drawn))
        gaps_s = model.mean_interval * fields["gap"].exponential(0, index)
        gaps_s[0] += self._last_s  # the sums are instants
        start_s = np.cumsum(gaps_s)
        over_s = start_s + model.repair.draw(fields["repair"], 0, index)
        centre_m = model.place_m(fields["place"].uniform(0, index, 0), fields["place"].uniform(0, index, 1))
        radius_m = model.radius.draw(fields["radius"], 0, index)
        self.start_s = np.append(self.start_s, start_s)
        self.repaired_s = np.append(self.repaired_s, over_s)
        self.centre_m = np.vstack([self.centre_m, centre_m])
        self.radius_m = np.append(self.radius_m, radius_m)
        self._all_repaired_s = np.maximum.accumulate(self.repaired_s)
        self._drawn += len(index)
        self._last_s = float(start_s[-1])


class _StruckNodes(NodeAvailability):
    """Nodes that are down from a disaster within reach to the end of the last repair."""

    def __init__(self, disk: DiskMembership, nodes: int, events: DisasterEvents) -> None:
        self._disk = disk
        self._events = events
        self._place = np.full(nodes, -1)
        self._place[disk.nodes] = np.arange(len(disk.nodes))

    @property
    def is_exact(self) -> bool:
        return False  # it looks only some disasters ahead

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        up = np.ones(len(nodes), np.bool_)
        affected, places, at_s = self._affected(nodes, time_s)
        up[affected] = self._events.over_s(self._disk, places, at_s) <= at_s
        return up

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        change_s = np.full(len(nodes), np.inf)
        affected, places, at_s = self._affected(nodes, time_s)
        # nodes that are down: the end of all repairs
        until_s = at_s.copy()
        down = np.arange(len(places))  # nodes that may be down at until_s
        while down.size:  # a disaster may strike during the repair of another
            over_s = self._events.over_s(self._disk, places[down], until_s[down])
            is_down = over_s > until_s[down]
            down = down[is_down]
            until_s[down] = over_s[is_down]

        # nodes that are up: the next disaster
        is_up = ~(until_s > at_s)
        until_s[is_up] = self._events.next_s(self._disk, places[is_up], at_s[is_up])
        change_s[affected] = until_s
        return change_s

    def _affected(self, nodes: Ints, time_s: ArrayLike) -> tuple[Ints, Ints, Floats]:
        """Return the indices of *nodes* that can be struck, their places in the disk, and their times."""
        places = self._place[nodes]
        affected = np.flatnonzero(places >= 0)
        times_s = np.broadcast_to(np.asarray(time_s, float), len(nodes))
        return affected, places[affected], times_s[affected]
