"""Strikes: disks on the ground that come one after the other, and are repaired."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from netfl.network.outage._area import Ground
from netfl.network.outage._lifetimes import Extent, Lifetime
from netfl.streams import Streams

_CHUNK = 16
_BLOCK = 1024


class Strikes:
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

    def __init__(  # noqa: PLR0913 - a process is these
        self,
        every_s: float,
        place: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
        radius: Extent,
        repair: Lifetime,
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

    def over_s(self, ground: Ground, which: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
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

    def next_s(self, ground: Ground, which: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """When the next strike after *time_s* hits each place, or else a time before that, some strikes on, ``[n]``."""
        self._reach_s(time_s)
        begin = np.searchsorted(self.start_s, time_s, side="right")
        self.reach(int(begin.max(initial=0)) + _CHUNK + 1)
        _, struck = self._struck(ground, which, begin)
        first = np.where(struck.any(axis=1), struck.argmax(axis=1), _CHUNK)
        return self.start_s[begin + first]

    def _struck(
        self, ground: Ground, which: NDArray[np.int64], begin: NDArray[np.int64]
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
