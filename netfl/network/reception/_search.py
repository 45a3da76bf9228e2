"""The least SNR at which something becomes likely enough."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RANGE_DB = (-300.0, 300.0)
"""No radio works outside of it."""
_HALVINGS = 80


def minimum_snr_db(likely: Callable[[NDArray[np.float64]], NDArray[np.float64]], enough: float) -> float:
    """The least SNR in dB at which *likely*, which grows with the SNR, is at least *enough*; by bisection.

    Minus infinity where that is so at `RANGE_DB`'s lower end, infinity where it is not so at its upper end.

    >>> round(minimum_snr_db(lambda snr_db: 10 ** (snr_db / 10), 100.0), 9)
    20.0
    """
    low, high = RANGE_DB
    at_low, at_high = likely(np.array(RANGE_DB)) >= enough
    if at_low or not at_high:
        return -np.inf if at_low else np.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if likely(np.array([middle]))[0] >= enough:
            high = middle
        else:
            low = middle
    return high
