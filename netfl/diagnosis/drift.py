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

_CHANGE_LEVEL = 1e-3
"""Largest p-value of a change of level."""

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

    # mean power of each movement, [rounds]
    powers = []
    for part in column_blocks(series):
        coefficients = fft.dct(series[:, part], axis=0, norm="ortho")
        powers.append((coefficients**2).sum(axis=1))
    spectrum = np.sum(powers, axis=0) / series.shape[1]
    first = min(_FIRST, len(spectrum) // 4)
    counts = np.array([count for count in _SLOW if count < first])
    if not len(counts):  # the recording is too short
        return Drift(ratio=0.0, p=1.0, level=1.0)

    # the level of the slowest movements, by the highest of the curves that fit those above them
    curves = fit_floors(spectrum, first, columns, bent=has_memory)
    level = np.maximum(curves[:, 1 : first + 1].max(axis=0), _MIN_LEVEL)

    # the mean of m relative powers follows F with degrees of freedom m and 12 for each column
    ratios = np.array([(spectrum[1 : count + 1] / level[:count]).mean() for count in counts])
    p = stats.f.sf(ratios / SLACK, columns * counts, columns * _FIRST)
    best = int(p.argmin())
    corrected_p = float(min(1.0, len(counts) * p[best]))
    return Drift(ratio=float(ratios[best]), p=corrected_p, level=float(curves[0, 0]))


def remove_drift(delivered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return participation, ``[rounds, users]``, without its slowest movements, its means included."""
    steady = np.empty_like(delivered)
    for part in column_blocks(delivered):
        coefficients = fft.dct(delivered[:, part], axis=0, norm="ortho")
        coefficients[: _REMOVED + 1] = 0.0  # the first is the mean
        steady[:, part] = fft.idct(coefficients, axis=0, norm="ortho")
    return steady


def assess_windows(delivered: NDArray[np.float64], inflation: NDArray[np.float64], windows: int = 8) -> WindowedRates:
    """Apply the χ² test to equal windows of participation, ``[rounds, users]``; fewer windows if rounds are few.

    The *inflation* f is the long-run variance of each user in units of independent rounds.

    ``χ² = Σ_w Σ_i n_w (r_wi - π_i)² / (π_i (1 - π_i) f_i)``, with the rate r_wi of user i in window w of n_w rounds.
    It has W - 1 degrees of freedom for each of K users.  Users that depend on each other count as fewer,
    ``K² / Σ_ij ρ_ij²`` with their correlations ρ: the mean of χ² remains, its variance grows.
    """
    rounds = len(delivered)
    windows = max(2, min(windows, rounds // 10))
    parts = np.array_split(delivered, windows)
    rates = np.array([part.mean(axis=0) for part in parts])  # r, [windows, users]
    sizes = np.array([len(part) for part in parts])[:, None]  # n, [windows, 1]
    mean = delivered.mean(axis=0)  # π
    spread = mean * (1 - mean) * inflation
    varies = spread > 0
    squares = sizes * (rates[:, varies] - mean[varies]) ** 2 / spread[varies]
    statistic = float(squares.sum())
    users = varies.sum()
    degrees = (windows - 1) * int(users)
    if not degrees:
        return WindowedRates(windows, statistic, 0.0, 1.0, rates)

    # the equivalent number of independent users; by chance, each ρ² is 1 / T
    covariance = delivered.T @ delivered / rounds - np.outer(mean, mean)
    deviation = np.sqrt(np.where(varies, np.diag(covariance), np.inf))
    correlation = covariance / np.outer(deviation, deviation)
    independent = users**2 / max((correlation**2).sum() - users**2 / rounds, users, 1)
    p = float(stats.gamma.sf(statistic, independent * (windows - 1) / 2, scale=2 * users / independent))
    return WindowedRates(windows, statistic, float(degrees), p, rates)


def find_changes(series: NDArray[np.float64], max_changes: int = 5) -> list[int]:
    """Return the rows at which the mean of *series* changes, by binary segmentation.

    A split is significant at 0.1 % if it lowers the sum of squares of the columns, which have mean square 1, by more
    than χ² over columns allows, with Bonferroni's correction over places.
    """
    changes: list[int] = []
    segments = [(0, len(series))]
    while segments and len(changes) < max_changes:
        splits = [(*_split(series[start:end]), start, end) for start, end in segments]
        p, row, start, end = min(splits)  # the most significant
        if p > _CHANGE_LEVEL:
            break
        change = start + row
        changes.append(change)
        segments.remove((start, end))
        segments += [(start, change), (change, end)]
    return sorted(changes)


def _split(part: NDArray[np.float64]) -> tuple[float, int]:
    """Return the p-value of the best split of *part*, and its row.

    A split of T rows after the first s of them, with the partial sums S, lowers the sum of squares of the columns by
    ``Σ (S_s - S_T s / T)² T / (s (T - s))``.
    """
    rows, columns = part.shape
    margin = max(10, rows // 50)
    if rows < 3 * margin:
        return 1.0, 0
    sums = np.cumsum(part, axis=0)
    splits = np.arange(margin, rows - margin)  # s
    gaps = sums[splits - 1] - sums[-1] * (splits / rows)[:, None]
    gain = (gaps**2).sum(axis=1) * rows / (splits * (rows - splits))
    best = int(gain.argmax())
    p = stats.chi2.sf(gain[best] / SLACK, columns) * len(splits)
    return float(min(1.0, p)), int(splits[best])
