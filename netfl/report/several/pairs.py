"""Differences between two runs: by replica where they share a trace, else of their means."""

from __future__ import annotations

import math

import numpy as np

from netfl.report.view import RunData
from netfl.results.statistics import ConfidenceInterval, interval

_SAME = ["replica", "round", "user", "base", "sent_s", "arrived_s"]
"""The columns of deliveries that are the same in runs that share a trace."""


def shared_rounds(one: RunData, other: RunData) -> int:
    """How many rounds long two runs have one trace: the same seed, and in each round the same deliveries; else 0.

    Replicas that only one of them has do not count, nor do rounds.
    """
    if one.run.manifest.get("seed") != other.run.manifest.get("seed"):
        return 0
    replicas, rounds = set(one.replicas) & set(other.replicas), min(one.rounds, other.rounds)
    tables = []
    for view in (one, other):
        table = view.run.deliveries
        rows = table[table["replica"].isin(replicas) & (table["round"] <= rounds)]
        tables.append(rows[_SAME].sort_values(_SAME).to_numpy(float))
    first, second = tables
    return rounds if len(first) and np.array_equal(first, second) else 0


def difference(one: RunData, other: RunData, metric: str, learner: str, *, paired: bool) -> ConfidenceInterval:
    """A learner's final figure in *one* less that in *other*, with its 95 % interval.

    Args:
        one: the first run.
        other: the second.
        metric: which figure.
        learner: whose.
        paired: whether replicas of the same number are compared: Student's t of their differences, else Welch's t.
    """
    ends = [view.final(metric)[learner].dropna() for view in (one, other)]
    return interval((ends[0] - ends[1]).to_numpy()) if paired else welch(ends[0].to_numpy(), ends[1].to_numpy())


def welch(first: np.ndarray, second: np.ndarray) -> ConfidenceInterval:
    """The difference of two means with its 95 % interval by B. L. Welch (1947); NaN where one has a single value.

    >>> found = welch(np.array([3.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    >>> found.mean, round(found.half, 2)
    (2.0, 5.98)
    """
    from scipy.special import stdtrit

    fewest = min(first.size, second.size)
    if not fewest:
        return ConfidenceInterval(math.nan, math.nan, 0)
    gap = float(first.mean() - second.mean())
    if fewest == 1:
        return ConfidenceInterval(gap, math.nan, 1)
    parts = np.array([own.var(ddof=1) / own.size for own in (first, second)])
    whole = float(parts.sum())
    if not whole:
        return ConfidenceInterval(gap, 0.0, fewest)
    freedom = whole**2 / float((parts**2 / (np.array([first.size, second.size]) - 1)).sum())
    return ConfidenceInterval(gap, float(stdtrit(freedom, 0.975)) * math.sqrt(whole), fewest)
