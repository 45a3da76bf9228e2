"""Pictures of what was learnt.  Each takes tables and returns Axes; *ax* is made where none is given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from netfl.report import canvas, measures, phrases
from netfl.results.formatting import SHARES


def curves(
    metrics: pd.DataFrame,
    metric: str,
    *,
    group: str = "",
    over: measures.Over = "round",
    learners: Sequence[str],
    ax: Axes | None = None,
) -> Axes:
    """One metric of each learner against rounds or simulated time.

    The line is the mean over replicas, the band its 95 % t-interval.  A figure that swings is drawn twice: as it is,
    thin, and as the mean of its last evaluations, with the band.  A cross is where a learner's figures end early.

    Args:
        metrics: the metrics table.
        metric: which metric.
        group: which group of it.
        over: what it runs over.
        learners: the learners, in the order of their colours.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    scale = 100.0 if metric in SHARES else 1.0
    smooth = measures.smoothing_window(metrics, metric, group)
    found = measures.curve(metrics, metric, group, over=over, smooth=smooth)
    raw = measures.curve(metrics, metric, group, over=over) if smooth > 1 else None
    unit, name = phrases.axis_unit(over, float(found["at"].max()) if len(found) else 0.0)
    pale = min(0.18, 0.6 / max(1, len(learners)))
    for learner, stroke in canvas.line_styles(learners).items():
        rows, colour = found[found["learner"] == learner], stroke["color"]
        if raw is not None:
            thin = raw[raw["learner"] == learner]
            ax.plot(thin["at"] / unit, scale * thin["mean"], color=colour, linewidth=0.6, alpha=0.35)
        ax.fill_between(rows["at"] / unit, scale * rows["low"], scale * rows["high"], color=colour, alpha=pale, lw=0)
        ax.plot(rows["at"] / unit, scale * rows["mean"], **stroke)
        if len(rows) and rows["at"].max() < found["at"].max():
            ax.plot(rows["at"].iloc[-1] / unit, scale * rows["mean"].iloc[-1], "x", color=colour, clip_on=False)
    limits(ax, metric, found, scale)
    ax.set_xlabel(name)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=over == "round", steps=[1, 2, 5, 10]))
    ax.margins(x=0.01)
    return ax


def limits(ax: Axes, metric: str, found: pd.DataFrame, scale: float) -> None:
    """Name the y axis; a share keeps within 0 and 100 %, however wide its band."""
    ax.set_ylabel(f"{label(metric)} (%)" if metric in SHARES else label(metric))
    if metric in SHARES:
        low, high = ax.get_ylim()
        room = max(0.0, 5.0 - (high - low)) / 2  # what hardly moves is not blown up
        ax.set_ylim(max(low - room, -2.0), min(high + room, 102.0))
    elif len(found):
        low, high = scale * float(found["mean"].min()), scale * float(found["mean"].max())
        room = 0.25 * (high - low) or 0.5
        bottom, top = ax.get_ylim()
        ax.set_ylim(max(bottom, low - room), min(top, high + room))


def label(metric: str) -> str:
    """What a metric is called in pictures and tables."""
    names = {
        "rare_accuracy": "rare-class accuracy",
        "accuracy_users_mean": "mean over users",
        "accuracy_users_worst10": "worst 10 % of users",
        "accuracy_users_best10": "best 10 % of users",
        "accuracy_users_variance": "variance over users",
        "accuracy_users_jain": "Jain index over users",
        "cvar": "CVaR of the loss",
    }
    return names.get(metric, metric.replace("_", " "))


def learner_legend(
    place: Axes | FigureBase, learners: Sequence[str], *, lost: Collection[str] = (), **where: Any
) -> None:
    """A legend of the learners' lines, in axes or outside all axes of a figure; it says who is *lost*."""
    lines = [
        Line2D([], [], **stroke, linewidth=2.2, marker="x" if name in lost else "")
        for name, stroke in canvas.line_styles(learners).items()
    ]
    names = [f"{name} (diverged)" if name in lost else name for name in learners]
    canvas.legend(place, lines, names, **{"handlelength": 3.2, **where})


def class_heat(
    metrics: pd.DataFrame,
    *,
    learners: Sequence[str],
    rare: Collection[int] = (),
    choices: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Final accuracy of each learner on each class, as a heat map; rare classes have bold, coloured labels.

    Learners without such figures are left out.  Figures of *choices* are those of the last evaluation.
    """
    ax = canvas.axes(ax)
    rows = measures.grouped_final_metrics(metrics, "accuracy", "class", choices=choices)
    learners = [name for name in learners if (rows["learner"] == name).any()]
    table = 100.0 * rows.pivot_table(index="learner", columns="number", values="value").reindex(learners)
    sns.heatmap(
        table,
        ax=ax,
        annot=len(table.columns) <= 20,
        fmt=".0f",
        vmin=0.0,
        vmax=100.0,
        cmap="cividis",
        linewidths=1.5 if len(table.columns) <= 20 else 0.0,
        linecolor=canvas.PAPER,
        cbar_kws={"label": "accuracy (%)", "pad": 0.02},
    )
    ax.grid(visible=False)
    ax.set(xlabel="class", ylabel="")
    ax.tick_params(length=0)
    ax.set_yticks(np.arange(len(learners)) + 0.5, labels=learners, rotation=0)
    for text in ax.get_xticklabels():
        if text.get_text().isdecimal() and int(text.get_text()) in rare:
            text.set(color=canvas.RED, fontweight="bold")
    return ax


def user_spread(accuracy: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """The share of users whose final accuracy is at most so much.

    Args:
        accuracy: columns learner and value, a row for each user (of each replica).
        learners: the learners, in the order of their colours.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    rows = accuracy.assign(value=100.0 * accuracy["value"])
    for learner, stroke in canvas.line_styles(learners).items():
        sns.ecdfplot(rows.loc[rows["learner"] == learner, "value"], ax=ax, **stroke, stat="percent", lw=1.7)
    ax.set(xlabel="accuracy on the user's data (%)", ylabel="users with at most this (%)", xlim=(-2, 102))
    return ax


def user_scatter(accuracy: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """Each user's final accuracy against how often it was heard; users that hold rare classes have a ring.

    Args:
        accuracy: columns learner, value, heard and rare, a row for each user (of each replica).
        learners: the learners, in the order of their colours.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    many = len(accuracy) > 2000
    for learner, colour in canvas.colours(learners).items():
        rows = accuracy[accuracy["learner"] == learner]
        ax.scatter(rows["heard"], 100 * rows["value"], s=16, color=colour, alpha=0.6, linewidths=0, rasterized=many)
        ring = rows[rows["rare"]]
        ax.scatter(ring["heard"], 100 * ring["value"], s=46, facecolors="none", edgecolors=colour, rasterized=many)
    ax.set(xlabel="times heard", ylabel="accuracy on the user's data (%)", ylim=(-4, 104))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return ax


def user_weights(weights: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """How much a change of each user counts at the end, against how often the user was heard.

    Args:
        weights: columns learner, value and heard, a row for each user (of each replica).
        learners: the learners, in the order of their colours.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    for learner, colour in canvas.colours(learners).items():
        rows = weights[weights["learner"] == learner]
        ax.scatter(rows["heard"], rows["value"], s=16, color=colour, alpha=0.6, lw=0, rasterized=len(weights) > 2000)
    ax.set(xlabel="times heard", ylabel="weight of the user")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return ax


def regions(grid: pd.DataFrame, points: pd.DataFrame, *, rare: Collection[int] = (), ax: Axes | None = None) -> Axes:
    """The class that a learner predicts all over the plane, with the test points; rare classes are crosses.

    Args:
        grid: columns x, y and label, over a rectangular grid.
        points: columns x, y and label.
        rare: the rare classes.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    table = grid.pivot(index="y", columns="x", values="label")
    classes = int(max(grid["label"].max(), points["label"].max() if len(points) else 0)) + 1
    hues = [canvas.PALETTE[index % len(canvas.PALETTE)] for index in range(classes)]
    x, y = table.columns.to_numpy(float), table.index.to_numpy(float)
    half_x, half_y = (0.5 * (axis[-1] - axis[0]) / max(1, len(axis) - 1) for axis in (x, y))
    edges = (x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y)
    ax.imshow(
        table.to_numpy(),
        origin="lower",
        extent=edges,
        cmap=ListedColormap(hues),
        vmin=-0.5,
        vmax=classes - 0.5,
        alpha=0.3,
        aspect="auto",
    )
    for index, hue in enumerate(hues):
        rows = points[points["label"] == index]
        mark, size, line = ("x", 14.0, 1.0) if index in rare else ("o", 7.0, 0.0)
        many = len(points) > 1500
        ax.scatter(rows["x"], rows["y"], color=hue, marker=mark, s=size, linewidths=line, rasterized=many)
    ax.grid(visible=False)
    ax.set(xlabel="first feature", ylabel="second feature", xlim=edges[:2], ylim=edges[2:])
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return ax
