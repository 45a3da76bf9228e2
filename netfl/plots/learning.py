"""Plots of learning."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import fill
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from netfl.errors import suggest
from netfl.learning.performance import split_group
from netfl.plots import style
from netfl.results import aggregates
from netfl.results.aggregates import Over
from netfl.results.comparison import criterion_label
from netfl.results.formatting import axis_unit, cut_interval, is_share, learning_label, metric_label, unit_of
from netfl.results.metrics import reported_metrics, with_reported
from netfl.results.statistics import MIN_REPLICAS
from netfl.types import Floats

_TITLE_CHARACTERS = 100
"""Number of characters of a line above a figure of its own."""

_MAX_USER_NUMBERS = 60
"""Maximum number of users whose numbers are shown."""


def curves(
    metrics: pd.DataFrame,
    metric: str = "accuracy",
    *,
    group: str = "",
    over: Over = "round",
    rounds: pd.DataFrame | None = None,
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of each learner, the mean over replicas with its 95 % t-interval, from three replicas on.

    A metric that a selection or an allocation reports has a single curve, without a final value.

    The rounds whose mean is the final value are shaded, and a dot marks this value: the number that reports, tables and
    `netfl.compare` state.  A metric that swings is drawn twice: thin, as evaluated, and bold, as the mean of as many
    last evaluations as a final value has, so that the bold line ends at the dot.  A thick edge marks where a band is
    cut at the limit of the metric.  A cross ends a curve that stops early.

    Args:
        metrics: `Run.metrics`.
        metric: name of the metric; accuracies are drawn in percent.  Its group may follow, as in
            ``accuracy/block:remote``.
        group: group of the metric, such as ``class:9``.
        over: rounds, simulated ``time``, ``bits`` sent on the uplink, or ``energy`` spent by the users.
        rounds: `Run.rounds`, for bits and energy, and for replicas that do not end in the same round.
        learners: the learners, in the order of their colours.
        ax: axes to draw on.

    Raises:
        ValueError: bits or energy without *rounds*, or no learner has the metric.
    """
    if not group and metric not in {*metrics["metric"].astype(str).unique()}:
        metric, group = split_group(metric)
    known = metrics.loc[metrics["group"] == group, "metric"].drop_duplicates().astype(str).tolist()
    if len(metrics) and metric not in known:
        raise ValueError(f"no learner has the metric '{metric}'; {suggest(metric, known)}")
    if over in ("bits", "energy") and aggregates.COST_COLUMNS[over] not in metrics:
        if rounds is None:
            raise ValueError(f"over={over!r} needs the table of rounds: rounds=run.rounds")
        metrics = aggregates.with_cost(metrics, rounds)
    with with_reported(reported_metrics(metrics.attrs.get("reported", ()))):
        return _draw_curves(metrics, metric, group, over, rounds, learners, ax)


def _draw_curves(
    metrics: pd.DataFrame,
    metric: str,
    group: str,
    over: Over,
    rounds: pd.DataFrame | None,
    learners: Sequence[str] | None,
    ax: Axes | None,
) -> Axes:
    """Draw `curves` of a metric that the table has, with the costs that its axis needs."""
    is_own_figure = ax is None
    ax = style.new_axes(ax)
    of_network = metrics.loc[metrics["metric"] == metric, "learner"].eq("").all() and len(metrics) > 0
    if of_network:
        learners = [""]
    learners = _learners(metrics, learners)

    # the curves, smooth and as evaluated, and the final values
    window = aggregates.smoothing_window(metrics, metric, group)
    table = aggregates.curve(metrics, metric, group, over=over, smooth=window)
    raw = table.iloc[:0]
    if window > 1:
        raw = aggregates.curve(metrics, metric, group, over=over)
    end = float(table["at"].max()) if len(table) else 0.0
    unit, label = axis_unit(over, end)
    end /= unit
    table = in_units(table, unit, metric)
    raw = in_units(raw, unit, metric)
    if of_network:
        scale, value_label = _network_scale(table, metric)
        table = _scaled(table, scale)
        raw = _scaled(raw, scale)
    finals = aggregates.final_points(metrics, metric, group, over=over, rounds=metrics if rounds is None else rounds)
    if of_network:  # its final value is the mean over the whole run
        finals = aggregates.FinalPoints(0.0, 0.0, finals.window, {})

    draw_window(ax, [finals], unit, end)
    for learner, line in style.line_styles(learners).items():
        if window > 1:
            thin = raw[raw["learner"] == learner]
            ax.plot(thin["at"], thin["mean"], color=line["color"], linewidth=0.6, alpha=0.35)
        rows = table[table["learner"] == learner]
        style.mean_curve(ax, rows, line, len(learners))
        if len(rows) and rows["at"].max() < end:  # a cross ends a curve that stops early
            ax.plot(rows["at"].iloc[-1], rows["mean"].iloc[-1], "x", color=line["color"], clip_on=False)
        if learner in finals.values:
            style.final_dot(ax, end, display_scale(metric) * finals.values[learner], line["color"])

    format_metric_axis(ax, metric, table)
    if of_network:
        ax.set_ylabel(value_label)
    ax.set_xlabel(label)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=over == "round", steps=[1, 2, 5, 10]))
    ax.margins(x=0.01)
    if not of_network:
        learner_legend(ax, learners)
    if is_own_figure:
        _describe_curves(ax, metric, group, finals, state=str(metrics.attrs.get("comparison", "")))
    return ax


def _network_scale(table: pd.DataFrame, metric: str) -> tuple[float, str]:
    """Return the unit for the means of a metric of the network, in SI units, and the label of their axis."""
    size = table["mean"].abs().median()
    scale, unit = unit_of(metric, 0.0 if np.isnan(size) else float(size))
    label = metric_label(metric)
    if unit:
        label = f"{label} ({unit})"
    return scale, label


def _scaled(curve: pd.DataFrame, scale: float) -> pd.DataFrame:
    """Return a curve with its means and its band divided by *scale*."""
    return curve.assign(mean=curve["mean"] / scale, low=curve["low"] / scale, high=curve["high"] / scale)


def _describe_curves(ax: Axes, metric: str, group: str, finals: aggregates.FinalPoints, *, state: str) -> None:
    """Name the group, the *state* of the comparison and the final values in a figure that has no caption."""
    if group:
        ax.set_ylabel(_with_percent(learning_label(f"{metric}/{group}"), metric))
    remark = ""
    if finals.values:
        remark = f"dots: final values, means of {finals.window}"
    title = "\n".join(fill(text, _TITLE_CHARACTERS) for text in (state, remark) if text)
    ax.set_title(title, loc="left", fontsize="small", fontweight="normal")


def draw_window(ax: Axes, finals: Sequence[aggregates.FinalPoints], unit: float, end: float) -> None:
    """Shade the window of the final values, if all of *finals* share it; its axis is in *unit* and stops at *end*."""
    windows = {(points.start, points.end) for points in finals if points.values}
    if len(windows) != 1:
        return
    [(start, _)] = windows
    start /= unit
    if start < end:
        ax.axvspan(start, end, color=style.INK, alpha=0.07, linewidth=0, zorder=0.5)


def candidates(
    candidates: pd.DataFrame,
    *,
    over: Literal["lr", "step"] = "lr",
    by: str = "",
    learners: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the criterion of each learner's candidates, the mean over validation replicas with its 95 % t-interval.

    There are intervals from three replicas on; a triangle marks an end that is cut at the limit of the criterion.  A
    ring marks the candidate that was chosen, a cross at the lower end one whose training diverged.  A learner has a
    curve for each combination of further keys, and for each replica that is tuned by itself; candidates in the ranges
    of several keys are points.  Candidates that are not alive are hollow.

    Args:
        candidates: `Run.candidates`.
        over: ``lr``, or the effective ``step``, which leaves out learners whose weights have no bound.
        by: name of the criterion, as the scenario states it, for the label of the axis.
        learners: the learners, in the order of their colours.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    learners = _learners(candidates, learners)
    label = "criterion"
    if by:
        label = f"validation {criterion_label(by)}"
    criterion = by
    if by not in {"", "loss", "objective"}:  # all other criteria are accuracies
        criterion = "accuracy"
    scale = display_scale(criterion)
    candidates = candidates[candidates[over].notna()]
    for learner, line in style.line_styles(learners).items():
        rows = candidates[candidates["learner"] == learner]
        for _, curve in rows.groupby(["replica", "settings"], observed=True, sort=False):
            points = interval_points(curve, curve[over], curve["value"], criterion, 1.0 / scale)
            style.error_bars(ax, points, {"marker": "o", "markersize": 3.5, "capsize": 2, **line})
        dead = rows[rows["alive"] == 0]
        hollow = {"s": 12, "facecolors": style.PAPER, "edgecolors": line["color"], "linewidths": 1.0, "zorder": 3}
        ax.scatter(dead[over], scale * dead["value"], **hollow)
        chosen = rows[rows["chosen"] == 1]
        ring = {"s": 90, "facecolors": "none", "edgecolors": line["color"], "linewidths": 1.5, "zorder": 3}
        ax.scatter(chosen[over], scale * chosen["value"], **ring)
        diverged = rows.loc[rows["diverged"] > 0, over]  # they have no value: their crosses stand on the axis
        crosses = [0.02] * len(diverged)
        ax.scatter(diverged, crosses, marker="x", color=line["color"], transform=ax.get_xaxis_transform())
    style.set_logarithmic(ax, "x")
    ax.tick_params(axis="x", labelrotation=30)
    ax.set_xlabel("step size lr" if over == "lr" else "effective step")
    ax.set_ylabel(_with_percent(label, criterion))
    learner_legend(ax, learners)
    return ax


def interval_points(
    rows: pd.DataFrame, at: pd.Series[float], mean: pd.Series[float], metric: str, unit: float
) -> pd.DataFrame:
    """Return points for `style.error_bars`, with intervals of possible values from three replicas on.

    Args:
        rows: the ``half`` widths of intervals, and ``replicas``.
        at: the place of each point.
        mean: the mean of *metric* at each point.
        metric: name of the metric.
        unit: of the points.
    """
    half = rows["half"].where(rows["replicas"] >= MIN_REPLICAS)
    ends = cut_interval(metric, mean - half, mean + half)
    return pd.DataFrame(
        {
            "at": at,
            "mean": mean / unit,
            "low": ends.low / unit,
            "high": ends.high / unit,
            "low_cut": ends.is_low_cut,
            "high_cut": ends.is_high_cut,
        }
    )


def display_scale(metric: str) -> float:
    """Return the factor by which plots multiply a metric of learners: shares are drawn in percent."""
    return 100.0 if is_share(metric) else 1.0


def _with_percent(label: str, metric: str) -> str:
    """Return the label of an axis of *metric*, with the unit of shares."""
    if is_share(metric):
        return f"{label} (%)"
    return label


def in_units(table: pd.DataFrame, unit: float, metric: str) -> pd.DataFrame:
    """Return curves of `aggregates.curve` with ``at`` in *unit*, shares in percent, and bands of possible values only.

    The columns ``low_cut`` and ``high_cut`` state where a band is cut: an interval of Student's t knows no limits.
    """
    scale = display_scale(metric)
    band = cut_interval(metric, table["low"], table["high"])
    return table.assign(
        at=table["at"] / unit,
        mean=scale * table["mean"],
        low=scale * band.low,
        high=scale * band.high,
        low_cut=band.is_low_cut,
        high_cut=band.is_high_cut,
    )


def format_metric_axis(ax: Axes, metric: str, table: pd.DataFrame) -> None:
    """Label the y axis; keep a share within 0 and 100 %, and any other metric near its means.

    A band may reach beyond the means by as much as these differ; wider ones are cut.  Axes that share their y axis have
    room for what each of them shows.
    """
    ax.set_ylabel(_with_percent(learning_label(metric), metric))
    former_limits = None
    if not ax.get_autoscaley_on():  # an axis that shares this one, or a curve before, has set them
        former_limits = ax.get_ylim()
    ax.autoscale(axis="y")
    bottom, top = ax.get_ylim()
    if is_share(metric):
        margin = max(0.0, 5.0 - (top - bottom)) / 2  # a nearly constant curve is not magnified
        bottom = max(bottom - margin, -2.0)
        top = min(top + margin, 102.0)
    elif len(table):
        low = float(table["mean"].min())
        high = float(table["mean"].max())
        margin = (high - low) or 0.5
        bottom = max(bottom, low - margin)
        top = min(top, high + margin)
    if former_limits is not None:
        bottom = min(bottom, former_limits[0])
        top = max(top, former_limits[1])
    ax.set_ylim(bottom, top)


def learner_legend(
    parent: Axes | FigureBase, learners: Sequence[str], *, diverged: Collection[str] = (), **options: Any
) -> None:
    """Add a legend of the learners' lines to axes or, above all axes, to a figure, and mark *diverged* ones."""
    lines = {}
    for name, line in style.line_styles(learners).items():
        if name in diverged:
            lines[f"{name} (diverged)"] = line | {"marker": "x"}
        else:
            lines[name] = line | {"marker": ""}
    settings: dict[str, Any] = {"handlelength": 3.2}
    if isinstance(parent, FigureBase):
        settings |= {"loc": "outside upper left", "ncols": 5}
    style.line_legend(parent, lines, **(settings | options))


def class_accuracy(
    metrics: pd.DataFrame,
    metric: str = "accuracy",
    *,
    rare: Collection[int] = (),
    learners: Sequence[str] | None = None,
    choices: Collection[str] = (),
    rounds: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw learners × classes: accuracy in percent, the mean over the last tenth of the rounds and over replicas.

    The rare classes come first, so that a narrow screen shows them.

    Args:
        metrics: `Run.metrics`.
        metric: ``accuracy``, or that on a further test set, such as ``accuracy@raw``.
        rare: classes that come first, with bold labels.
        learners: the rows; learners without these values are left out.
        choices: learners that choose among others, whose values are those of the last evaluation.
        rounds: `Run.rounds`, for replicas that do not end in the same round.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    rows = aggregates.grouped_final_metrics(metrics, metric, "class", choices=choices, rounds=rounds)
    learners = [name for name in _learners(metrics, learners) if (rows["learner"] == name).any()]
    table = 100.0 * rows.pivot_table(index="learner", columns="number", values="value").reindex(learners)
    classes = [int(label) for label in table.columns]
    rare_first = sorted(classes, key=lambda label: (label not in rare, label))
    table = table[rare_first]
    options: dict[str, Any] = {"fmt": ".1f", "norm": style.percent_norm(table), "cbar": False}
    style.heat_map(table, ax=ax, max_cells=20 * len(table), **options)
    rare_shown = sum(label in rare for label in rare_first)
    if 0 < rare_shown < len(rare_first):  # a gap between rare and other classes
        ax.axvline(rare_shown, color=style.PAPER, linewidth=5)
    style.percent_bar(ax, ax.collections[0], learning_label(metric), pad=0.02)
    ax.set(xlabel="class", ylabel="")
    ax.set_yticks(np.arange(len(learners)) + 0.5, labels=learners, rotation=0)
    labels = ax.get_xticklabels()
    names = [text.get_text() for text in labels]
    style.mark_rare(labels, [name.isdecimal() and int(name) in rare for name in names])
    return ax


def user_heat(accuracy: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw learners × users: final accuracy on each user's data, from the least frequent user to the most.

    Users that hold a rare class have bold, coloured numbers; of more than 60 users no numbers are shown.  *accuracy*
    has columns learner, user, value, delivered and rare, of one replica.
    """
    ax = style.new_axes(ax)
    order = accuracy.drop_duplicates("user").sort_values(["delivered", "user"])
    learners = [name for name in learners if (accuracy["learner"] == name).any()]
    table = accuracy.pivot_table(index="learner", columns="user", values="value").reindex(learners)[order["user"]]
    percent = 100.0 * table.to_numpy(float)
    image = ax.imshow(percent, aspect="auto", cmap="cividis", norm=style.percent_norm(percent))
    style.percent_bar(ax, image, "accuracy", pad=0.02)
    ax.set_yticks(np.arange(len(learners)), labels=learners)
    labels = []
    if len(order) <= _MAX_USER_NUMBERS:
        labels = order["user"].astype(str).tolist()
    ax.set_xticks(range(len(labels)), labels=labels)
    ax.tick_params(length=0)
    ax.tick_params(axis="x", labelsize=7 if len(order) > 20 else 9)
    style.mark_rare(ax.get_xticklabels(), order["rare"])
    ax.grid(visible=False)
    ax.set_xlabel("user, from fewest to most deliveries")
    return ax


def user_accuracy(
    metrics: pd.DataFrame,
    *,
    learners: Sequence[str] | None = None,
    rounds: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of accuracy over users: the share of users with at most this accuracy.

    Args:
        metrics: `Run.metrics`, or final values with columns learner and value.
        learners: the learners, in the order of their colours.
        rounds: `Run.rounds`, for replicas that do not end in the same round.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    learners = _learners(metrics, learners)
    rows = metrics
    if "metric" in metrics:
        rows = aggregates.grouped_final_metrics(metrics, "accuracy", "user", rounds=rounds)
    for learner, line in style.line_styles(learners).items():
        sns.ecdfplot(100.0 * rows.loc[rows["learner"] == learner, "value"], ax=ax, **line, stat="percent", lw=1.7)
    ax.set(xlabel="accuracy on the user's data (%)", ylabel="users with at most this (%)", xlim=(-2, 102))
    learner_legend(ax, learners)
    return ax


def user_scatter(
    metrics: pd.DataFrame,
    users: pd.DataFrame | None = None,
    deliveries: pd.DataFrame | None = None,
    *,
    rare: Collection[int] = (),
    learners: Sequence[str] | None = None,
    rounds: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw final accuracy against the number of deliveries for each user; rings mark users with a rare class.

    Args:
        metrics: `Run.metrics`, or final values with columns learner, value, delivered and rare, which suffice.
        users: `Run.users`.
        deliveries: `Run.deliveries`.
        rare: the rare classes.
        learners: the learners, in the order of their colours.
        rounds: `Run.rounds`, for replicas that do not end in the same round.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    learners = _learners(metrics, learners)
    table = metrics
    if users is not None and deliveries is not None:
        counts = aggregates.with_delivery_counts(users, deliveries, rare)[["replica", "user", "delivered", "rare"]]
        values = aggregates.grouped_final_metrics(metrics, "accuracy", "user", rounds=rounds)
        values = values.rename(columns={"number": "user"})
        table = values.merge(counts, on=["replica", "user"])
    table = table.assign(percent=100 * table["value"])
    _dots_by_learner(table, "percent", learners, ax)
    for learner, line in style.line_styles(learners).items():
        ring = table[(table["learner"] == learner) & table["rare"]]
        hollow = {"s": 46, "facecolors": "none", "edgecolors": line["color"], "rasterized": len(table) > 2000}
        ax.scatter(ring["delivered"], ring["percent"], **hollow)
    ax.set(xlabel="deliveries", ylabel="accuracy on the user's data (%)", ylim=(-4, 104))
    learner_legend(ax, learners)
    return ax


def user_weights(weights: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the final weight of users in the aggregation against deliveries: columns learner, value and delivered."""
    ax = style.new_axes(ax)
    _dots_by_learner(weights, "value", learners, ax)
    ax.set(xlabel="deliveries", ylabel="weight of the user")
    return ax


def _dots_by_learner(table: pd.DataFrame, value: str, learners: Sequence[str], ax: Axes) -> None:
    for learner, line in style.line_styles(learners).items():
        rows = table[table["learner"] == learner]
        dots: dict[str, Any] = {"s": 16, "color": line["color"], "alpha": 0.6, "linewidths": 0}
        ax.scatter(rows["delivered"], rows[value], **dots, rasterized=len(table) > 2000)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def regions(
    grid: pd.DataFrame,
    points: pd.DataFrame,
    learner: str | None = None,
    *,
    rare: Collection[int] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the class that a learner predicts everywhere in the plane; test points of rare classes are crosses.

    Args:
        grid: `Run.regions`.
        points: `Run.points`.
        learner: whose predictions; not needed if *grid* has one learner.
        rare: the rare classes.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    if learner is not None:
        grid = grid[grid["learner"] == learner]
    table = grid.pivot(index="y", columns="x", values="label")
    last_class = int(grid["label"].max())
    if len(points):
        last_class = max(last_class, int(points["label"].max()))
    hues = [style.PALETTE[label % len(style.PALETTE)] for label in range(last_class + 1)]
    xlim = _cell_edges(table.columns.to_numpy(float))
    ylim = _cell_edges(table.index.to_numpy(float))
    colours: dict[str, Any] = {"cmap": ListedColormap(hues), "vmin": -0.5, "vmax": last_class + 0.5, "alpha": 0.3}
    ax.imshow(table.to_numpy(), origin="lower", extent=(*xlim, *ylim), aspect="auto", **colours)
    for label, hue in enumerate(hues):
        rows = points[points["label"] == label]
        dots: dict[str, Any] = {"color": hue, "marker": "o", "s": 7.0, "linewidths": 0.0}
        if label in rare:
            dots |= {"marker": "x", "s": 14.0, "linewidths": 1.0}
        ax.scatter(rows["x"], rows["y"], **dots, rasterized=len(points) > 1500)
    ax.grid(visible=False)
    ax.set(xlabel="first feature", ylabel="second feature", xlim=xlim, ylim=ylim)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return ax


def _cell_edges(centres: Floats) -> tuple[float, float]:
    """Return the outer edges of cells with even *centres*: half a cell beyond the first and the last."""
    half = 0.5 * (centres[-1] - centres[0]) / max(1, len(centres) - 1)
    return centres[0] - half, centres[-1] + half


def _learners(metrics: pd.DataFrame, learners: Sequence[str] | None) -> list[str]:
    """Return the requested learners, or all in the order of the table's categories, or else of its rows."""
    if learners is not None:
        return [*learners]
    names = metrics.loc[metrics["learner"] != "", "learner"].drop_duplicates()  # values of the network have none
    if isinstance(names.dtype, pd.CategoricalDtype):
        names = names.sort_values()
    return names.astype(str).tolist()
