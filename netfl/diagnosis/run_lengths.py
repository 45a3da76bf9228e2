"""How long users stay, and stay away: run lengths against the geometric law, which is that of a first-order chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_MANY = 100
"""With so many runs χ² is good enough; with fewer the p-value is found by simulation."""
_DRAWS = 199


@dataclass(frozen=True, slots=True)
class RunLengths:
    """Runs of rounds in which users are, and are not, heard, all ``[users]``; NaN where there are too few.

    Args:
        on: mean number of rounds in a row in which a user is heard.
        off: mean number of rounds in a row in which it is not.
        on_p: p-value of their lengths under the geometric law.
        off_p: the same of those in which it is not.
    """

    on: NDArray[np.float64]
    off: NDArray[np.float64]
    on_p: NDArray[np.float64]
    off_p: NDArray[np.float64]

    @property
    def p(self) -> float | None:
        """All users together, by `together`."""
        return combine_p_values(np.concatenate([self.on_p, self.off_p]))


def run_lengths(
    heard: NDArray[np.bool_], rng: np.random.Generator, tested: NDArray[np.int64] | None = None
) -> RunLengths:
    """Run lengths of all users; those that the recording cuts off at its ends do not count.

    Args:
        heard: participation, ``[rounds, users]``.
        rng: of the Monte-Carlo tests.
        tested: the users whose lengths are tested; by default all.
    """
    able = np.isin(np.arange(heard.shape[1]), tested) if tested is not None else np.ones(heard.shape[1], bool)
    found = np.full((4, heard.shape[1]), np.nan)
    for user in range(heard.shape[1]):
        edges = np.flatnonzero(np.diff(heard[:, user])) + 1
        lengths, first = np.diff(edges), len(edges) and heard[edges[0], user]
        for row, own in enumerate((lengths[0::2], lengths[1::2]) if first else (lengths[1::2], lengths[0::2])):
            if len(own):
                found[row, user] = own.mean()
                found[row + 2, user] = geometric_p(own, rng) if able[user] else np.nan
    return RunLengths(*found)


def geometric_p(lengths: NDArray[np.int64], rng: np.random.Generator) -> float:
    """The p-value of Pearson's χ² of *lengths* in cells of about even chance under the fitted geometric law."""
    if len(lengths) < 15 or lengths.max() == 1:
        return np.nan
    statistic, cells = _pearson(lengths[None])
    if cells[0] < 3:
        return np.nan
    if len(lengths) >= _MANY:
        return float(stats.chi2.sf(statistic[0], cells[0] - 2))
    again, _ = _pearson(rng.geometric(1 / lengths.mean(), (_DRAWS, len(lengths))))
    return float((1 + (again >= statistic[0] - 1e-9).sum()) / (_DRAWS + 1))


def combine_p_values(p: NDArray[np.float64]) -> float | None:
    """One p-value from many that may depend on each other: Cauchy's combination; ``None`` of none.

    Y. Liu and J. Xie, "Cauchy combination test", J. Am. Stat. Assoc. 115, 2020.
    """
    known = np.clip(p[np.isfinite(p)], 1e-15, 0.99)
    return float(stats.cauchy.sf(np.tan((0.5 - known) * np.pi).mean())) if known.size else None


def _pearson(lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pearson's χ² of each row of lengths, and how many cells it has."""
    number = lengths.shape[1]
    wanted = np.linspace(0, 1, int(np.clip(number // 5, 2, 8)) + 1)[1:-1]
    stay = np.log1p(-1 / np.maximum(lengths.mean(axis=1, keepdims=True), 1 + 1e-9))
    edges = np.maximum(1, np.ceil(np.log1p(-wanted) / stay))
    none, all_ = np.zeros((len(lengths), 1)), np.ones((len(lengths), 1))
    expected = number * np.diff(np.hstack([none, -np.expm1(edges * stay), all_]))
    below = (lengths[:, :, None] <= edges[:, None, :]).sum(axis=1)
    seen = np.diff(np.hstack([none, below, number * all_]))
    kept = expected > 1e-9
    squares = np.divide((seen - expected) ** 2, expected, out=np.zeros_like(expected), where=kept)
    return squares.sum(axis=1), kept.sum(axis=1)
