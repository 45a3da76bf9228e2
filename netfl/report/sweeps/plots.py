"""Pictures of a sweep's summary: a figure along one axis, and over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from netfl.errors import suggest
from netfl.report import canvas, plots_learning
from netfl.results import formatting
from netfl.results.statistics import metric_of

OWN = ("point", "learner", "figure", "mean", "half", "replicas")
"""The columns of a summary that are no axes."""
CELLS = 120
"""A heat map of more cells has no numbers in them."""
_DECADES = 100.0
"""An axis whose largest value is so many times its smallest, or more, is logarithmic."""


def select_rows(summary: pd.DataFrame, figure: str, axes: Sequence[str], where: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of *figure* for one picture, in which nothing varies but *axes* and the learner.

    Args:
        summary: of a sweep.
        figure: which figure; of learners the metric will do.
        axes: those that the picture shows.
        where: the values of others.

    Raises:
        ValueError: there is no such figure, axis or value, or another axis takes several values.
    """
    known = [name for name in summary.columns if name not in OWN]
    for name in (*axes, *where):
        if name not in known:
            raise ValueError(f"'{name}' is no axis of the sweep; {suggest(name, known)}")
    rows = summary[(summary["figure"] == figure) | (summary["figure"].map(metric_of) == figure)]
    if rows.empty:
        raise ValueError(f"there is no figure '{figure}'; {suggest(figure, summary['figure'].unique().tolist())}")
    for axis, value in where.items():
        there = rows[axis].unique().tolist()
        rows = rows[rows[axis] == value]
        if rows.empty:
            raise ValueError(f"no point has {axis} = {value!r}; it takes {', '.join(map(repr, there))}")
    if rows.duplicated([*axes, "learner"]).any():
        more = [axis for axis in known if axis not in axes and rows[axis].nunique() > 1]
        wanted = {axis: rows[axis].tolist()[0] for axis in more} | dict(where)
        verb = "takes" if len(more) == 1 else "take"
        raise ValueError(f"{' and '.join(more)} {verb} several values; choose one of each, such as where={wanted!r}")
    return rows


def select_learners(rows: pd.DataFrame, learners: Sequence[str] | None) -> list[str]:
    """The learners to draw: those asked for, or all that have the figure.

    Raises:
        ValueError: one of them has not.
    """
    there = rows["learner"].unique().tolist()
    for learner in learners or ():
        if learner not in there:
            raise ValueError(f"'{learner}' has no such figure; {suggest(learner, there)}")
    return there if learners is None else [*learners]


def lines(
    rows: pd.DataFrame,
    figure: str,
    x: str,
    *,
    learners: Sequence[str],
    joined: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A figure of each learner along an axis: means over replicas with 95 % intervals.

    Numbers stand to scale, logarithmic where they span two decades or more, joined by lines with bands; all else
    side by side, with bars.

    Args:
        rows: of a summary, of one figure.
        figure: which.
        x: the axis.
        learners: in the order of their colours; the network's own figures have the one learner ``""``.
        joined: whether a line joins what is numbers; if not, bars are drawn, too.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    scale = si_scale(rows, figure)[0]
    numbers = numeric(rows[x])
    values = rows[x].drop_duplicates().tolist()
    for at, (learner, stroke) in enumerate(canvas.line_styles(learners).items()):
        own = rows[rows["learner"] == learner]
        own = own.sort_values(x) if numbers else own
        places = own[x].to_numpy(float) if numbers else np.array([values.index(value) for value in own[x]], float)
        mean, half = own["mean"].to_numpy() / scale, own["half"].to_numpy() / scale
        if numbers and joined:
            pale = min(0.18, 0.6 / len(learners))
            ax.fill_between(places, mean - half, mean + half, color=stroke["color"], alpha=pale, lw=0)
            ax.plot(places, mean, marker="o", markersize=4, **stroke)
        else:
            aside = 0.0 if numbers else (at - (len(learners) - 1) / 2) * min(0.16, 0.7 / len(learners))
            bars = stroke | {"linestyle": "none", "elinewidth": 1.2, "capsize": 2.5}
            ax.errorbar(places + aside, mean, half, marker="o", markersize=4.5, **bars)
    if numbers and rows[x].min() > 0 and rows[x].max() >= _DECADES * rows[x].min() * (1 - 1e-9):
        canvas.logarithmic(ax, "x")
    elif not numbers:
        ax.set_xticks(range(len(values)), labels=[formatting.format_setting(value) for value in values])
        ax.set_xlim(-0.5, len(values) - 0.5)
    format_metric_axis(ax, rows, figure)
    ax.set_xlabel(x)
    return ax


def plot_heatmap(
    rows: pd.DataFrame,
    figure: str,
    x: str,
    y: str,
    *,
    span: tuple[float, float] | None = None,
    bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A figure over two axes, with its mean in each cell; cells of points that are not there are empty.

    Args:
        rows: of a summary, of one figure and learner.
        figure: which.
        x: the axis across.
        y: the axis up.
        span: the figures at the ends of the colours; by default from `reach`.
        bar: whether the colours are explained beside it.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    scale, label = si_scale(rows, figure)
    table = rows.pivot(index=y, columns=x, values="mean") / scale
    across, up = (sorted_values(rows[name]) for name in (x, y))
    table = table.reindex(index=up[::-1], columns=across)
    low, high = span or value_range(rows)
    sns.heatmap(
        table,
        ax=ax,
        annot=table.size <= CELLS,
        fmt=".1f" if scale == 0.01 else ".4g",
        vmin=low / scale,
        vmax=(high if high > low else low + scale) / scale,
        cmap="cividis",
        linewidths=1.5 if table.size <= CELLS else 0.0,
        linecolor=canvas.PAPER,
        cbar=bar,
        cbar_kws={"label": label, "pad": 0.02} if bar else None,
    )
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.set_xticks(
        np.arange(len(across)) + 0.5, labels=[formatting.format_setting(value) for value in across], rotation=0
    )
    ax.set_yticks(np.arange(len(up)) + 0.5, labels=[formatting.format_setting(value) for value in up[::-1]], rotation=0)
    ax.set(xlabel=x, ylabel=y)
    return ax


def numeric(values: pd.Series[Any]) -> bool:
    """Whether the values of an axis are numbers, to stand to scale."""
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def sorted_values(values: pd.Series[Any]) -> list[Any]:
    """The values of an axis, numbers by size, all else as the sweep has them."""
    found = values.drop_duplicates().tolist()
    return sorted(found) if numeric(values) else found


def value_range(rows: pd.DataFrame) -> tuple[float, float]:
    """The least and the largest of the means."""
    return float(rows["mean"].min()), float(rows["mean"].max())


def si_scale(rows: pd.DataFrame, figure: str) -> tuple[float, str]:
    """What a figure's unit is in SI units, and what stands beside its axis."""
    metric = metric_of(figure)
    if (rows["learner"] != "").any():
        share = metric in formatting.SHARES
        return (0.01, f"{plots_learning.label(metric)} (%)") if share else (1.0, plots_learning.label(metric))
    middle = rows["mean"].abs().median()
    scale, unit = formatting.unit_of(figure, 0.0 if np.isnan(middle) else float(middle))
    return scale, f"{formatting.metric_label(figure)} ({unit})" if unit else formatting.metric_label(figure)


def format_metric_axis(ax: Axes, rows: pd.DataFrame, figure: str) -> None:
    """Name the axis of figures, and keep shares within 0 and 100 %."""
    scale, label = si_scale(rows, figure)
    plots_learning.limits(ax, metric_of(figure), rows, 1.0 / scale)
    ax.set_ylabel(label)
