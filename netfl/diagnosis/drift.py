"""Drift: changes of the participation rates over the recording.

The test compares the slowest movements of participation with those just above them.  The cosine transform of the
innovations (see `periodicity`) has trends and changes of level in its first coefficients; the following ones give the
level under chance and memory (`fit_floors`), extrapolated to frequency 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats

from netfl.diagnosis.periodicity import SLACK, column_blocks, effective_columns, fit_floors

_SLOW = (1, 2, 4, 8)
"""Numbers of the slowest movements that are combined; one test each, with Bonferroni's correction."""
_FIRST = 12
"""The slowest movement that is attributed to chance and memory alone."""

_REMOVED = 16
"""Number of the slowest movements that a drift may have: those of up to eight cycles in the recording.  Cycles are then
looked for above them, from `periodicity.MIN_FAST_CYCLES` on."""

_MIN_LEVEL = 0.1
"""Lower limit of the level, in units of white innovations.  Users in fixed cycles have no chance, and the beats of two
cycles, such as an orbit and a day that it does not divide, would count as drift however weak they are."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The test for drift.

    Args:
        ratio: power of the slowest movements divided by the expected level, for the most significant combination.
        p: p-value, corrected for all combinations.
        level: the power at frequency 0 under memory alone, in units of white innovations.
    """

    ratio: float
    p: float
    level: float


@dataclass(frozen=True, slots=True)
class WindowedRates:
    """The test of constant rates in equal windows of rounds.

    Args:
        windows: the number of windows.
        statistic: the sum of squared standardised differences.
        freedom: its degrees of freedom.
        p: its p-value under χ², with the users' long-run variance.
        rates: participation rate of each user, ``[windows, users]``.
    """

    windows: int
    statistic: float
    freedom: float
    p: float
    rates: NDArray[np.float64]


def find_drift(series: NDArray[np.float64], *, has_memory: bool = True) -> Drift:
    """Test the slowest movements of innovations without cycles, ``[rounds, columns]``.

    Without memory the expected level is the same for all movements.
    """
    columns = effective_columns(series)
    squares = ((fft.dct(series[:, part], axis=0, norm="ortho") ** 2).sum(axis=1) for part in column_blocks(series))
    spectrum = np.sum([*squares], axis=0) / series.shape[1]
    first = min(_FIRST, len(spectrum) // 4)
    counts = np.array([count for count in _SLOW if count < first])
    if not len(counts):
        return Drift(0.0, 1.0, 1.0)
    curves = fit_floors(spectrum, first, columns, bent=has_memory)
    level = np.maximum(curves[:, 1 : first + 1].max(axis=0), _MIN_LEVEL)
    ratios = np.array([(spectrum[1 : count + 1] / level[:count]).mean() for count in counts])
    p = stats.f.sf(ratios / SLACK, columns * counts, columns * _FIRST)
    best = int(p.argmin())
    return Drift(float(ratios[best]), float(min(1.0, len(counts) * p[best])), float(curves[0, 0]))


def remove_drift(delivered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return participation, ``[rounds, users]``, without its slowest movements, its means included."""
    rest = np.empty_like(delivered)
    for part in column_blocks(delivered):
        spectrum = fft.dct(delivered[:, part], axis=0, norm="ortho")
        spectrum[: _REMOVED + 1] = 0.0
        rest[:, part] = fft.idct(spectrum, axis=0, norm="ortho")
    return rest


def assess_windows(delivered: NDArray[np.float64], inflation: NDArray[np.float64], windows: int = 8) -> WindowedRates:
    """Apply the χ² test to equal windows of participation, ``[rounds, users]``; fewer windows if rounds are few.

    The *inflation* is the long-run variance of each user in units of independent rounds.
    """
    windows = max(2, min(windows, len(delivered) // 10))
    parts = np.array_split(delivered, windows)
    rates = np.array([part.mean(axis=0) for part in parts])
    mean = delivered.mean(axis=0)
    spread = mean * (1 - mean) * inflation
    varies = spread > 0
    sizes = np.array([len(part) for part in parts])[:, None]
    squares = sizes * (rates[:, varies] - mean[varies]) ** 2 / spread[varies]
    covariance = delivered.T @ delivered / len(delivered) - np.outer(mean, mean)
    deviation = np.sqrt(np.where(varies, np.diag(covariance), np.inf))
    correlation = covariance / np.outer(deviation, deviation)
    share = varies.sum() ** 2 / max((correlation**2).sum() - varies.sum() ** 2 / len(delivered), varies.sum(), 1)
    total = float(squares.sum())
    degrees = (windows - 1) * int(varies.sum())
    p = float(stats.gamma.sf(total, share * (windows - 1) / 2, scale=2 * varies.sum() / share)) if degrees else 1.0
    return WindowedRates(windows, total, float(degrees), p, rates)


def find_changes(series: NDArray[np.float64], max_changes: int = 5) -> list[int]:
    """Return the rows at which the mean of *series* changes, by binary segmentation.

    A split is significant at 0.1 % if it lowers the sum of squares of the columns, which have mean square 1, by more
    than χ² over columns allows, with Bonferroni's correction over places.
    """
    changes: list[int] = []
    parts = [(0, len(series))]
    while parts and len(changes) < max_changes:
        p, at, start, end = min((*_split(series[start:end]), start, end) for start, end in parts)
        if p > 1e-3:
            break
        changes.append(start + at)
        parts.remove((start, end))
        parts += [(start, start + at), (start + at, end)]
    return sorted(changes)


def _split(part: NDArray[np.float64]) -> tuple[float, int]:
    """Return the p-value of the best split of *part*, and its row."""
    margin = max(10, len(part) // 50)
    if len(part) < 3 * margin:
        return 1.0, 0
    sums = np.cumsum(part, axis=0)
    at = np.arange(margin, len(part) - margin)
    gaps = sums[at - 1] - sums[-1] * (at / len(part))[:, None]
    gain = (gaps**2).sum(axis=1) * len(part) / (at * (len(part) - at))
    best = int(gain.argmax())
    return float(min(1.0, stats.chi2.sf(gain[best] / SLACK, part.shape[1]) * len(at))), int(at[best])
