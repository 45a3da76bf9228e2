"""The floor of a spectrum: the smooth level that chance and memory make, on which drift and cycles stand out.

What is forgotten at a steady rate has a spectrum ``a + b / (1 + (f / w)²)``, whether it is seen as such or through a
lottery among those who are there.  The floor is that curve through the medians of bands of frequencies, so that single
lines do not move it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

LEAST = 1e-3
"""A floor below this share of the mean power is rounding: a deterministic cycle leaves nothing between its lines."""
_FORM = 0.05
"""How far, relatively, a spectrum may be from the curve's form."""
_WORSE = 9.0
"""Curves whose squared residuals exceed the best's by no more than this may be the true one: three standard errors."""


def floors(spectrum: NDArray[np.float64], first: int, freedom: float, *, bent: bool = True) -> NDArray[np.float64]:
    """The curves that may be the floor, ``[curves, frequencies]``, the most likely first.

    Args:
        spectrum: powers from frequency 0 on.
        first: the first power that counts; those below may be drift.
        freedom: the degrees of freedom of one power.
        bent: whether there may be memory, which bends it; else it is level.
    """
    least = LEAST * float(spectrum.mean())
    if least == 0.0:  # nobody comes or goes
        return np.ones((1, len(spectrum)))
    edges = np.unique(np.geomspace(first, len(spectrum), 16).astype(np.int64))
    bands = [np.arange(low, high) for low, high in pairwise(edges) if high - low > 3]
    if len(bands) < 3:
        return np.full((1, len(spectrum)), max(float(np.median(spectrum[first:])), least))
    median = stats.gamma.median(freedom / 2) / (freedom / 2)
    seen = np.array([max(float(np.median(spectrum[band])) / median, least) for band in bands])
    error = np.array([np.sqrt(4 / (freedom * len(band)) + _FORM**2) for band in bands])
    at = np.arange(len(spectrum))
    widths = first / 2 * 2.0 ** np.arange(0, 8, 0.5) if bent else [np.inf]
    curves, misfit = [], []
    for width in widths:
        bend = 1 / (1 + (at / width) ** 2)
        means = np.array([[1.0, bend[band].mean()] for band in bands])
        share, residual = _fitted(means, seen, error)
        curves.append(np.maximum(share[0] + share[1] * bend, least))
        misfit.append(residual)
    order = np.argsort(misfit)
    return np.array([curves[one] for one in order if misfit[one] <= misfit[order[0]] + _WORSE])


def _fitted(
    means: NDArray[np.float64], seen: NDArray[np.float64], error: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """The shares of level and bend, neither below zero, with errors in proportion to the curve; and its misfit."""
    curve, share, residual = seen, np.zeros(2), 0.0
    for _ in range(3):
        weights = 1 / (error * curve)
        share, residual = optimize.nnls(means * weights[:, None], seen * weights)
        curve = np.maximum(means @ share, 1e-3 * seen)
    return share, float(residual**2)
