"""Where a function that rises from below 0 to 0 or above crosses it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_MOST = 128
"""Values asked for; fifteen do as a rule, and a hundred where every step is a halving."""


def crossing(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The place from which on *function* is 0 or above, to the last bits, ``[n]``.

    By Chandrupatla's method (Adv. Eng. Softw. 28, 1997): inverse quadratic interpolation where the last three points
    say that it is safe, halving where not.

    Args:
        function: of one place each, ``[n]``; continuous.
        low: where it is below 0, or is 0 already, ``[n]``.
        high: where it is 0 or above, ``[n]``.
    """
    new, other = np.array(high), np.array(low)
    new_f, other_f = function(new), function(other)
    step = np.full(len(new), 0.5)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MOST):
            least = np.spacing(np.maximum(np.abs(new), np.abs(other)))
            done = (np.abs(other - new) <= least) | (new_f == 0.0)
            if done.all():
                break
            at = np.where(done, new, new + step * (other - new))
            at_f = function(at)
            same = (at_f >= 0.0) == (new_f >= 0.0)
            old, old_f = np.where(same, new, other), np.where(same, new_f, other_f)
            other, other_f = np.where(same, other, new), np.where(same, other_f, new_f)
            new, new_f = at, at_f
            place, level = (new - other) / (old - other), (new_f - other_f) / (old_f - other_f)
            safe = (level**2 < place) & ((1.0 - level) ** 2 < 1.0 - place)
            there = new_f / (other_f - new_f) * old_f / (other_f - old_f)
            there += (old - new) / (other - new) * new_f / (old_f - new_f) * other_f / (old_f - other_f)
            edge = np.minimum(least / np.abs(other - new), 0.5)
            step = np.clip(np.where(safe & np.isfinite(there), there, 0.5), edge, 1.0 - edge)
    return np.where(new_f >= 0.0, new, other)
