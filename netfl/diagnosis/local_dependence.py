"""Dependence of users within a round where their rates drift or repeat.

Users whose rates change at the same times are delivered together for that reason alone.  The test therefore looks at
the residuals of each user, ``r_i(t) = x_i(t) - mean of x_i over similar rounds`` (`similar_rounds`).  Whatever the
rates do, ``E[r_i r_j] = 0`` for independent users, but for the square of the change of the rates within the
neighbourhood.  ``S_ij = Σ_t r_i(t) r_j(t)`` has the variance ``Σ_t v_i(t) v_j(t) (1 + 2 Σ_h ρ_i(h) ρ_j(h))``, with the
local variances v and the autocorrelations ρ of the residuals (M. S. Bartlett, "On the theoretical specification and
sampling properties of autocorrelated time-series", Supplement to J. R. Statist. Soc. 8, 1946; L. D. Haugh, "Checking
the independence of two covariance-stationary time series", J. Am. Statist. Assoc. 71, 1976).  So memory of the users
widens the variance, and does not count as dependence.

In rounds of limited size users exclude each other as in `dependence`, by the variances of each part of the recording.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats

from netfl.diagnosis.dependence import Dependence, exclusion, linked_groups, min_correlation
from netfl.diagnosis.periodicity import column_blocks
from netfl.diagnosis.similar_rounds import SimilarRounds

_MIN_DELIVERIES = 5
"""Fewest deliveries, and fewest rounds without one, of a tested user."""
_MIN_CHANCE = 0.1
"""Smallest variance of a user at one phase of a cycle, as a share of its variance, from which it is tested: where a
schedule decides, chance remains only where a phase is not exact, and there for all users at once."""
_MIN_COMMON = 0.01
"""Smallest mean correlation that counts as dependence: rates that all jump at one time leave less."""
_LAGS = 50
"""Number of lags at which memory of users is estimated, beyond the reach of the neighbours."""
_PARTS = 10
"""Parts of the recording, of each phase of a cycle, whose variances decide how users exclude each other."""
_MAX_PHASES = 50
"""Largest number of phases that are distinguished there."""


def find_local_dependence(delivered: NDArray[np.bool_], similar: SimilarRounds, beyond: tuple[str, ...]) -> Dependence:
    """Test participation, ``[rounds, users]``, for dependence within rounds beyond a drift or a cycle of the rates.

    The result names what was removed, *beyond*.
    """
    counts = delivered.sum(axis=0)
    is_tested = (counts >= _MIN_DELIVERIES) & (counts <= len(delivered) - _MIN_DELIVERIES)
    x = delivered.astype(np.float32)
    residual = x[similar.rows] - similar.mean(x)  # r_i(t), [rows, users]
    scale = 1.0 + 1.0 / len(similar.neighbours)  # variance of a residual, in units of that of a round
    power = (residual.astype(float) ** 2).sum(axis=0)
    if similar.has_cycle:  # where a schedule decides, no chance remains
        rates = delivered.mean(axis=0)
        is_tested &= power >= _MIN_CHANCE * scale * len(residual) * rates * (1 - rates)
    tested = np.flatnonzero(is_tested)
    power_of_sizes = float((residual.sum(axis=1, dtype=float) ** 2).sum())
    spread = power_of_sizes / float(power.sum()) if power.any() else 0.0
    if delivered.sum(axis=1).max(initial=0) <= 1:
        return Dependence(None, spread, 0.0, (), "one user per round", beyond)
    if len(tested) < 2:
        return Dependence(None, spread, 0.0, (), "fewer than two users vary beyond that", beyond)
    residual = residual[:, tested]
    power = power[tested]

    # S_ij, and its mean and variance for independent users, [users, users]
    joint = (residual.T @ residual).astype(float)
    local = _smooth(residual**2, similar)  # v_i(t), [rows, users]
    variance = (local.T @ local).astype(float) * _widening(residual, similar)
    excluded = scale * _excluded(residual, similar, spread, scale)
    z = (joint + excluded) / np.sqrt(np.maximum(variance, 1e-12))

    # all pairs, in either direction: Σ z² as a gamma variable of the same mean and variance
    upper = np.triu_indices(len(tested), 1)
    squares = z[upper] ** 2
    rates = similar.mean(x[:, tested])
    together = (rates.T @ rates).astype(float)  # expected joint deliveries
    mean = len(squares)
    variance_of_sum = float((2 + 1 / np.maximum(together[upper], 1e-9)).sum())
    p_pairs = float(stats.gamma.sf(squares.sum(), mean**2 / variance_of_sum, scale=variance_of_sum / mean))
    norm = np.sqrt(np.outer(power, power))
    excess = ((squares - 1) * variance[upper] / norm[upper] ** 2).mean()
    correlation = float(np.sqrt(max(0.0, excess)))
    if correlation < min_correlation(spread, len(tested)):
        p_pairs = 1.0

    # the sizes of rounds, which add up all pairs: only users that are delivered together count
    common = float(joint[upper].sum() - _MIN_COMMON * norm[upper].sum())
    p_sizes = float(stats.norm.sf(common / np.sqrt(variance[upper].sum())))
    p = min(1.0, 2 * min(p_pairs, p_sizes))  # Bonferroni over both tests
    return Dependence(p, spread, correlation, linked_groups(z, together, tested), "", beyond)


def _smooth(squares: NDArray[np.float32], similar: SimilarRounds) -> NDArray[np.float32]:
    """Return the mean of *squares* over a round and its neighbours, as far as they have residuals."""
    total = squares.copy()
    number = np.ones((len(squares), 1), np.float32)  # of rounds in each sum
    for neighbours in similar.neighbours - similar.rows[0]:  # rows of *squares*, which begin with that round
        has_residual = (neighbours >= 0) & (neighbours < len(squares))
        total[has_residual] += squares[neighbours[has_residual]]
        number[has_residual] += 1
    return np.asarray(total / number)


def _widening(residual: NDArray[np.float32], similar: SimilarRounds) -> NDArray[np.float64]:
    """Return ``1 + 2 Σ_h ρ_i(h) ρ_j(h)`` of all pairs, ``[users, users]``."""
    rows, users = residual.shape
    lags = min(rows // 2, 4 * similar.lag + _LAGS)
    correlation = np.zeros((lags, users))  # ρ_i(h) of h = 1, 2, …
    size = fft.next_fast_len(2 * rows)  # padded, so that the end does not meet the beginning
    for part in column_blocks(residual):
        spectrum = np.abs(fft.rfft(residual[:, part].astype(float), size, axis=0)) ** 2
        products = fft.irfft(spectrum, size, axis=0)  # Σ_t r(t) r(t + h)
        correlation[:, part] = products[1 : lags + 1] / np.maximum(products[0], 1e-12)
    return np.asarray(np.maximum(1 + 2 * correlation.T @ correlation, 0.5))


def _excluded(
    residual: NDArray[np.float32], similar: SimilarRounds, spread: float, scale: float
) -> NDArray[np.float64] | float:
    """Return by how much joint deliveries are fewer where rounds are limited, ``[users, users]``; 0 where not."""
    if spread >= 1:  # round sizes vary as freely as those of independent users
        return 0.0

    # cells of rounds: one phase in one part of the recording
    rows, users = residual.shape
    phase = similar.phase[similar.rows]
    phase = phase * min(1.0, _MAX_PHASES / (phase.max() + 1))  # several phases count as one if there are too many
    part = np.arange(rows) * _PARTS // rows
    _, cell = np.unique(part * _MAX_PHASES + phase.astype(np.int64), return_inverse=True)

    # the variance of each user in each cell gives c_i there: Σ_cells n c_i c_j
    number = np.bincount(cell)
    variance = np.zeros((len(number), users))
    np.add.at(variance, cell, residual**2)
    variance /= scale * number[:, None]
    share = exclusion(variance * (1 - spread))
    return np.asarray((share * number[:, None]).T @ share)
