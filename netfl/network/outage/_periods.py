"""Instants that come again every period."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def around(
    first_s: NDArray[np.float64], period_s: float, time_s: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the instants first + k·period, k whole, the last up to *time_s* and the next; each from its k alone."""
    time = np.asarray(time_s, float)
    number = np.floor((time - first_s) / period_s)
    number = number + (time >= first_s + (number + 1.0) * period_s)  # where the division rounded down
    number = number - (time < first_s + number * period_s)  # or up
    return first_s + number * period_s, first_s + (number + 1.0) * period_s
