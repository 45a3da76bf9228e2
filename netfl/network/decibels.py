"""Decibels as ratios that can be added, divided and turned back into decibels, however large or small they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MOST_DB = 1000.0
"""What is more than this, or less than its negative, counts as this: squares of such ratios are numbers still."""


def ratio(figure_db: ArrayLike) -> NDArray[np.float64]:
    """Each figure in decibels as a ratio of powers.

    >>> ratio([-np.inf, 0.0, 20.0, np.inf])
    array([1.e-100, 1.e+000, 1.e+002, 1.e+100])
    """
    return np.asarray(10.0 ** (np.clip(figure_db, -_MOST_DB, _MOST_DB) / 10.0))
