"""Dependence between users within a round: who is heard together with whom, beyond what rates and room explain.

Rounds of a limited size make users exclude each other; that is no dependence worth the name.  Given the round sizes,
independent users would be heard together as in conditional Poisson sampling, whose covariances are ``-c_i c_j`` to
first order, with ``c_i Σ_{j≠i} c_j = π_i (1 - π_i)`` where all rounds are of one size (J. Hájek, "Asymptotic theory of
rejective sampling", Ann. Math. Statist. 35, 1964; J.-C. Deville and Y. Tillé, "Variance approximation under balanced
sampling", J. Stat. Plan. Inference 128, 2005), and in proportion less where sizes vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEAST = 0.03
"""A root-mean-square correlation below this is no dependence, however sure; for few users in rounds of fixed size,
where the formula above is coarse, four over their number squared is added."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Whether users are heard together more, or less, than their rates and the rounds' sizes explain.

    Args:
        p: the p-value; ``None`` where it cannot be asked, as with one user in each round.
        spread: variance of the round sizes over that of independent users.
        correlation: root of the mean squared correlation between users, less what chance gives.
        groups: users that are heard together, in groups of two or more, the largest first.
        why_not: why it cannot be asked.
    """

    p: float | None
    spread: float
    correlation: float
    groups: tuple[tuple[int, ...], ...]
    why_not: str = ""


def find_dependence(heard: NDArray[np.bool_], eigenvalue: NDArray[np.float64]) -> Dependence:
    """Test participation for dependence within rounds.

    Args:
        heard: participation, ``[rounds, users]``.
        eigenvalue: by what factor each user's presence forgets in a round, which widens what chance may do.
    """
    counts = heard.sum(axis=0)
    able = np.flatnonzero((counts >= 5) & (counts <= len(heard) - 5))
    sizes = heard.sum(axis=1)
    spread = _spread(heard, sizes)
    if sizes.max(initial=0) <= 1:
        return Dependence(None, spread, 0.0, (), "one user a round")
    if len(able) < 2:
        return Dependence(None, spread, 0.0, (), "nobody comes and goes")
    x = heard[:, able].astype(np.float32)
    memory = np.nan_to_num(eigenvalue[able])
    inflation = np.outer(memory, memory)
    inflation = np.maximum((1 + inflation) / np.maximum(1 - inflation, 1e-3), 0.1)
    z, together = _standardised(x, spread, inflation)
    upper = np.triu_indices(len(able), 1)
    squares, expected = z[upper] ** 2, together[upper]
    mean, variance = len(squares), float((2 + 1 / np.maximum(expected, 1e-9)).sum())
    excess = float(squares.sum() - mean)
    correlation = np.sqrt(max(0.0, excess / mean) / len(heard))
    p_pairs = float(stats.gamma.sf(squares.sum(), mean**2 / variance, scale=variance / mean))
    least = LEAST + 4 * max(0.0, 1 - spread) / len(able) ** 2
    p_sizes = _overspread(heard, sizes, inflation, able)
    p = min(1.0, 2 * min(p_pairs if correlation >= least else 1.0, p_sizes))
    return Dependence(p, spread, float(correlation), _groups(z, expected, able))


def _spread(heard: NDArray[np.bool_], sizes: NDArray[np.int64]) -> float:
    """Variance of round sizes over Σ p (1 - p)."""
    rates = heard.mean(axis=0)
    alone = float((rates * (1 - rates)).sum())
    return float(sizes.var() / alone) if alone else 0.0


def _standardised(
    x: NDArray[np.float32], spread: float, inflation: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Differences of pair counts from those expected, in standard deviations; and the counts expected."""
    chances = x.mean(axis=0, dtype=float)
    d = chances * (1 - chances)
    share = _exclusion(d * max(0.0, 1.0 - spread))
    expected = len(x) * (np.outer(chances, chances) - np.outer(share, share))
    seen = (x.T @ x).astype(float)
    z = (seen - expected) / np.sqrt(len(x) * np.outer(d, d) * inflation)
    return z, np.maximum(expected, 0.0)


def _exclusion(room: NDArray[np.float64]) -> NDArray[np.float64]:
    """The c with ``c_i Σ_{j≠i} c_j = room_i``: by how much users take each other's room, ``-c_i c_j`` a pair."""
    share = room / np.sqrt(max(float(room.sum()), 1e-12))
    for _ in range(200):
        share = np.sqrt(share * room / np.maximum(share.sum() - share, 1e-12))  # half a step, which does not swing
    return np.asarray(share)


def _overspread(
    heard: NDArray[np.bool_], sizes: NDArray[np.int64], inflation: NDArray[np.float64], able: NDArray[np.int64]
) -> float:
    """The p-value of round sizes that vary more than those of independent users."""
    rates = heard.mean(axis=0)
    d = rates * (1 - rates)
    alone = float(d.sum())
    fourth = float((d * (1 - 6 * d)).sum())  # the sum of the users' fourth cumulants
    widest = float((np.outer(d[able], d[able]) * inflation).sum() / np.outer(d[able], d[able]).sum())
    spread = np.sqrt(max(fourth + 2 * alone**2, 1e-12) * widest / len(heard))
    return float(stats.norm.sf((sizes.var() - 1.03 * alone) / spread))


def _groups(
    z: NDArray[np.float64], expected: NDArray[np.float64], able: NDArray[np.int64]
) -> tuple[tuple[int, ...], ...]:
    """Users linked by pairs that are heard together far too often, by Bonferroni over pairs at 0.1 %."""
    from scipy.sparse.csgraph import connected_components

    bound = stats.norm.isf(1e-3 / max(1, len(expected)))
    linked = np.triu(z > bound, 1)
    number, label = connected_components(linked, directed=False)
    groups = [tuple(able[label == one].tolist()) for one in range(number)]
    return tuple(sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group)))
