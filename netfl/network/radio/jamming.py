"""The bursts of a jammer, and their powers at towers and users."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from netfl.types import Floats, Ints

Burst = tuple[float, float]
"""Start and end of a burst, in s."""
_BLOCK = 1024
"""Bursts that are drawn at once."""


class BurstTimeline:
    """The times at which a jammer sends, drawn in blocks as far as they are asked for.

    Bursts and gaps alternate.  Their mean durations are b and g = b (1 - d) / d, for a duty cycle of d.  Both are
    exponential, or both are fixed.  The process is stationary from time 0 on: an exponential one is in a burst then
    with probability d, and a fixed one begins at a phase that is uniform on its cycle.

    Args:
        duty_cycle: share d of the time in bursts.
        burst_s: mean duration b of a burst.
        is_fixed: whether bursts and gaps have fixed durations; by default they are exponential.
        rng: generator of all draws.
    """

    def __init__(self, duty_cycle: float, burst_s: float, rng: np.random.Generator, *, is_fixed: bool = False) -> None:
        self._burst_s = burst_s
        self._gap_s = burst_s * (1.0 - duty_cycle) / duty_cycle
        self._rng = rng
        self._is_fixed = is_fixed
        self._starts_s = array("d")
        self._ends_s = array("d")
        self._first_s = 0.0  # start of the first cycle, if durations are fixed
        self._cycles = 0  # that are drawn, if durations are fixed
        if is_fixed:
            self._first_s = -float(rng.random()) * (burst_s + self._gap_s)
        elif rng.random() < duty_cycle:
            self._starts_s.append(0.0)
            self._ends_s.append(float(rng.exponential(burst_s)))

    def between(self, start_s: float, end_s: float) -> list[Burst]:
        """Return the bursts that are on the air at any time within an interval, in their order."""
        self._draw_to(end_s)
        first = bisect_right(self._ends_s, start_s)
        last = bisect_left(self._starts_s, end_s, lo=first)
        return [(self._starts_s[place], self._ends_s[place]) for place in range(first, last)]

    def is_busy(self, start_s: float, end_s: float) -> bool:
        """Return whether a burst is on the air at any time within an interval."""
        self._draw_to(end_s)
        first = bisect_right(self._ends_s, start_s)
        return first < len(self._starts_s) and self._starts_s[first] < end_s

    def ending_after(self, time_s: float) -> Burst:
        """Return the first burst that ends later than *time_s*."""
        self._draw_to(time_s)
        place = bisect_right(self._ends_s, time_s)
        return self._starts_s[place], self._ends_s[place]

    def ended_before(self, time_s: float) -> float:
        """Return the end of the last burst that has ended by *time_s*; minus infinity for none."""
        self._draw_to(time_s)
        place = bisect_right(self._ends_s, time_s) - 1
        return self._ends_s[place] if place >= 0 else -np.inf

    def busy_s(self, until_s: float) -> float:
        """Return the time in bursts from 0 until *until_s*."""
        self._draw_to(until_s)
        starts_s = np.array(self._starts_s)
        ends_s = np.array(self._ends_s)
        return float(np.maximum(np.minimum(ends_s, until_s) - np.minimum(starts_s, until_s), 0.0).sum())

    def _draw_to(self, time_s: float) -> None:
        """Draw bursts until one ends later than *time_s*."""
        while not self._ends_s or self._ends_s[-1] <= time_s:
            self._draw_block()

    def _draw_block(self) -> None:
        if self._is_fixed:  # from the start of the first cycle, so that rounding does not add up
            cycle_s = self._burst_s + self._gap_s
            starts_s = self._first_s + cycle_s * np.arange(self._cycles, self._cycles + _BLOCK)
            ends_s = starts_s + self._burst_s
            self._cycles += _BLOCK
            is_later = ends_s > 0.0
            starts_s = np.maximum(starts_s[is_later], 0.0)
            ends_s = ends_s[is_later]
        else:
            begin_s = self._ends_s[-1] if self._ends_s else 0.0
            gaps_s = self._rng.exponential(self._gap_s, _BLOCK)
            bursts_s = self._rng.exponential(self._burst_s, _BLOCK)
            ends_s = begin_s + np.cumsum(gaps_s + bursts_s)
            starts_s = ends_s - bursts_s
        self._starts_s.extend(starts_s.tolist())
        self._ends_s.extend(ends_s.tolist())


@dataclass(frozen=True, slots=True)
class Jamming:
    """A jammer in a network that runs.

    Args:
        timeline: its bursts.
        at_tower_dbm: returns its power at a tower, by the tower's name, antenna included; infinity without a radio.
        at_users_dbm: returns its power at users at a time, antennas included, ``[n]``.
    """

    timeline: BurstTimeline
    at_tower_dbm: Callable[[str], float] = lambda tower: np.inf
    at_users_dbm: Callable[[Ints, float], Floats] = lambda users, time_s: np.full(len(users), np.inf)

    def bursts(self, start_s: float, end_s: float) -> Sequence[Burst]:
        """Return the bursts that are on the air at any time within an interval."""
        return self.timeline.between(start_s, end_s)
