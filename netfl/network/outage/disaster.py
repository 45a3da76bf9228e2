"""Disasters that strike at random times and places, and take down all that is near."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.network.outage import Outage, Timeline
from netfl.network.outage._area import Ground, Groups
from netfl.network.outage._lifetimes import Extent, Lifetime
from netfl.network.outage._strikes import Strikes
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Metres, Seconds

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
    radius: Annotated[Extent, BeforeValidator(_law, json_schema_input_type=Extent | Metres)]
    """How far a disaster reaches: a length, or a law of lengths."""
    repair: Lifetime
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

    def open(self, sites: Sites, streams: Streams) -> Timeline:
        """The disasters, and where the nodes lie."""
        return _Struck(Ground(sites, self.strikes), sites.nodes, self._strikes(streams))

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
        alone = Sites(graph, np.array([self._middle_m]))
        timeline = self.model_copy(update={"strikes": ("users",)}).open(alone, streams)
        apart_s = 50.0 * self.repair.mean
        return timeline.up(np.zeros(size, np.int64), apart_s * np.arange(size)).astype(float)

    def _strikes(self, streams: Streams) -> Strikes:
        """The disasters."""
        return Strikes(self.every, self._place, self.radius, self.repair, streams, settled=self.start == "stationary")

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


class _Struck(Timeline):
    """Nodes on the ground, and the disasters that come."""

    def __init__(self, ground: Ground, nodes: int, strikes: Strikes) -> None:
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
