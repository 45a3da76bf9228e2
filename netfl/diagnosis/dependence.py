"""Dependence of users within a round, beyond the effect of their rates and of limited round sizes.

Users exclude each other in rounds of limited size, which does not count as dependence.  Given the round sizes, joint
deliveries of independent users are those of conditional Poisson sampling, whose covariances are ``-c_i c_j`` to
first order, with ``c_i Σ_{j≠i} c_j = π_i (1 - π_i)`` where all rounds are of one size (J. Hájek, "Asymptotic theory of
rejective sampling", Ann. Math. Statist. 35, 1964; J.-C. Deville and Y. Tillé, "Variance approximation under balanced
sampling", J. Stat. Plan. Inference 128, 2005), and in proportion less where sizes vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MIN_CORRELATION = 0.03
"""Smallest root-mean-square correlation that counts as dependence; for few users in rounds of fixed size, for which
the formula above is coarse, four over their number squared is added."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Joint deliveries beyond the effect of rates and round sizes.

    Args:
        p: p-value; ``None`` if the test does not apply, as with one user in each round.
        spread: variance of the round sizes divided by that of independent users.
        correlation: root of the mean squared correlation of users, corrected for chance.
        groups: groups of users with joint deliveries, the largest first.
        why_not: the reason for which the test does not apply.
        beyond: what was removed before the test: ``drift``, ``cycle``, or both; empty for a steady process.
    """

    p: float | None
    spread: float
    correlation: float
    groups: tuple[tuple[int, ...], ...]
    why_not: str = ""
    beyond: tuple[str, ...] = ()


def find_dependence(delivered: NDArray[np.bool_], eigenvalue: NDArray[np.float64]) -> Dependence:
    """Test participation, ``[rounds, users]``, for dependence within rounds.

    The *eigenvalue* is the lag-one correlation of each user's participation, which widens the spread under chance.
    """
    counts = delivered.sum(axis=0)
    tested = np.flatnonzero((counts >= 5) & (counts <= len(delivered) - 5))
    sizes = delivered.sum(axis=1)
    rates = delivered.mean(axis=0)
    independent = float((rates * (1 - rates)).sum())
    spread = float(sizes.var() / independent) if independent else 0.0
    if sizes.max(initial=0) <= 1:
        return Dependence(None, spread, 0.0, (), "one user per round")
    if len(tested) < 2:
        return Dependence(None, spread, 0.0, (), "the availability of users does not change")
    x = delivered[:, tested].astype(np.float32)
    memory = np.nan_to_num(eigenvalue[tested])
    inflation = np.outer(memory, memory)
    inflation = np.maximum((1 + inflation) / np.maximum(1 - inflation, 1e-3), 0.1)
    z, joint = _standardize(x, spread, inflation)
    upper = np.triu_indices(len(tested), 1)
    squares, expected = z[upper] ** 2, joint[upper]
    mean, variance = len(squares), float((2 + 1 / np.maximum(expected, 1e-9)).sum())
    excess = float(squares.sum() - mean)
    correlation = np.sqrt(max(0.0, excess / mean) / len(delivered))
    p_pairs = float(stats.gamma.sf(squares.sum(), mean**2 / variance, scale=variance / mean))
    threshold = MIN_CORRELATION + 4 * max(0.0, 1 - spread) / len(tested) ** 2
    # round sizes that vary more than those of independent users
    variances = rates * (1 - rates)
    fourth = float((variances * (1 - 6 * variances)).sum())  # the sum of the users' fourth cumulants
    products = np.outer(variances[tested], variances[tested])
    widening = float((products * inflation).sum() / products.sum())
    deviation = np.sqrt(max(fourth + 2 * independent**2, 1e-12) * widening / len(delivered))
    p_sizes = float(stats.norm.sf((sizes.var() - 1.03 * independent) / deviation))
    p = min(1.0, 2 * min(p_pairs if correlation >= threshold else 1.0, p_sizes))
    return Dependence(p, spread, float(correlation), linked_groups(z, expected, tested))


def _standardize(
    x: NDArray[np.float32], spread: float, inflation: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the deviations of pair counts from the expected ones, in standard deviations, and the expected counts."""
    rates = x.mean(axis=0, dtype=float)
    d = rates * (1 - rates)
    share = exclusion(d * max(0.0, 1.0 - spread))
    expected = len(x) * (np.outer(rates, rates) - np.outer(share, share))
    observed = (x.T @ x).astype(float)
    z = (observed - expected) / np.sqrt(len(x) * np.outer(d, d) * inflation)
    return z, np.maximum(expected, 0.0)


def exclusion(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve ``c_i Σ_{j≠i} c_j = variance_i``, ``[..., users]``; the covariance of a pair is ``-c_i c_j``."""
    total = variance.sum(axis=-1, keepdims=True)
    share = variance / np.sqrt(np.maximum(total, 1e-12))
    for _ in range(200):
        others = share.sum(axis=-1, keepdims=True) - share
        share = np.sqrt(share * variance / np.maximum(others, 1e-12))  # a damped step, does not oscillate
    return np.asarray(share)


def linked_groups(
    z: NDArray[np.float64], expected: NDArray[np.float64], tested: NDArray[np.int64]
) -> tuple[tuple[int, ...], ...]:
    """Return users linked by pairs with too many joint deliveries, at 0.1 % with Bonferroni's correction over pairs."""
    from scipy.sparse.csgraph import connected_components

    bound = stats.norm.isf(1e-3 / max(1, len(expected)))
    linked = np.triu(z > bound, 1)
    number, label = connected_components(linked, directed=False)
    groups = [tuple(tested[label == group].tolist()) for group in range(number)]
    return tuple(sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group)))
