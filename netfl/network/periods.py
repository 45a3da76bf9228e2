"""Periods of equal length: the slot, block, day or window of a time.

Period k is the time from k·L to (k+1)·L, without its end.  Times are floating-point numbers: one that represents k·L
may be a few steps of the clock less, as 0.3 / 0.1 is 2.9999999999999996.  Therefore a time that is at most
x·10⁻¹⁵ + 10⁻⁹ periods before a boundary, x being the time in periods, counts as on it and lies in the later period.
The first term is 4.5 to 9 steps of the clock at that time; the second allows for times that are sums.

All models count their periods here, so that a slot that begins with a block of fading lies in that block.

The same holds for instants.  Two times are one instant if they differ by at most x·10⁻¹⁵ + 10⁻⁹ s, x being the earlier
one (`after_rounding`): two sums of the same durations in another order differ by less.  `netfl.network.clock.Clock`
decides what happens at the end of an instant.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from netfl.types import Floats, Ints

_Time = TypeVar("_Time", float, Floats)

SLACK = 1e-9
"""Tolerance at a boundary, in periods."""
STEPS = 1e-15
"""Tolerance relative to the time: some steps of the clock, as a double has 53 bits."""
SAME_INSTANT_S = 1e-9
"""Difference of two times that count as one instant, besides some steps of the clock."""
MAX_PERIOD = 2.0**62
"""Largest number of a period, before and after time 0; later ones count as the last."""

LATER = 1.0 + STEPS
"""Factor of the latest time that is the same instant, apart from `SAME_INSTANT_S`."""
_EARLIER = 1.0 - STEPS


def period_of(time_s: float, length_s: float) -> int:
    """Return the number of the period, of *length_s* each, that a time lies in, from 0.

    >>> period_of(5 * 0.1, 0.1), int(np.floor_divide(5 * 0.1, 0.1)), period_of(0.3, 0.1), period_of(0.29, 0.1)
    (5, 4, 3, 2)
    """
    periods = time_s / length_s * LATER + SLACK
    if periods < MAX_PERIOD:
        return math.floor(periods)
    return int(MAX_PERIOD)


def periods_of(time_s: ArrayLike, length_s: float) -> Ints:
    """Return `period_of` of each time."""
    periods = np.asarray(time_s, float) / length_s * LATER + SLACK
    within = np.maximum(np.minimum(periods, MAX_PERIOD), -MAX_PERIOD)
    return np.asarray(np.floor(within), np.int64)


def period_from(time_s: float, length_s: float) -> int:
    """Return the number of the first period that begins at or after a time.

    >>> period_from(0.1 + 0.2, 0.1), math.ceil((0.1 + 0.2) / 0.1), period_from(0.31, 0.1)
    (3, 4, 4)
    """
    periods = time_s / length_s * _EARLIER - SLACK
    if periods < MAX_PERIOD:
        return math.ceil(periods)
    return int(MAX_PERIOD)


def periods_from(time_s: ArrayLike, length_s: float) -> Ints:
    """Return `period_from` of each time."""
    periods = np.asarray(time_s, float) / length_s * _EARLIER - SLACK
    return np.asarray(np.ceil(np.minimum(periods, MAX_PERIOD)), np.int64)


def surrounding_instants(first_s: Floats, period_s: float, time_s: ArrayLike) -> tuple[Floats, Floats]:
    """Return the last instant first + k·period, k whole, up to *time_s*, and the next; each computed from k alone."""
    time = np.asarray(time_s, float)
    number = np.floor((time - first_s) / period_s)
    number = number + (time >= first_s + (number + 1.0) * period_s)  # if the division rounded down
    number = number - (time < first_s + number * period_s)  # or up
    return first_s + number * period_s, first_s + (number + 1.0) * period_s


def after_rounding(time_s: _Time) -> _Time:
    """Return the latest time that is the same instant as *time_s*.

    >>> after_rounding(0.0), after_rounding(1e6) - 1e6
    (1e-09, 2.2118911147117615e-09)
    """
    return time_s * LATER + SAME_INSTANT_S


def before_rounding(time_s: _Time) -> _Time:
    """Return the earliest time that is the same instant as *time_s*."""
    return time_s * _EARLIER - SAME_INSTANT_S
