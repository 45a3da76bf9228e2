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
the formula above is coarse, four over their number squared is added (`min_correlation`)."""
_MIN_DELIVERIES = 5
"""Fewest deliveries, and fewest rounds without one, of a tested user."""


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
    rounds = len(delivered)
    counts = delivered.sum(axis=0)
    tested = np.flatnonzero((counts >= _MIN_DELIVERIES) & (counts <= rounds - _MIN_DELIVERIES))
    sizes = delivered.sum(axis=1)
    rates = delivered.mean(axis=0)
    variances = rates * (1 - rates)
    independent = float(variances.sum())  # variance of the round sizes of independent users
    spread = float(sizes.var() / independent) if independent else 0.0
    if sizes.max(initial=0) <= 1:
        return Dependence(None, spread, 0.0, (), "one user per round")
    if len(tested) < 2:
        return Dependence(None, spread, 0.0, (), "the availability of users does not change")

    # memory widens the variance of pair counts by (1 + λ_i λ_j) / (1 - λ_i λ_j), [users, users]
    memory = np.nan_to_num(eigenvalue[tested])
    product = np.outer(memory, memory)
    inflation = np.maximum((1 + product) / np.maximum(1 - product, 1e-3), 0.1)

    # all pairs, in either direction: Σ z² as a gamma variable of the same mean and variance
    x = delivered[:, tested].astype(np.float32)
    z, joint = _standardize(x, spread, inflation)
    upper = np.triu_indices(len(tested), 1)
    squares = z[upper] ** 2
    expected = joint[upper]
    mean = len(squares)  # E[z²] = 1
    variance = float((2 + 1 / np.maximum(expected, 1e-9)).sum())  # 2 of a normal z, and more of a Poisson count
    p_pairs = float(stats.gamma.sf(squares.sum(), mean**2 / variance, scale=variance / mean))
    excess = float(squares.sum() - mean)
    correlation = np.sqrt(max(0.0, excess / mean) / rounds)
    if correlation < min_correlation(spread, len(tested)):
        p_pairs = 1.0

    # round sizes that vary more than those of independent users: the variance of a sample variance is (κ₄ + 2 σ⁴) / T
    fourth = float((variances * (1 - 6 * variances)).sum())  # κ₄, the sum of the users' fourth cumulants
    products = np.outer(variances[tested], variances[tested])
    widening = float((products * inflation).sum() / products.sum())
    deviation = np.sqrt(max(fourth + 2 * independent**2, 1e-12) * widening / rounds)
    p_sizes = float(stats.norm.sf((sizes.var() - 1.03 * independent) / deviation))
    p = min(1.0, 2 * min(p_pairs, p_sizes))  # Bonferroni over both tests
    return Dependence(p, spread, float(correlation), linked_groups(z, expected, tested))


def min_correlation(spread: float, users: int) -> float:
    """Return the smallest correlation of *users* that counts as dependence, with the *spread* of the round sizes."""
    return MIN_CORRELATION + 4 * max(0.0, 1 - spread) / users**2


def _standardize(
    x: NDArray[np.float32], spread: float, inflation: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the deviations of pair counts from the expected ones, in standard deviations, and the expected counts.

    With T rounds ``z_ij = (n_ij - E_ij) / √(T d_i d_j f_ij)``, where ``E_ij = T (π_i π_j - c_i c_j)``,
    ``d_i = π_i (1 - π_i)`` and f is the *inflation* by memory; all ``[users, users]``.
    """
    rounds = len(x)
    rates = x.mean(axis=0, dtype=float)  # π
    variances = rates * (1 - rates)  # d
    share = exclusion(variances * max(0.0, 1.0 - spread))  # c
    expected = rounds * (np.outer(rates, rates) - np.outer(share, share))
    observed = (x.T @ x).astype(float)
    z = (observed - expected) / np.sqrt(rounds * np.outer(variances, variances) * inflation)
    return z, np.maximum(expected, 0.0)


def exclusion(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve ``c_i Σ_{j≠i} c_j = variance_i``, ``[..., users]``; the covariance of a pair is ``-c_i c_j``."""
    total = variance.sum(axis=-1, keepdims=True)
    share = variance / np.sqrt(np.maximum(total, 1e-12))  # the solution for many equal users
    for _ in range(200):
        others = share.sum(axis=-1, keepdims=True) - share
        # the geometric mean of c_i and variance_i / Σ_{j≠i} c_j: a whole step would oscillate
        share = np.sqrt(share * variance / np.maximum(others, 1e-12))
    return np.asarray(share)


def linked_groups(
    z: NDArray[np.float64], expected: NDArray[np.float64], tested: NDArray[np.int64]
) -> tuple[tuple[int, ...], ...]:
    """Return users linked by pairs with too many joint deliveries, at 0.1 % with Bonferroni's correction over pairs."""
    from scipy.sparse.csgraph import connected_components

    bound = stats.norm.isf(1e-3 / max(1, len(expected)))
    is_linked = np.triu(z > bound, 1)
    components, label = connected_components(is_linked, directed=False)
    groups = []
    for component in range(components):
        members = tuple(tested[label == component].tolist())
        if len(members) > 1:
            groups.append(members)
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))
