"""Disasters that strike at random times and places, and take down all that is near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._distributions import DurationDistribution, RadiusDistribution
from netfl.network.outage._geometry import DiskMembership, Groups
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres, Seconds

# Strikes: disks on the ground that come one after the other, and are repaired.


_CHUNK = 16
_BLOCK = 1024


class DisasterEvents:
    """A Poisson process of strikes, drawn as far as is asked for.

    Args:
        every_s: the mean time between strikes.
        place: the centre for each two uniform draws, ``[n, 2]``.
        radius: how far a strike reaches.
        repair: how long what it strikes stays down.
        streams: where draws come from; strike k is keyed by k.
        settled: whether strikes have been coming for ever at time 0: then a Poisson number of them, of mean
            E[repair] / every, is still unrepaired, each for the equilibrium residual of the repair's law.

    Attributes:
        start_s: when each strike comes, in order; 0 for those before time 0.
        before: how many those are.
    """

    def __init__(
        self,
        every_s: float,
        place: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
        radius: RadiusDistribution,
        repair: DurationDistribution,
        streams: Streams,
        *,
        settled: bool,
    ) -> None:
        self._every_s, self._place, self._radius, self._repair = every_s, place, radius, repair
        self._fields = {name: streams.field(name) for name in ("gap", "place", "radius", "repair")}
        self.before = int(streams.rng("before").poisson(repair.mean / every_s)) if settled else 0
        self.start_s = np.zeros(self.before)
        self._over_s = repair.residual(streams.at("rest"), self.before)
        self._centre_m, self._radius_m = self._disks(streams, self.before)
        self._last_over_s = np.maximum.accumulate(self._over_s)
        self._drawn, self._last_s = 0, 0.0

    def reach(self, count: int) -> None:
        """Draw at least *count* strikes."""
        while len(self.start_s) < count:
            self._draw()

    def _reach_s(self, time_s: NDArray[np.float64]) -> None:
        """Draw strikes to beyond *time_s*."""
        while self._last_s <= time_s.max(initial=0.0, where=np.isfinite(time_s)):
            self._draw()

    def over_s(
        self, ground: DiskMembership, which: NDArray[np.int64], time_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When the last is repaired of the strikes up to *time_s* at each place; minus infinity if all are, ``[n]``."""
        over_s = np.full(len(which), -np.inf)
        self._reach_s(time_s)
        at = np.searchsorted(self._last_over_s, time_s, side="right")  # before, all are repaired
        end = np.searchsorted(self.start_s, time_s, side="right")
        todo = np.flatnonzero(at < end)
        while todo.size:
            strike, struck = self._struck(ground, which[todo], at[todo])
            working = struck & (strike < end[todo, None]) & (self._over_s[strike] > time_s[todo, None])
            latest_s = np.where(working, self._over_s[strike], -np.inf).max(axis=1)
            over_s[todo] = np.maximum(over_s[todo], latest_s)
            at[todo] += _CHUNK
            todo = todo[at[todo] < end[todo]]
        return over_s

    def next_s(
        self, ground: DiskMembership, which: NDArray[np.int64], time_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When the next strike after *time_s* hits each place, or else a time before that, some strikes on, ``[n]``."""
        self._reach_s(time_s)
        begin = np.searchsorted(self.start_s, time_s, side="right")
        self.reach(int(begin.max(initial=0)) + _CHUNK + 1)
        _, struck = self._struck(ground, which, begin)
        first = np.where(struck.any(axis=1), struck.argmax(axis=1), _CHUNK)
        return self.start_s[begin + first]

    def _struck(
        self, ground: DiskMembership, which: NDArray[np.int64], begin: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Strikes from number *begin* on, and whether each place lies within them, ``[n, _CHUNK]`` both."""
        strike = np.minimum(begin[:, None] + np.arange(_CHUNK), len(self.start_s) - 1)
        near = ground.distance_m(which[:, None], self._centre_m[strike]) <= self._radius_m[strike]
        return strike, near

    def _draw(self) -> None:
        """Draw as many strikes again, in whole blocks, whose draws are keyed by their numbers."""
        index = self._drawn + np.arange(max(_BLOCK, self._drawn))
        gaps_s = self._every_s * self._fields["gap"].exponential(0, index)
        gaps_s[0] += self._last_s
        start_s = np.cumsum(gaps_s)
        over_s = start_s + self._repair.draw(self._fields["repair"], 0, index)
        u, v = (self._fields["place"].uniform(0, index, draw) for draw in (0, 1))
        self.start_s = np.append(self.start_s, start_s)
        self._over_s = np.append(self._over_s, over_s)
        self._centre_m = np.vstack([self._centre_m, self._place(u, v)])
        self._radius_m = np.append(self._radius_m, self._radius.draw(self._fields["radius"], 0, index))
        self._last_over_s = np.maximum.accumulate(self._over_s)
        self._drawn, self._last_s = self._drawn + len(index), float(start_s[-1])

    def _disks(self, streams: Streams, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centres and radii of the strikes before time 0."""
        every = np.arange(count)
        u, v = (streams.field("place before").uniform(0, every, draw) for draw in (0, 1))
        return self._place(u, v), self._radius.draw(streams.field("radius before"), 0, every)


Point = tuple[Metres, Metres]


def _law(value: Any) -> Any:
    """One length as the law of that alone."""
    return {"law": "fixed", "mean": value} if isinstance(value, int | float | str) else value


_MOST, _MOST_HERE = 1e4, 6.0
"""Disasters whose damage may be under repair at once, in the mean: anywhere, and at one place, which with more of them
would hardly ever be up."""


class Disaster(Outage):
    """Disasters come at the times of a Poisson process of rate λ = 1 / every, at places uniform over an area.

    Each strikes all nodes within its radius, and links whose cable, a straight line between its ends, comes so near;
    they are back together after one repair time.  Times, places, radii and repairs are independent.  A node is up
    with probability A = exp(-λ E[a] E[repair]), where a is the share of the area that is nearer to it than the radius:
    π E[radius²] / area where the area reaches so far around it, less near its rim (the empty probability of a Boolean
    model, S. N. Chiu et al., "Stochastic Geometry and its Applications", 3rd ed. 2013, section 3.1, with the number
    of strikes at work that of an M/G/∞ queue).  Disks as disasters: S. Neumayer, E. Modiano, "Network reliability
    under random circular cuts", GLOBECOM 2011.  Users who move are struck by where they are at time 0.

    Example::

        kind: disaster
        every: 30 day
        corners: [[-10 km, -10 km], [10 km, 10 km]]
        radius: {law: uniform, mean: 3 km, width: 0.5}
        repair: {law: lognormal, mean: 12 h, sigma: 0.8}
    """

    every: Annotated[Seconds, Field(gt=0)]
    """Mean time between disasters anywhere in the area."""
    corners: tuple[Point, Point] | None = None
    """Two opposite corners [x, y] of the rectangle in which disasters have their centres."""
    center: Point | None = None
    """In place of corners, the centre [x, y] of a disk."""
    extent: Annotated[Metres, Field(gt=0)] | None = None
    """The radius of that disk."""
    radius: Annotated[RadiusDistribution, BeforeValidator(_law, json_schema_input_type=RadiusDistribution | Metres)]
    """How far a disaster reaches: a length, or a law of lengths."""
    repair: DurationDistribution
    """How long all that it struck stays down."""
    strikes: Groups = ("users", "towers", "routers", "links")
    """What it strikes: ``users``, ``towers``, ``routers``, ``links``, ``both`` users and towers, ``all``, or a list of
    the first four."""
    start: Literal["stationary", "up"] = "stationary"
    """Whether at time 0 disasters have been coming for ever, or the first is yet to come."""

    @model_validator(mode="after")
    def _area(self) -> Disaster:
        """One area, which is one, in which disasters end now and then."""
        if (self.corners is None) == (self.center is None) or (self.center is None) != (self.extent is None):
            raise ValueError("give corners, or center and extent: one area")
        if self.corners is not None and not np.prod(np.subtract(*self.corners)):
            raise ValueError("the corners enclose no area")
        for where, share, most in (("a place in the middle", self._share, _MOST_HERE), ("the area", 1.0, _MOST)):
            at_once = share * self.repair.mean / self.every
            if at_once > most:
                problem = f"{where} would suffer {at_once:.3g} disasters at once, {most:g} are possible"
                raise ValueError(f"{problem}: make every longer, or repair shorter")
        return self

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """The disasters, and where the nodes lie."""
        return _Struck(DiskMembership(sites, self.strikes), sites.nodes, self._strikes(streams))

    def laws(self) -> tuple[Law, ...]:
        """Of the disasters, and of a node in the middle of the area."""

        def gaps(streams: Streams, size: int) -> NDArray[np.float64]:
            strikes = self._strikes(streams)
            strikes.reach(size + 1 + strikes.before)
            return np.diff(strikes.start_s[strikes.before :])[:size]

        laws = [
            Law(
                "time between disasters in s",
                "exponential with mean every",
                draw=gaps,
                mean=self.every,
                variance=self.every**2,
                cdf=lambda x: -np.expm1(-np.maximum(x, 0.0) / self.every),
            )
        ]
        load = self._share * self.repair.mean / self.every
        if self.start == "stationary" and load < _LOADED:
            share = float(np.exp(-load))
            told = "up with probability exp(-λ E[a] E[repair])"
            quantity = "state of a node in the middle of the area (1 is up), at instants 50 mean repairs apart"
            laws.append(Law(quantity, told, draw=self._states, mean=share, variance=share * (1.0 - share)))
        return tuple(laws)

    def _states(self, streams: Streams, size: int) -> NDArray[np.float64]:
        """The state of a user in the middle of the area, long enough apart."""
        graph: nx.Graph[str] = nx.Graph()
        alone = Layout(graph, np.array([self._middle_m]))
        timeline = self.model_copy(update={"strikes": ("users",)}).open(alone, streams)
        apart_s = 50.0 * self.repair.mean
        return timeline.up(np.zeros(size, np.int64), apart_s * np.arange(size)).astype(float)

    def _strikes(self, streams: Streams) -> DisasterEvents:
        """The disasters."""
        return DisasterEvents(
            self.every, self._place, self.radius, self.repair, streams, settled=self.start == "stationary"
        )

    @property
    def _middle_m(self) -> NDArray[np.float64]:
        """The middle of the area."""
        return np.array(self.center) if self.corners is None else np.mean(self.corners, axis=0)

    @property
    def _half_m(self) -> NDArray[np.float64]:
        """Half the sides of the rectangle, or of the square around the disk."""
        return np.full(2, self.extent) if self.corners is None else np.abs(np.subtract(*self.corners)) / 2.0

    def _place(self, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
        """A point of the area for each two uniform draws, ``[n, 2]``."""
        if self.corners is None:
            spot = np.sqrt(u)[:, None] * np.column_stack([np.cos(2.0 * np.pi * v), np.sin(2.0 * np.pi * v)])
        else:
            spot = 2.0 * np.column_stack([u, v]) - 1.0
        return np.asarray(self._middle_m + self._half_m * spot)

    @property
    def _share(self) -> float:
        """E[a] of the middle: ∫ P(radius ≥ s) l(s) ds / area, l(s) the length of the circle around it in the area."""
        far_m = float(np.hypot(*self._half_m)) if self.corners is not None else float(self._half_m[0])
        s = (np.arange(_STEPS) + 0.5) * far_m / _STEPS
        angle, area_m2 = np.full(_STEPS, 2.0 * np.pi), np.pi * far_m**2
        if self.corners is not None:
            outside = sum(np.arccos(np.minimum(half / s, 1.0)) for half in self._half_m)
            angle, area_m2 = np.maximum(angle - 4.0 * outside, 0.0), 4.0 * float(np.prod(self._half_m))
        return float(((1.0 - self.radius.cdf(s)) * s * angle).sum() * far_m / _STEPS / area_m2)


_STEPS = 20_000
_LOADED = 5.0
"""Strikes at work at once, on average, on a node from which on it is down nearly always."""


class _Struck(NodeAvailability):
    """Nodes on the ground, and the disasters that come."""

    def __init__(self, ground: DiskMembership, nodes: int, strikes: DisasterEvents) -> None:
        self._ground, self._strikes = ground, strikes
        self._place = np.full(nodes, -1)
        self._place[ground.nodes] = np.arange(len(ground.nodes))

    @property
    def exact(self) -> bool:
        """It looks only some disasters ahead."""
        return False

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether no disaster that struck it is unrepaired."""
        up = np.ones(len(nodes), np.bool_)
        concerned, which, at_s = self._concerned(nodes, time_s)
        up[concerned] = self._strikes.over_s(self._ground, which, at_s) <= at_s
        return up

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """When all is repaired, or the next disaster strikes it."""
        change_s = np.full(len(nodes), np.inf)
        concerned, which, at_s = self._concerned(nodes, time_s)
        back_s, todo = at_s.copy(), np.arange(len(which))
        while todo.size:  # one disaster may strike while another is repaired
            over_s = self._strikes.over_s(self._ground, which[todo], back_s[todo])
            longer = over_s > back_s[todo]
            todo = todo[longer]
            back_s[todo] = over_s[longer]
        down = back_s > at_s
        back_s[~down] = self._strikes.next_s(self._ground, which[~down], at_s[~down])
        change_s[concerned] = back_s
        return change_s

    def _concerned(
        self, nodes: NDArray[np.int64], time_s: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Which of *nodes* can be struck, their places on the ground, and the times asked of them."""
        place = self._place[nodes]
        concerned = np.flatnonzero(place >= 0)
        return concerned, place[concerned], np.broadcast_to(np.asarray(time_s, float), len(nodes))[concerned].copy()
