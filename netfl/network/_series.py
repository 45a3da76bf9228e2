"""Series of users in flat arrays: the times of all users in one array, user by user, each in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netfl.types import Floats, Ints


def last_not_after(times_s: Floats, first: Ints, users: Ints, time_s: ArrayLike) -> Ints:
    """Return the place of each user's last time that is not after *time_s*, or of its first one, ``[n]``.

    Args:
        times_s: times, user by user, ascending for each.
        first: place of each user's first time, and of the end of all, ``[users + 1]``.
        users: the users to look up, ``[n]``; each has a time.
        time_s: the time of each, ``[n]``, or of all.
    """
    low = first[users]
    high = first[users + 1] - 1
    while (low < high).any():  # the last time that is not after the given one lies between both
        middle = (low + high + 1) // 2
        is_passed = times_s[middle] <= time_s
        low = np.where(is_passed, middle, low)
        high = np.where(is_passed, high, middle - 1)
    return low
