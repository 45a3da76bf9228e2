"""Run lengths of deliveries and gaps, tested against the geometric distribution of a first-order chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_MIN_RUNS = 100
"""Fewest runs for which χ² is accurate; the p-value of fewer runs is simulated."""
_DRAWS = 199


@dataclass(frozen=True, slots=True)
class RunLengths:
    """Runs of rounds with and without deliveries, all ``[users]``; NaN if there are too few.

    Args:
        on: mean length of runs with deliveries, in rounds.
        off: mean length of runs without deliveries.
        on_p: p-value of the lengths with deliveries under the geometric distribution.
        off_p: the same for runs without deliveries.
    """

    on: NDArray[np.float64]
    off: NDArray[np.float64]
    on_p: NDArray[np.float64]
    off_p: NDArray[np.float64]

    @property
    def p(self) -> float | None:
        """The combined p-value of all users."""
        return combine_p_values(np.concatenate([self.on_p, self.off_p]))


def run_lengths(
    delivered: NDArray[np.bool_], rng: np.random.Generator, tested: NDArray[np.int64] | None = None
) -> RunLengths:
    """Compute run lengths of all users; runs that the recording cuts off at its ends do not count.

    Args:
        delivered: participation, ``[rounds, users]``.
        rng: random generator of the Monte-Carlo tests.
        tested: users to test; by default all.
    """
    is_tested = np.ones(delivered.shape[1], bool) if tested is None else np.isin(np.arange(delivered.shape[1]), tested)
    result = np.full((4, delivered.shape[1]), np.nan)
    for user in range(delivered.shape[1]):
        edges = np.flatnonzero(np.diff(delivered[:, user])) + 1
        lengths, first = np.diff(edges), len(edges) and delivered[edges[0], user]
        for row, runs in enumerate((lengths[0::2], lengths[1::2]) if first else (lengths[1::2], lengths[0::2])):
            if len(runs):
                result[row, user] = runs.mean()
                result[row + 2, user] = geometric_p(runs, rng) if is_tested[user] else np.nan
    return RunLengths(*result)


def geometric_p(lengths: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Return the p-value of Pearson's χ² for the fitted geometric distribution, in cells of about equal probability."""
    if len(lengths) < 15 or lengths.max() == 1:
        return np.nan
    statistic, cells = _pearson(lengths[None])
    if cells[0] < 3:
        return np.nan
    if len(lengths) >= _MIN_RUNS:
        return float(stats.chi2.sf(statistic[0], cells[0] - 2))
    simulated, _ = _pearson(rng.geometric(1 / lengths.mean(), (_DRAWS, len(lengths))))
    return float((1 + (simulated >= statistic[0] - 1e-9).sum()) / (_DRAWS + 1))


def combine_p_values(p: NDArray[np.float64]) -> float | None:
    """Combine p-values that may be dependent, by Cauchy's combination; ``None`` for no values.

    Y. Liu and J. Xie, "Cauchy combination test", J. Am. Stat. Assoc. 115, 2020.
    """
    known = np.clip(p[np.isfinite(p)], 1e-15, 0.99)
    return float(stats.cauchy.sf(np.tan((0.5 - known) * np.pi).mean())) if known.size else None


def _pearson(lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return Pearson's χ² of each row of lengths, and the number of cells."""
    number = lengths.shape[1]
    quantiles = np.linspace(0, 1, int(np.clip(number // 5, 2, 8)) + 1)[1:-1]
    log_stay = np.log1p(-1 / np.maximum(lengths.mean(axis=1, keepdims=True), 1 + 1e-9))
    edges = np.maximum(1, np.ceil(np.log1p(-quantiles) / log_stay))
    zeros, ones = np.zeros((len(lengths), 1)), np.ones((len(lengths), 1))
    expected = number * np.diff(np.hstack([zeros, -np.expm1(edges * log_stay), ones]))
    below = (lengths[:, :, None] <= edges[:, None, :]).sum(axis=1)
    observed = np.diff(np.hstack([zeros, below, number * ones]))
    kept = expected > 1e-9
    squares = np.divide((observed - expected) ** 2, expected, out=np.zeros_like(expected), where=kept)
    return squares.sum(axis=1), kept.sum(axis=1)
