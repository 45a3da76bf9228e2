"""Drift: whether how often users are heard changes over the recording, how, and when.

The test compares the slowest movements of participation with those just above them.  The cosine transform of the
innovations (see `spectrum`) puts a trend or a change of level into its first coefficients; those that follow give the
level that chance and memory lead one to expect (see `floor`), extrapolated to frequency 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats

from netfl.diagnosis.noise_floor import floors
from netfl.diagnosis.periodicity import SLACK, column_blocks, effective_columns

SLOW = (1, 2, 4, 8)
"""How many of the slowest movements are taken together; one test each, by Bonferroni."""
_FIRST = 12
"""The slowest movement that chance and memory alone are taken to make."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Whether rates drift.

    Args:
        ratio: power of the slowest movements over the level expected, where that is least likely by chance.
        p: how likely chance brings it, for all numbers of movements in `SLOW` together.
        level: the power at frequency 0 that memory alone gives, in that of white innovations.
    """

    ratio: float
    p: float
    level: float


@dataclass(frozen=True, slots=True)
class WindowedRates:
    """Counts of each user in even windows of rounds against even rates.

    Args:
        windows: how many.
        statistic: the sum of squared standardised differences.
        freedom: its degrees of freedom.
        p: its p-value under χ², with the users' long-run variance.
        rates: the share of rounds in which each user was heard, ``[windows, users]``.
    """

    windows: int
    statistic: float
    freedom: float
    p: float
    rates: NDArray[np.float64]


def find_drift(series: NDArray[np.float64], *, remembers: bool = True) -> Drift:
    """Test the slowest movements of innovations.

    Args:
        series: the innovations, ``[rounds, columns]``, from which cycles were taken out.
        remembers: whether there may be memory; without any the level expected is the same for all movements.
    """
    columns = effective_columns(series)
    squares = ((fft.dct(series[:, part], axis=0, norm="ortho") ** 2).sum(axis=1) for part in column_blocks(series))
    spectrum = np.sum([*squares], axis=0) / series.shape[1]
    first = min(_FIRST, len(spectrum) // 4)
    counts = np.array([count for count in SLOW if count < first])
    if not len(counts):
        return Drift(0.0, 1.0, 1.0)
    curves = floors(spectrum, first, columns, bent=remembers)
    level = curves[:, 1 : first + 1].max(axis=0)
    ratios = np.array([(spectrum[1 : count + 1] / level[:count]).mean() for count in counts])
    chances = stats.f.sf(ratios / SLACK, columns * counts, columns * _FIRST)
    least = int(chances.argmin())
    return Drift(float(ratios[least]), float(min(1.0, len(counts) * chances[least])), float(curves[0, 0]))


def assess_windows(heard: NDArray[np.float64], inflation: NDArray[np.float64], windows: int = 8) -> WindowedRates:
    """The χ² test of even windows.

    Args:
        heard: participation, ``[rounds, users]``.
        inflation: the long-run variance of each user in that of independent rounds.
        windows: how many; fewer where rounds are few.
    """
    windows = max(2, min(windows, len(heard) // 10))
    parts = np.array_split(heard, windows)
    rates = np.array([part.mean(axis=0) for part in parts])
    mean = heard.mean(axis=0)
    spread = mean * (1 - mean) * inflation
    able = spread > 0
    sizes = np.array([len(part) for part in parts])[:, None]
    squares = sizes * (rates[:, able] - mean[able]) ** 2 / spread[able]
    covariance = heard.T @ heard / len(heard) - np.outer(mean, mean)
    alone = np.sqrt(np.where(able, np.diag(covariance), np.inf))
    dependent = covariance / np.outer(alone, alone)
    share = able.sum() ** 2 / max((dependent**2).sum() - able.sum() ** 2 / len(heard), able.sum(), 1)
    total = float(squares.sum())
    degrees = (windows - 1) * int(able.sum())
    p = float(stats.gamma.sf(total, share * (windows - 1) / 2, scale=2 * able.sum() / share)) if degrees else 1.0
    return WindowedRates(windows, total, float(degrees), p, rates)


def find_changes(series: NDArray[np.float64], most: int = 5) -> list[int]:
    """Rows at which the mean of *series* changes, by halving again and again while that pays.

    A split pays by how much it lowers the sum of squares of the columns, which have mean square 1, less what the best
    of many places would by chance: Bonferroni over places, χ² over columns, at 0.1 %.
    """
    found: list[int] = []
    parts = [(0, len(series))]
    while parts and len(found) < most:
        gains = [(*_split(series[start:end]), start, end) for start, end in parts]
        sure, at, start, end = min(gains)
        if sure > 1e-3:
            break
        found.append(start + at)
        parts.remove((start, end))
        parts += [(start, start + at), (start + at, end)]
    return sorted(found)


def _split(part: NDArray[np.float64]) -> tuple[float, int]:
    """The p-value of the best split of *part*, and where it is."""
    margin = max(10, len(part) // 50)
    if len(part) < 3 * margin:
        return 1.0, 0
    sums = np.cumsum(part, axis=0)
    at = np.arange(margin, len(part) - margin)
    gaps = sums[at - 1] - sums[-1] * (at / len(part))[:, None]
    gain = (gaps**2).sum(axis=1) * len(part) / (at * (len(part) - at))
    best = int(gain.argmax())
    return float(min(1.0, stats.chi2.sf(gain[best] / SLACK, part.shape[1]) * len(at))), int(at[best])
