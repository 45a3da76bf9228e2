"""Pictures of delays, of queues, and of what was in use for how long.  Each takes tables and returns Axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from netfl.report import canvas, phrases, waits
from netfl.report.plots_access import COMMON, RARE
from netfl.results import statistics

_LINK = re.compile("-(server|tower:|router:)")
"""What the name of a link has, and that of a cell has not."""

FEW = 60
"""Up to so many users have a box each."""


def distributions(
    parts: Mapping[str, pd.Series[float]],
    *,
    xlabel: str = "delay",
    strokes: Mapping[str, dict[str, Any]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The share of times that are at most so long, a step line for each of *parts*, on a logarithmic axis.

    Args:
        parts: times in seconds, by what they are called.
        xlabel: what they are.
        strokes: how each line is drawn.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    shown = {name: np.sort(values.dropna()) for name, values in parts.items() if (values > 0).any()}
    middle = max((float(np.median(values[values > 0])) for values in shown.values()), default=0.0)
    unit, name = short_time_unit(middle)
    drawn = {}
    for part, stroke in (strokes or canvas.line_styles(list(parts))).items():
        if part not in shown:
            continue
        at, zeros = shown[part] / unit, int((shown[part] <= 0).sum())  # which a logarithmic axis cannot show
        share = 100.0 * np.arange(zeros, at.size + 1) / at.size
        ax.plot(np.append(at[zeros], at[zeros:]), share, drawstyle="steps-post", linewidth=1.7, **stroke)
        drawn[part] = Line2D([], [], **stroke, linewidth=2.2)
    if drawn:
        canvas.logarithmic(ax, "x")
    if len(parts) > 1:
        canvas.legend(ax, list(drawn.values()), list(drawn), loc="lower right", handlelength=3.0)
    ax.set(xlabel=f"{xlabel} ({name})", ylabel="share with at most this (%)", ylim=(-2, 102))
    return ax


def short_time_unit(seconds: float) -> tuple[float, str]:
    """The unit, in seconds and by name, in which a short time is easily read.

    >>> short_time_unit(3e-4), short_time_unit(2.0)
    ((1e-06, 'µs'), (1.0, 's'))
    """
    for unit, name in ((1e-3, "ms"), (1e-6, "µs")):
        if 0.0 < seconds < (0.25 if unit == 1e-3 else 2.5e-3) and seconds >= 2.5 * unit:
            return unit, name
    return phrases.clock(seconds)


def user_delays(table: pd.DataFrame, users: pd.DataFrame, *, by: str = "heard", ax: Axes | None = None) -> Axes:
    """The delays of each user's updates: a box from quartile to quartile, whiskers over the middle 90 %.

    Of many users there are the median and the middle half, by place.  Who was never heard has nothing.

    Args:
        table: columns user and delay_s.
        users: columns user, rare, and *by*.
        by: what they are sorted by, ``heard`` (most first) or ``distance_m`` (nearest first).
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    order = users.sort_values([by, "user"], ascending=[by != "heard", True])
    points = table.groupby("user")["delay_s"].quantile(np.array([0.05, 0.25, 0.5, 0.75, 0.95])).unstack()
    points = points.reindex(order["user"])
    unit, name = short_time_unit(float(table["delay_s"].median()) if len(table) else 0.0)
    low, first, middle, third, high = (points / unit).to_numpy(float).T if len(points.columns) else np.zeros((5, 0))
    places = np.arange(len(order))
    hues = np.where(order["rare"], RARE, COMMON)
    if len(order) <= FEW:
        ax.vlines(places, low, high, color=hues, linewidth=1.0)
        ax.bar(places, third - first, bottom=first, width=0.62, color=hues, alpha=0.45)
        ax.hlines(middle, places - 0.31, places + 0.31, color=hues, linewidth=2.0)
        size, turn = (7, 90) if len(order) > 15 else (9, 0)
        ax.set_xticks(places, labels=order["user"].astype(str).tolist(), fontsize=size, rotation=turn)
    else:
        known = ~np.isnan(middle)
        ax.vlines(places[known], first[known], third[known], color=hues[known], linewidth=0.8, alpha=0.5)
        ax.scatter(places[known], middle[known], s=5, color=hues[known], linewidths=0, rasterized=len(order) > 1000)
        ax.set_xticks([])
    if len(table) and (table["delay_s"] > 0).all():
        canvas.logarithmic(ax, "y")
        ax.set_ylim(0.85 * np.nanmin(low), 1.15 * np.nanmax(high))
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.01)
    ends = "from most to least heard" if by == "heard" else "from nearest to farthest"
    ax.set(xlabel=f"user, {ends}", ylabel=f"delay ({name})")
    return ax


def ages(age: pd.Series[int], *, ax: Axes | None = None) -> Axes:
    """How many versions behind the newest updates were that counted, as shares.

    Args:
        age: for each update, from `waits.delays`.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    shares = 100.0 * waits.ages(age) if len(age) else pd.Series(dtype=float)
    ax.bar(np.arange(len(shares)), shares.to_numpy(), color=COMMON)
    ax.set_xticks(np.arange(len(shares)), labels=shares.index.tolist())
    ax.grid(visible=False, axis="x")
    ax.set(xlabel="age of the base (versions)", ylabel="updates that counted (%)")
    return ax


def plot_backlog(rows: pd.DataFrame, end_s: float, nodes: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """How many messages nodes held over time, the one under way included.

    Args:
        rows: from `waits.stays`, of one replica.
        end_s: the end of the run, in seconds.
        nodes: whose, in the order of their colours.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    unit, name = short_time_unit(end_s)
    for node, stroke in canvas.line_styles(nodes).items():
        numbers = waits.backlog_over_time(rows[rows["node"] == node], end_s)
        edges = np.linspace(0.0, end_s / unit, len(numbers) + 1)
        ax.stairs(numbers, edges, baseline=None, linewidth=1.3, color=stroke["color"], linestyle=stroke["linestyle"])
    ax.set(xlabel=f"simulated time ({name})", ylabel="messages held", xlim=(0.0, end_s / unit))
    ax.set_ylim(bottom=0.0)
    return ax


def with_node_legend(ax: Axes, nodes: Sequence[str]) -> Axes:
    """*ax* with a legend of the lines of *nodes*."""
    lines = [Line2D([], [], **stroke, linewidth=2.2) for stroke in canvas.line_styles(nodes).values()]
    canvas.legend(ax, lines, list(nodes), loc="upper right", handlelength=3.0)
    return ax


def utilisation(table: pd.DataFrame, *, most: int = 24, ax: Axes | None = None) -> Axes:
    """The share of the time that cells and links were in use, the busiest on top; a line is a 95 % t-interval.

    Args:
        table: columns replica, part and share, from `waits.utilisation`; ``tower:0-server`` is a link.
        most: of more, only the busiest so many are shown.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    found = {str(part): statistics.interval(own) for part, own in table.groupby("part")["share"]}
    shown = sorted((part for part in found if found[part].replicas), key=lambda part: -found[part].mean)[:most]
    means = 100.0 * np.array([found[part].mean for part in shown])
    halves = 100.0 * np.array([found[part].half for part in shown])
    links = np.array([_LINK.search(part) is not None for part in shown], bool)
    places = np.arange(len(shown))
    ax.barh(places, means, color=np.where(links, canvas.SKY, COMMON), height=0.7)
    known = np.isfinite(halves)
    ax.errorbar(means[known], places[known], xerr=halves[known], fmt="none", ecolor=canvas.INK, elinewidth=1.0)
    ax.set_yticks(places, labels=shown, fontsize=9 if len(shown) <= 16 else 7)
    ax.set(xlabel="share of the time in use (%)", ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    ax.set_xlim(right=min(100.0, max(1e-3, ax.get_xlim()[1])))
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.grid(visible=False, axis="y")
    if links.any() and not links.all():
        boxes = [Rectangle((0, 0), 1, 1, color=hue) for hue in (COMMON, canvas.SKY)]
        canvas.legend(ax, boxes, ["the air of a cell", "a link"], loc="lower right")
    return ax
