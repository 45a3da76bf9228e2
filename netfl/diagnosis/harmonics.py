"""Harmonic regression: the cycle that fits a series best, with any number of cycles in the recording.

A cycle is the sum of a few harmonics, ``Σ_h a_h cos(2π h k u) + b_h sin(2π h k u)``, of the time u from 0 to 1, with k
cycles in the recording.  Least squares need neither a whole number of cycles nor even rounds, in contrast to the
Fourier transform (B. G. Quinn and E. J. Hannan, "The estimation and tracking of frequency", 2001).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAX_HARMONICS = 4
"""Largest number of harmonics of a cycle."""
_SAMPLES = 16
"""Number of blocks of rounds in a cycle of the fastest harmonic; their means replace the series in comparisons."""
_STEP = 0.02
"""Distance between the tried numbers of cycles."""
_NEARLY = 0.9
"""Share of the largest explained power from which more cycles are preferred: those of twice the period explain as much,
because every other harmonic of theirs is one of the cycle."""


def subtract_cycle(
    series: NDArray[np.float64], time: NDArray[np.float64], cycles: float, max_frequency: float
) -> NDArray[np.float64]:
    """Subtract the best cycle from *series*, ``[rounds, columns]``.

    Args:
        series: the series.
        time: the time of each round, from 0 to 1.
        cycles: the number of cycles in the recording.
        max_frequency: limit of the frequency of harmonics, in cycles per recording.
    """
    waves = _waves(time, cycles, max_frequency)
    amplitudes, *_ = np.linalg.lstsq(waves, series, rcond=None)
    return series - waves @ amplitudes


def fit_cycles(
    series: NDArray[np.float64], time: NDArray[np.float64], low: float, high: float, max_frequency: float
) -> float | None:
    """Return the number of cycles in the recording, between *low* and *high*, that explains most of *series*.

    It is ``None`` if the explained power has no peak between the limits.  The other arguments are those of
    `subtract_cycle`.
    """
    # the means of blocks of rounds stand for the series, as many as the fastest harmonic needs
    fastest = min(max_frequency, _MAX_HARMONICS * high)
    blocks = min(len(series), int(_SAMPLES * fastest))
    starts = np.arange(blocks) * len(series) // blocks
    sizes = np.diff(starts, append=len(series))
    means = np.add.reduceat(series - series.mean(axis=0), starts, axis=0) / sizes[:, None]  # [blocks, columns]
    middle = np.add.reduceat(time, starts) / sizes

    # explained power: the squared length of the projection on the waves
    tried = np.arange(low, high + _STEP / 2, _STEP)
    power = np.zeros(len(tried))
    for index, cycles in enumerate(tried.tolist()):
        basis, _ = np.linalg.qr(_waves(middle, cycles, max_frequency))
        power[index] = ((basis.T @ means) ** 2).sum()

    # the peak with the most cycles among the high ones
    inner = power[1:-1]
    peaks = np.flatnonzero((inner >= power[:-2]) & (inner > power[2:])) + 1
    if not len(peaks):
        return None
    high_peaks = peaks[power[peaks] >= _NEARLY * power[peaks].max()]
    return float(tried[high_peaks[-1]])


def _waves(time: NDArray[np.float64], cycles: float, max_frequency: float) -> NDArray[np.float64]:
    """Return a constant and the harmonics of a cycle, ``[rounds, 1 + 2 harmonics]``."""
    harmonics = int(np.clip(max_frequency / cycles, 1, _MAX_HARMONICS))
    angles = 2 * np.pi * cycles * time[:, None] * np.arange(1, harmonics + 1)
    return np.hstack([np.ones((len(time), 1)), np.cos(angles), np.sin(angles)])
