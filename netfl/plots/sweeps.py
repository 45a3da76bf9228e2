"""Pictures of sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from netfl.report import plots_learning
from netfl.report.sweeps import plots


def sweep_lines(
    summary: pd.DataFrame,
    figure: str,
    x: str,
    *,
    where: Mapping[str, Any] | None = None,
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A figure of each learner along one axis of a sweep, the mean over replicas with its 95 % t-interval.

    Numbers stand to scale, logarithmic where they span two decades or more; all else side by side.

    Args:
        summary: `Sweep.summary`.
        figure: which figure, such as ``jain``, or a metric of learners, such as ``accuracy``, whose final value is
            drawn: the mean of the last 10 % of rounds.  Accuracies are drawn in percent.
        x: the axis, as `Sweep.axes` calls it.
        where: the values of other axes, of which each point of the picture takes one.
        learners: whose, in the order of their colours.
        ax: where to draw.

    Raises:
        ValueError: there is no such figure, axis, value or learner, or another axis takes several values.
    """
    rows = plots.select_rows(summary, figure, [x], where or {})
    shown = plots.select_learners(rows, learners)
    ax = plots.lines(rows[rows["learner"].isin(shown)], figure, x, learners=shown, ax=ax)
    if any(shown):
        plots_learning.learner_legend(ax, shown)
    return ax


def sweep_heat(
    summary: pd.DataFrame,
    figure: str,
    x: str,
    y: str,
    *,
    learner: str | None = None,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A figure of one learner over two axes of a sweep, as a heat map with the mean over replicas in each cell.

    Args:
        summary: `Sweep.summary`.
        figure: which figure, as in `sweep_lines`.
        x: the axis across.
        y: the axis up.
        learner: whose; it must be said where several have the figure.
        where: the values of other axes.
        ax: where to draw.

    Raises:
        ValueError: there is no such figure, axis, value or learner, or another axis, or the learner, is not chosen.
    """
    rows = plots.select_rows(summary, figure, [x, y], where or {})
    shown = plots.select_learners(rows, None if learner is None else [learner])
    if len(shown) > 1:
        raise ValueError(f"{', '.join(shown)} have the figure; choose one, such as learner={shown[0]!r}")
    return plots.plot_heatmap(rows[rows["learner"] == shown[0]], figure, x, y, ax=ax)
