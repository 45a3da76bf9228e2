"""A sweep for its report: what varies, final values by point and learner, and the ranking of learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from netfl.errors import NetflError
from netfl.report.run_data import read_scenario_text
from netfl.results import formatting
from netfl.results.metrics import metrics_in
from netfl.results.statistics import ConfidenceInterval, interval, metric_of
from netfl.scenario.sweep_axes import short_names
from netfl.scenario.yaml_document import parse
from netfl.sweeps.results import Sweep

FAMILY_LEVEL = 0.05
"""Probability that any of a family of comparisons misleads."""

MIN_DEVIATION = 1e-9
"""Differences by replica with a smaller standard deviation say nothing about chance."""


class SweepData:
    """A sweep for its report.

    Args:
        sweep: the sweep, done or not.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep

    @cached_property
    def scenario_text(self) -> str:
        """The scenario file; empty without one."""
        return read_scenario_text(self.sweep.folder)

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario as plain data; empty if it is not readable."""
        try:
            return dict(parse(self.scenario_text, "scenario.yaml") or {})
        except NetflError:
            return {}

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return str(self.scenario.get("name") or self.sweep.folder.name)

    @cached_property
    def replicas(self) -> int:
        """Number of replicas of a complete point."""
        return max(int(self.sweep.lanes["replica"].nunique()), int(self.scenario.get("replicas") or 1))

    @cached_property
    def varied(self) -> list[str]:
        """Axes with more than one value."""
        return [axis for axis in self.sweep.axes if self.sweep.points[axis].nunique() > 1]

    @property
    def random_axes(self) -> list[str]:
        """Varied axes whose values are random, or chosen by a search."""
        return self._sections["random"]

    @property
    def zipped(self) -> list[str]:
        """Varied axes that vary together, the first of which represents all."""
        return self._sections["zip"]

    @property
    def free(self) -> list[str]:
        """Axes that vary independently."""
        return [axis for axis in self.varied if axis not in {*self.zipped[1:], *self.random_axes}]

    @cached_property
    def _sections(self) -> dict[str, list[str]]:
        """Varied axes of the sections grid, zip and random of the sweep."""
        spec = self.scenario.get("sweep") or {}
        random = spec.get("parameters")  # of a search
        if not random:
            random = (spec.get("random") or {}).get("parameters")
        sections = {"grid": spec.get("grid") or (), "zip": spec.get("zip") or (), "random": random or ()}
        names = short_names([path for paths in sections.values() for path in paths])
        varied = {}
        for section, paths in sections.items():
            varied[section] = [names[path] for path in paths if names[path] in self.varied]
        return varied

    @cached_property
    def metrics(self) -> list[str]:
        """Metrics of learning that were evaluated."""
        known = {*self.sweep.summary["metric"].map(metric_of)}
        return [metric for metric in metrics_in("sweep", is_learned=True) if metric in known]

    @cached_property
    def network_metrics(self) -> list[str]:
        """Metrics of the network that were evaluated."""
        rows = self.sweep.summary[self.sweep.summary["mean"].notna()]
        known = {*rows.loc[rows["learner"] == "", "metric"]}
        return [metric for metric in metrics_in("sweep", is_learned=False) if metric in known]

    @property
    def shown_metrics(self) -> list[str]:
        """Metrics that are shown: of learning, or else of the network, then those that plug-ins report."""
        summary = self.sweep.summary
        with_values = {*summary.loc[summary["mean"].notna(), "metric"].map(metric_of)}
        reported = [metric.name for metric in self.sweep.reported if metric.name in with_values]
        return [*(self.metrics or self.network_metrics), *reported]

    @cached_property
    def learners(self) -> list[str]:
        """Names of the learners, in the order of the scenario."""
        return [name for name in self.sweep.summary["learner"].unique().tolist() if name]

    @property
    def choices(self) -> set[str]:
        """Names of choices among learners, which are not ranked."""
        return {*((self.scenario.get("evaluate") or {}).get("choose") or ())}

    def summary_of(self, metric: str) -> pd.DataFrame:
        """Return the rows of the summary with a value of *metric*, a metric of the network or of learners."""
        rows = self.sweep.summary
        return rows[(rows["metric"].map(metric_of) == metric) & rows["mean"].notna()].assign(metric=metric)

    def intervals(self, metric: str) -> dict[tuple[int, str], ConfidenceInterval]:
        """Return the mean and interval of *metric* by point and learner."""
        rows = self.summary_of(metric)
        columns = (rows[name].tolist() for name in ("point", "learner", "mean", "half", "replicas"))
        intervals = {}
        for point, learner, mean, half, replicas in zip(*columns, strict=True):
            intervals[point, learner] = ConfidenceInterval(mean, half, replicas)
        return intervals

    def describe_point(self, axes: Sequence[str], point: int) -> str:
        """Return the values of some *axes* at a point in words."""
        row = self.sweep.points.loc[point]
        values = [f"{axis} = {formatting.format_setting(row[axis])}" for axis in axes]
        if not values:
            return ""
        return formatting.join_words(values)


@dataclass(frozen=True, eq=False)
class RankedPoint:
    """One learner with one setting; points that are equal for it count once.

    Args:
        name: the learner, and the values of the axes that matter to it.
        learner: the learner.
        points: numbers of the points.
        values: the value in each finished replica; NaN if training diverged.
    """

    name: str
    learner: str
    points: tuple[int, ...]
    values: pd.Series[float]

    @cached_property
    def mean(self) -> ConfidenceInterval:
        """Mean over replicas."""
        return interval(self.values)


@dataclass(frozen=True)
class PointRanking:
    """Ranking of learners and settings by one metric.

    Args:
        metric: name of the metric.
        complete: those with all replicas, the best first.
        incomplete: those with missing or diverged replicas.
    """

    metric: str
    complete: tuple[RankedPoint, ...]
    incomplete: tuple[RankedPoint, ...]

    @property
    def lead(self) -> ConfidenceInterval:
        """Difference of the best two by replica."""
        if len(self.complete) < 2:
            return interval([])
        best, second = self.complete[:2]
        return interval(paired_lead(best, second))

    @property
    def ties(self) -> tuple[RankedPoint, ...]:
        """Entries that end like the best."""
        best, *others = self.complete
        ties = []
        for other in others:
            lead = interval(paired_lead(best, other))
            if formatting.end_alike(best.mean.mean, other.mean.mean, lead):
                ties.append(other)
        return tuple(ties)

    @property
    def significantly_worse(self) -> int:
        """Number of entries below the best beyond chance, over all comparisons together (C. E. Bonferroni)."""
        best, *others = self.complete
        return sum(is_significant(paired_lead(best, other), FAMILY_LEVEL / len(others)) for other in others)


def rank_points(data: SweepData, metric: str) -> PointRanking:
    """Rank all learners and settings by *metric*, the largest first."""
    entries = [entry for entry in ranking_entries(data, metric) if entry.learner not in data.choices]
    replicas = max((entry.mean.replicas for entry in entries), default=0)
    complete = [entry for entry in entries if entry.mean.replicas == replicas and entry.values.notna().all()]
    incomplete = [entry for entry in entries if entry not in complete]
    return PointRanking(metric, tuple(sorted(complete, key=lambda entry: -entry.mean.mean)), tuple(incomplete))


def ranking_entries(data: SweepData, metric: str) -> list[RankedPoint]:
    """Return each learner with each setting that has *metric*, in the order of the points."""
    finals = data.sweep.final_metrics
    finals = finals[(finals["metric"].map(metric_of) == metric) & (finals["learner"] != "")]
    by_lane = finals.groupby(["point", "learner"], sort=False)
    values_of = {key: rows.set_index("replica")["value"] for key, rows in by_lane}
    points_of: dict[tuple[object, ...], list[int]] = {}  # points that share the lanes of a learner are equal for it
    for (point, learner), rows in data.sweep.lanes.groupby(["point", "learner"], sort=False):
        if (point, learner) in values_of:
            lanes = sorted(zip(rows["replica"], rows["task"], rows["lane"], strict=True))
            points_of.setdefault((learner, *lanes), []).append(int(rows["point"].iloc[0]))
    entries = []
    for (learner, *_), points in points_of.items():
        table = data.sweep.points.loc[points]
        axes = [axis for axis in (*data.free, *data.random_axes) if table[axis].nunique() == 1]
        setting = data.describe_point(axes, points[0])
        name = str(learner)
        if setting:
            name = f"{learner} at {setting}"
        entries.append(RankedPoint(name, str(learner), tuple(points), values_of[points[0], learner]))
    return entries


def paired_lead(first: RankedPoint, second: RankedPoint) -> np.ndarray:
    """Return the lead of *first* over *second* in each replica that both have."""
    return (first.values - second.values).dropna().to_numpy()


def is_significant(differences: np.ndarray, level: float) -> bool:
    """Return whether differences by replica are above zero beyond chance: Student's t at *level*, two-sided.

    >>> is_significant(np.array([1.0, 1.1, 0.9]), 0.05), is_significant(np.array([1.0, -0.5]), 0.05)
    (True, False)
    >>> is_significant(np.array([1.0, 1.0]), 0.05)
    False
    """
    from scipy.stats import ttest_1samp

    # accuracies come in steps, so replicas may agree by accident
    if differences.size < 2 or differences.std() < MIN_DEVIATION:
        return False
    return bool(ttest_1samp(differences, 0.0, alternative="greater").pvalue < level / 2)
