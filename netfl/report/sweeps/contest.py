"""Who ended best, where, and whether chance alone could have put another first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netfl.results.statistics import ConfidenceInterval, interval

if TYPE_CHECKING:
    from netfl.report.sweeps.view import SweepData

LEVEL = 0.05
"""The probability that any of a family of comparisons misleads."""

ALIKE = 1e-9
"""Differences by replica that vary by less tell nothing of chance."""


@dataclass(frozen=True, eq=False)
class RankedPoint:
    """One learner with one setting: points that are the same to it count once.

    Args:
        name: the learner, and the values of the axes that matter to it.
        learner: who.
        points: where, by number.
        values: the figure of each replica that is there; NaN where training diverged.
    """

    name: str
    learner: str
    points: tuple[int, ...]
    values: pd.Series[float]

    @cached_property
    def mean(self) -> ConfidenceInterval:
        """Its mean over replicas."""
        return interval(self.values)


@dataclass(frozen=True)
class PointRanking:
    """Entries by their means on one figure.

    Args:
        whole: those that have all replicas, from the best.
        others: those of which replicas are missing, or diverged.
    """

    whole: tuple[RankedPoint, ...]
    others: tuple[RankedPoint, ...]

    @property
    def gap(self) -> ConfidenceInterval:
        """The difference of the best two, by replica."""
        return interval(paired_lead(self.whole[0], self.whole[1])) if len(self.whole) > 1 else interval([])

    @property
    def behind(self) -> int:
        """How many are below the best beyond chance, all of these comparisons taken together (C. E. Bonferroni)."""
        best, *rest = self.whole
        return sum(is_significant(paired_lead(best, one), LEVEL / len(rest)) for one in rest)

    def of(self, learner: str) -> list[RankedPoint]:
        """The entries of one learner, from the best."""
        return [one for one in self.whole if one.learner == learner]


def rank_learners(view: SweepData, figure: str) -> PointRanking:
    """All learners on *figure*, where the most is best."""
    found = [one for one in ranking_entries(view, figure) if one.learner not in view.choices]
    most = max((one.mean.replicas for one in found), default=0)
    whole = [one for one in found if one.mean.replicas == most and one.values.notna().all()]
    others = [one for one in found if one not in whole]
    return PointRanking(tuple(sorted(whole, key=lambda one: -one.mean.mean)), tuple(others))


def ranking_entries(view: SweepData, figure: str) -> list[RankedPoint]:
    """Each learner with each setting that has *figure*, in the order of the points."""
    values = view.values(figure)
    values = values[values["learner"] != ""]
    own = {key: part.set_index("replica")["value"] for key, part in values.groupby(["point", "learner"], sort=False)}
    alike: dict[tuple[object, ...], list[int]] = {}
    for key, rows in view.sweep.lanes.groupby(["point", "learner"], sort=False):
        if key in own:
            cells = zip(rows["replica"], rows["task"], rows["lane"], strict=True)
            alike.setdefault((rows["learner"].iloc[0], *sorted(cells)), []).append(int(rows["point"].iloc[0]))
    found = []
    for (learner, *_), points in alike.items():
        table = view.sweep.points.loc[points]
        axes = [axis for axis in (*view.free, *view.drawn) if table[axis].nunique() == 1]
        where = view.place(axes, points[0])
        name = f"{learner} at {where}" if where else str(learner)
        found.append(RankedPoint(name, str(learner), tuple(points), own[points[0], learner]))
    return found


def paired_lead(one: RankedPoint, other: RankedPoint) -> np.ndarray:
    """How far *one* is above *other* in each replica that both have."""
    return (one.values - other.values).dropna().to_numpy()


def is_significant(differences: np.ndarray, level: float) -> bool:
    """Whether differences by replica are above zero beyond chance: Student's t at *level*, two-sided.

    >>> is_significant(np.array([1.0, 1.1, 0.9]), 0.05), is_significant(np.array([1.0, -0.5]), 0.05)
    (True, False)
    >>> is_significant(np.array([1.0, 1.0]), 0.05)
    False
    """
    from scipy.special import stdtrit

    size = differences.size
    if size < 2 or differences.std() < ALIKE:  # as accuracies come in steps, replicas may happen to differ by as much
        return False
    factor = float(stdtrit(size - 1, 1.0 - level / 2)) / math.sqrt(size)
    return bool(differences.mean() > factor * differences.std(ddof=1))
