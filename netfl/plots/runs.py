"""Plots that compare several runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from netfl.plots import style
from netfl.plots.deliveries import OUTCOME_COLOURS
from netfl.plots.learning import display_scale, draw_window, format_metric_axis, in_units
from netfl.results import aggregates
from netfl.results.formatting import axis_unit
from netfl.types import OUTCOMES

MAX_POINTS = 400
"""Curves of more evaluations are thinned out to about this number."""

LineStyles = Mapping[tuple[str, str], dict[str, Any]]
"""Line style of each run and learner."""


def run_styles(runs: Sequence[str], learners: Sequence[str]) -> LineStyles:
    """Return line styles: a colour for each learner and dashes for each run; of one learner, both for each run."""
    hues = style.line_styles(learners)
    dashes = style.line_styles(runs)
    if len(learners) == 1:
        return {(run, learners[0]): dashes[run] for run in runs}
    styles = {}
    for run in runs:
        for learner in learners:
            styles[run, learner] = hues[learner] | {"linestyle": dashes[run]["linestyle"]}
    return styles


def run_courses(tables: Mapping[str, pd.DataFrame], metric: str, over: aggregates.Over) -> pd.DataFrame:
    """Return the curves of a metric in each run: columns run, learner, at, mean, low, high.

    *tables* are the metrics of each run, from `aggregates.with_cost`.
    """
    parts = []
    for run, metrics in tables.items():
        window = aggregates.smoothing_window(metrics, metric)
        table = aggregates.curve(metrics, metric, over=over, smooth=window)
        for learner, rows in table.groupby("learner", sort=False):
            step = max(1, len(rows) // MAX_POINTS)
            first = (len(rows) - 1) % step  # so that the last evaluation is kept
            parts.append(rows.iloc[first::step].assign(run=run, learner=learner))
    if not parts:
        return pd.DataFrame(columns=["run", "learner", "at", "mean", "low", "high"])
    return pd.concat(parts)


def run_finals(
    tables: Mapping[str, pd.DataFrame], metric: str, over: aggregates.Over, rounds: Mapping[str, pd.DataFrame]
) -> dict[str, aggregates.FinalPoints]:
    """Return the final values of a metric in each run: those of *tables*, as in `run_courses`, with their *rounds*."""
    return {
        run: aggregates.final_points(metrics, metric, over=over, rounds=rounds[run]) for run, metrics in tables.items()
    }


def run_curves(
    table: pd.DataFrame,
    metric: str,
    styles: LineStyles,
    *,
    over: aggregates.Over = "round",
    finals: Mapping[str, aggregates.FinalPoints] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of learners in several runs: means over replicas with 95 % t-intervals.

    Dots are the final values; the rounds that they are the mean of are shaded if the runs share them.

    Args:
        table: from `run_courses`; the x axis ends with its longest curve, whether drawn or not.
        metric: name of the metric; accuracies are drawn in percent.
        styles: line style of each run and learner; others are left out.
        over: unit of the x axis.
        finals: final values by run, from `run_finals`.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    end = float(table["at"].max()) if len(table) else 0.0
    unit, label = axis_unit(over, end)
    table = in_units(table, unit, metric)
    finals = finals or {}
    drawn = {run for run, _ in styles}
    draw_window(ax, [points for run, points in finals.items() if run in drawn], unit, end / unit)
    for (run, learner), line in styles.items():
        rows = table[(table["run"] == run) & (table["learner"] == learner)]
        style.mean_curve(ax, rows, line, len(styles))
        if len(rows) and run in finals and learner in finals[run].values:
            value = finals[run].values[learner]
            style.final_dot(ax, float(rows["at"].iloc[-1]), display_scale(metric) * value, line["color"])
    ax.autoscale(axis="y")  # panels that share the axis may have been drawn before
    format_metric_axis(ax, metric, table)
    ax.set(xlabel=label, xlim=(0.0, max(end, 1e-12) / unit * 1.01))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=over == "round", steps=[1, 2, 5, 10]))
    return ax


def rank_curves(rates: Mapping[str, Iterable[float]], *, ax: Axes | None = None) -> Axes:
    """Draw the participation rates of users by rank, a step line for each run."""
    ax = style.new_axes(ax)
    for run, line in style.line_styles(list(rates)).items():
        shares = np.sort(100.0 * np.asarray(list(rates[run]), float))[::-1]
        ax.plot(np.arange(1, len(shares) + 1), shares, drawstyle="steps-mid", **line)
    ax.set(xlabel="user, from most to fewest deliveries", ylabel="participation rate (%)")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(left=0.5)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    return ax


def rate_heat(rates: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw run × user: shares of rounds as a heat map, NaN without such a user."""
    ax = style.new_axes(ax)
    image = ax.imshow(100.0 * rates.to_numpy(float), aspect="auto", cmap="cividis", vmin=0.0)
    ax.set_yticks(range(len(rates)), labels=rates.index.tolist())
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_xlabel("user")
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    ax.figure.colorbar(image, ax=ax, label="rounds (%)", pad=0.02)
    return ax


def outcome_bars(shares: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the shares of outcomes (columns) in each run (rows) as stacked bars."""
    ax = style.new_axes(ax)
    outcomes = [name for name in OUTCOMES if name in shares]
    base = np.zeros(len(shares))
    positions = np.arange(len(shares))
    for name in outcomes:
        width = 100.0 * shares[name].to_numpy(float)
        ax.barh(positions, width, left=base, color=OUTCOME_COLOURS[name], height=0.7)
        base = base + width
    ax.set_yticks(positions, labels=[str(run) for run in shares.index])
    ax.set(xlabel="updates (%)", xlim=(0.0, 100.0), ylim=(len(shares) - 0.4, -0.6))
    ax.grid(visible=False, axis="y")
    colours = {name.replace("_", " "): OUTCOME_COLOURS[name] for name in outcomes}
    style.box_legend(ax, colours, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5)
    return ax
