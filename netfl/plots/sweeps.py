"""Plots of sweeps: a metric along one axis, and over two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from netfl.errors import suggest
from netfl.plots import style
from netfl.plots.learning import format_metric_axis, interval_points, learner_legend
from netfl.results import formatting
from netfl.results.statistics import metric_of
from netfl.units import Quantities, read_quantities

_SUMMARY_COLUMNS = ("point", "learner", "metric", "mean", "half", "replicas")
"""Columns of a summary that are not axes."""
MAX_CELLS = 120
"""Heat maps of more cells have no numbers in them."""
_PERCENT = 0.01
"""Unit of shares."""
_LOG_RATIO = 100.0
"""An axis is logarithmic from this ratio of its largest to its smallest value on."""


def sweep_lines(
    summary: pd.DataFrame,
    metric: str,
    x: str,
    *,
    where: Mapping[str, Any] | None = None,
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of each learner along one axis of a sweep, the mean over replicas with its 95 % t-interval.

    An axis of numbers, or of quantities such as ``20 ms``, is to scale, logarithmic from two decades on; other values
    are placed side by side.

    Args:
        summary: `Sweep.summary`.
        metric: name of the metric, such as ``jain``, or a metric of learners, such as ``accuracy``, whose final value
            is drawn: the mean of the last 10 % of rounds.  Accuracies are drawn in percent.
        x: the axis, as in `Sweep.axes`.
        where: one value for each of the other axes.
        learners: the learners, in the order of their colours.
        ax: axes to draw on.

    Raises:
        ValueError: there is no such metric, axis, value or learner, or another axis takes several values.
    """
    rows = _select_rows(summary, metric, [x], where or {})
    learners = _select_learners(rows, learners)
    ax = axis_lines(rows[rows["learner"].isin(learners)], metric, x, learners=learners, ax=ax)
    if any(learners):
        learner_legend(ax, learners)
    return ax


def axis_lines(
    rows: pd.DataFrame,
    metric: str,
    x: str,
    *,
    learners: Sequence[str],
    panels: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of each learner along an axis, from rows of a summary that vary in nothing else.

    Numbers are joined by lines with bands, other values have error bars.  Metrics of the network have the one learner
    ``""``.  *panels* are the rows of all panels that share the axes, and thus their units; by default *rows*.
    """
    if panels is None:
        panels = rows
    if not is_numeric(panels[x]):
        return axis_points(rows, metric, x, learners=learners, panels=panels, ax=ax)
    ax = style.new_axes(ax)
    for line, curve in _learner_points(rows, metric, x, learners, panels):
        style.mean_curve(ax, curve, {"marker": "o", "markersize": 4, **line}, len(learners))
    _scale_axes(ax, panels, metric, x)
    return ax


def axis_points(
    rows: pd.DataFrame,
    metric: str,
    x: str,
    *,
    learners: Sequence[str],
    panels: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what `axis_lines` draws, each point on its own with an error bar."""
    if panels is None:
        panels = rows
    ax = style.new_axes(ax)
    apart = 0.0
    if learners and not is_numeric(panels[x]):  # the learners stand beside each other at each value
        apart = min(0.16, 0.7 / len(learners))
    for index, (line, curve) in enumerate(_learner_points(rows, metric, x, learners, panels)):
        bars = line | {"linestyle": "none", "elinewidth": 1.2, "capsize": 2.5, "marker": "o", "markersize": 4.5}
        offset = (index - (len(learners) - 1) / 2) * apart
        style.error_bars(ax, curve.assign(at=curve["at"] + offset), bars)
    _scale_axes(ax, panels, metric, x)
    return ax


def _learner_points(
    rows: pd.DataFrame, metric: str, x: str, learners: Sequence[str], panels: pd.DataFrame
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the line style of each learner, with its points: those of `learning.interval_points`."""
    scale, _ = si_scale(panels, metric)
    values = sorted_values(panels[x])
    quantities = axis_quantities(values)
    if quantities is None:  # names stand side by side
        position_of = {value: float(index) for index, value in enumerate(values)}
    else:
        position_of = dict(zip(values, quantities.numbers, strict=True))
    for learner, line in style.line_styles(learners).items():
        points = rows[rows["learner"] == learner]
        at = points[x].map(position_of).astype(float)
        yield line, interval_points(points, at, points["mean"], metric_of(metric), scale).sort_values("at")


def _scale_axes(ax: Axes, panels: pd.DataFrame, metric: str, x: str) -> None:
    values = sorted_values(panels[x])
    quantities = axis_quantities(values)
    label = x
    if quantities is None:
        ax.set_xticks(range(len(values)), labels=[formatting.format_setting(value) for value in values])
        ax.set_xlim(-0.5, len(values) - 0.5)
    else:
        if quantities.unit:
            label = f"{x} ({quantities.unit})"
        low = quantities.numbers[0]  # `values` are sorted
        high = quantities.numbers[-1]
        if low > 0 and high >= _LOG_RATIO * low * (1 - 1e-9):  # two decades, within rounding
            style.set_logarithmic(ax, "x")
    format_value_axis(ax, panels, metric)
    ax.set_xlabel(label)


def sweep_heat(
    summary: pd.DataFrame,
    metric: str,
    x: str,
    y: str,
    *,
    learner: str | None = None,
    where: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of one learner over two axes of a sweep, as a heat map of means over replicas.

    Args:
        summary: `Sweep.summary`.
        metric: name of the metric, as in `sweep_lines`.
        x: the horizontal axis.
        y: the vertical axis.
        learner: needed if several have the metric.
        where: one value for each of the other axes.
        ax: axes to draw on.

    Raises:
        ValueError: there is no such metric, axis, value or learner, or another axis, or the learner, is not chosen.
    """
    rows = _select_rows(summary, metric, [x, y], where or {})
    learners = _select_learners(rows, None if learner is None else [learner])
    if len(learners) > 1:
        raise ValueError(f"{', '.join(learners)} have the metric; choose one, such as learner={learners[0]!r}")
    rows = rows[rows["learner"] == learners[0]]
    ax = axis_heat(rows, metric, (x, y), ax=ax)
    _, label = si_scale(rows, metric)
    ax.figure.colorbar(ax.collections[0], ax=ax, label=label, pad=0.02)
    return ax


def axis_heat(
    rows: pd.DataFrame,
    metric: str,
    axes: tuple[str, str],
    *,
    limits: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric over two axes, from rows of a summary that vary in nothing else; missing points are empty.

    *limits* are the values at the ends of the colour map, by default the smallest and the largest.
    """
    ax = style.new_axes(ax)
    x, y = axes
    scale, _ = si_scale(rows, metric)
    columns = sorted_values(rows[x])
    lines = sorted_values(rows[y])[::-1]  # the largest on top
    table = rows.pivot(index=y, columns=x, values="mean") / scale
    table = table.reindex(index=lines, columns=columns)
    low, high = limits or mean_limits(rows)
    if high <= low:  # a single value, which the colour map needs to begin with
        high = low + scale
    number_format = ".1f" if scale == _PERCENT else ".4g"
    options = {"fmt": number_format, "vmin": low / scale, "vmax": high / scale}
    style.heat_map(table, ax=ax, max_cells=MAX_CELLS, cbar=False, **options)
    ax.set_xticks(np.arange(len(columns)) + 0.5, labels=list(map(formatting.format_setting, columns)), rotation=0)
    ax.set_yticks(np.arange(len(lines)) + 0.5, labels=list(map(formatting.format_setting, lines)), rotation=0)
    ax.set(xlabel=x, ylabel=y)
    return ax


def search_progress(trials: pd.DataFrame, metric: str, *, direction: str = "maximize", ax: Axes | None = None) -> Axes:
    """Draw the value of each trial of a search, and the best value up to each trial as a line.

    Args:
        trials: `Sweep.trials`.  Pruned trials have their last value before the end, and are drawn lighter.
        metric: name of the metric, for the label.  Accuracies are drawn in percent.
        direction: ``maximize`` or ``minimize``.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    scale, label = _trial_scale(trials, metric)
    line = style.line_styles([metric])[metric]
    for status, alpha in (("pruned", 0.35), ("done", 1.0)):
        rows = trials[trials["status"] == status]
        values = rows["value"] / scale
        ax.plot(rows["trial"], values, linestyle="none", marker="o", markersize=4.5, color=line["color"], alpha=alpha)
    done = trials[trials["status"] == "done"]
    best = done["value"].cummax() if direction == "maximize" else done["value"].cummin()
    ax.step(done["trial"], best / scale, where="post", color=line["color"])
    ax.set(xlabel="trial", ylabel=label)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _trial_scale(trials: pd.DataFrame, metric: str) -> tuple[float, str]:
    """Return the unit of the values of trials in SI units, and the label of its axis."""
    name = metric_of(metric)
    if formatting.is_learned(name):
        return _learning_scale(name)
    return _network_scale(name, trials["value"])


def axis_quantities(values: Sequence[Any]) -> Quantities | None:
    """Return the values of an axis as numbers, those of quantities in one unit; ``None`` for others, such as names.

    >>> axis_quantities(["100 ms", "2 s"]), axis_quantities([1, 0.5]), axis_quantities([True, False])
    (Quantities(numbers=(0.1, 2.0), unit='s'), Quantities(numbers=(1.0, 0.5), unit=''), None)
    """
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return Quantities(tuple(map(float, values)))
    return read_quantities(values)


def is_numeric(values: pd.Series[Any]) -> bool:
    """Return whether the values of an axis are numbers or quantities."""
    return axis_quantities(values.drop_duplicates().tolist()) is not None


def sorted_values(values: pd.Series[Any]) -> list[Any]:
    """Return the values of an axis, numbers and quantities sorted, others in the order of the sweep."""
    unique = values.drop_duplicates().tolist()
    quantities = axis_quantities(unique)
    if quantities is None:
        return unique
    by_size = sorted(zip(quantities.numbers, unique, strict=True), key=itemgetter(0))
    return [value for _, value in by_size]


def mean_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the smallest and the largest mean."""
    return float(rows["mean"].min()), float(rows["mean"].max())


def si_scale(rows: pd.DataFrame, metric: str) -> tuple[float, str]:
    """Return the unit of a metric in SI units, and the label of its axis."""
    if (rows["learner"] != "").any():
        return _learning_scale(metric)
    return _network_scale(metric, rows["mean"])


def _learning_scale(metric: str) -> tuple[float, str]:
    """Return the unit of a metric of learners, and the label of its axis."""
    label = formatting.learning_label(metric)
    if formatting.is_share(metric):
        return _PERCENT, f"{label} (%)"
    return 1.0, label


def _network_scale(metric: str, values: pd.Series[float]) -> tuple[float, str]:
    """Return the unit for *values* of a metric of the network in SI units, and the label of its axis."""
    middle = values.abs().median()
    scale, unit = formatting.unit_of(metric, 0.0 if np.isnan(middle) else float(middle))
    label = formatting.metric_label(metric)
    if unit:
        label = f"{label} ({unit})"
    return scale, label


def format_value_axis(ax: Axes, rows: pd.DataFrame, metric: str) -> None:
    """Label the y axis with the metric and its unit; see `format_metric_axis`."""
    scale, label = si_scale(rows, metric)
    format_metric_axis(ax, metric_of(metric), rows.assign(mean=rows["mean"] / scale))
    ax.set_ylabel(label)


def _select_rows(summary: pd.DataFrame, metric: str, axes: Sequence[str], where: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of *metric* in which nothing varies but *axes* and the learner."""
    all_axes = [name for name in summary.columns if name not in _SUMMARY_COLUMNS and not name.endswith("_si")]
    for name in (*axes, *where):
        if name not in all_axes:
            raise ValueError(f"'{name}' is not an axis of the sweep; {suggest(name, all_axes)}")
    rows = summary[(summary["metric"] == metric) | (summary["metric"].map(metric_of) == metric)]
    if rows.empty:
        raise ValueError(f"there is no metric '{metric}'; {suggest(metric, summary['metric'].unique().tolist())}")
    for axis, value in where.items():
        values = rows[axis].unique().tolist()
        rows = rows[rows[axis] == value]
        if rows.empty:
            raise ValueError(f"no point has {axis} = {value!r}; it takes {', '.join(map(repr, values))}")
    if rows.duplicated([*axes, "learner"]).any():
        varying = [axis for axis in all_axes if axis not in axes and rows[axis].nunique() > 1]
        choice = {axis: rows[axis].tolist()[0] for axis in varying} | dict(where)
        verb = "takes" if len(varying) == 1 else "take"
        raise ValueError(f"{' and '.join(varying)} {verb} several values; choose one of each, such as where={choice!r}")
    return rows


def _select_learners(rows: pd.DataFrame, learners: Sequence[str] | None) -> list[str]:
    """Return the requested learners, which must have rows; by default all that have some."""
    with_rows: list[str] = rows["learner"].unique().tolist()
    if learners is None:
        return with_rows
    for learner in learners:
        if learner not in with_rows:
            raise ValueError(f"'{learner}' has no such metric; {suggest(learner, with_rows)}")
    return [*learners]
