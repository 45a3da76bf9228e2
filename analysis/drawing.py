"""Plots shared by several experiments: panels of learning curves in a row, with one legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from netfl.plots import learning, style
from netfl.results import aggregates

Panels = Mapping[str, tuple[pd.DataFrame, str]]
"""By title: a metrics table, and the metric of the panel, as ``accuracy`` or ``accuracy/class:9``."""


def curves(ax: Axes, metrics: pd.DataFrame, metric: str, learners: Sequence[str]) -> Axes:
    """Draw a metric such as ``accuracy/class:9`` of each learner over rounds, without a legend."""
    name, _, group = metric.partition("/")
    learning.curves(metrics, name, group=group, learners=learners, ax=ax)
    if (own := ax.get_legend()) is not None:
        own.remove()  # the figure has one for all panels
    return ax


def replica_curves(ax: Axes, metrics: pd.DataFrame, metric: str, learners: Sequence[str]) -> Axes:
    """Draw a metric of each learner over rounds: thin in each replica, and bold as the mean of all, without a legend.

    A metric that swings is drawn as the mean of its last evaluations.
    """
    name, _, group = metric.partition("/")
    window = aggregates.smoothing_window(metrics, name, group)

    def smoothed(table: pd.DataFrame) -> pd.DataFrame:
        return learning.in_units(aggregates.curve(table, name, group, smooth=window), 1.0, name)

    mean = smoothed(metrics)
    by_replica = [smoothed(table) for _, table in metrics.groupby("replica")]
    for learner, line in style.line_styles(learners).items():
        for curve in by_replica:
            rows = curve[curve["learner"] == learner]
            ax.plot(rows["at"], rows["mean"], color=line["color"], linewidth=0.7, alpha=0.5)
        rows = mean[mean["learner"] == learner]
        ax.plot(rows["at"], rows["mean"], **line)
    learning.format_metric_axis(ax, name, mean)
    ax.set_xlabel("round")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.margins(x=0.01)
    return ax


def name_lines(metrics: pd.DataFrame) -> str:
    """Return what the lines of `replica_curves` are; nothing for a single replica."""
    count = metrics["replica"].nunique()
    return f"{count} replicas (thin) and their mean (bold)" if count > 1 else ""


def row(figure: Figure, panels: Panels, learners: Sequence[str], *, sharey: bool = True, label: str = "") -> list[Axes]:
    """Draw panels side by side; the left one has the *label* of all, or each has its own if *label* is empty."""
    axes = list(figure.subplots(1, len(panels), squeeze=False)[0])
    for ax, (title, (metrics, metric)) in zip(axes, panels.items(), strict=True):
        curves(ax, metrics, metric, learners).set_title(title)
        if label:
            ax.set_ylabel(label if ax is axes[0] else "")
    if sharey:
        lows, highs = zip(*(ax.get_ylim() for ax in axes), strict=True)
        for ax in axes:
            ax.set_ylim(min(lows), max(highs))
            ax.tick_params(labelleft=ax is axes[0])
    legend(figure, learners)
    return axes


def legend(figure: Figure, learners: Sequence[str]) -> None:
    """Draw the legend of the learners below all panels."""
    learning.learner_legend(figure, learners, loc="outside lower center", ncols=min(len(learners), 6))
