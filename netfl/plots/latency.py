"""Plots of delays, queues and utilisation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from netfl.plots import style
from netfl.plots.deliveries import COMMON, label_users, order_label, user_hues, users_with_counts
from netfl.results import aggregates, statistics
from netfl.results.formatting import time_unit

_LINK = re.compile("-(server|tower:|router:)")
"""Part of the name of a link that the name of a cell lacks."""

MAX_BOXES = 60
"""Maximum number of users with a box each."""

MAX_BARS = 24
"""Maximum number of cells and links in a plot of utilisation."""

_LEGEND_WIDTH = 100
"""Characters that fit beside each other in a legend."""

_LINE_WIDTH = 8
"""Characters whose place a line before a name takes."""


def delays(deliveries: pd.DataFrame, rounds: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of delays, from the opening of a round to the arrival of an update, on a logarithmic axis.

    Args:
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        ax: axes to draw on.
    """
    return distributions({"": aggregates.delays(deliveries, rounds)["delay_s"]}, ax=ax)


def distributions(
    parts: Mapping[str, pd.Series[float]],
    *,
    xlabel: str = "delay",
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the empirical distribution function of each of *parts*, times in seconds, on a logarithmic axis.

    *styles* are the styles of the lines by label, by default those of `style.line_styles`.
    """
    ax = style.new_axes(ax)
    shown = {name: np.sort(values.dropna()) for name, values in parts.items() if (values > 0).any()}
    medians = [float(np.median(times[times > 0])) for times in shown.values()]
    unit, unit_name = time_unit(max(medians, default=0.0))
    if not styles:
        styles = style.line_styles(list(parts))
    lines = {name: line for name, line in styles.items() if name in shown}
    for name, line in lines.items():
        times = shown[name] / unit
        zeros = int((shown[name] <= 0).sum())  # the curve begins above them: a logarithmic axis has no zero
        share = 100.0 * np.arange(zeros, times.size + 1) / times.size
        at = np.append(times[zeros], times[zeros:])
        ax.plot(at, share, drawstyle="steps-post", linewidth=1.7, **line)
    if lines:
        style.set_logarithmic(ax, "x")
    if len(parts) > 1:
        longest_name = max(map(len, lines), default=0)
        columns = max(1, _LEGEND_WIDTH // (_LINE_WIDTH + longest_name))
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
        style.line_legend(ax, lines, **above)  # a curve may be anywhere within the axes
    ax.set(xlabel=f"{xlabel} ({unit_name})", ylabel="share with at most this (%)", ylim=(-2, 102))
    return ax


def user_delays(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    rounds: pd.DataFrame,
    *,
    by: str = "delivered",
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the delays of each user: a box over the middle half, whiskers over the middle 90 %, a bar at the median.

    Of more than 60 users only medians and middle halves are drawn.

    Args:
        users: `Run.users`, with or without columns delivered and rare.
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        by: sort key, ``delivered`` (descending) or ``distance_m`` (ascending).
        rare: users that hold one of these classes have a different colour.
        replica: the replica to draw.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    table = aggregates.delays(deliveries[deliveries["replica"] == replica], rounds)
    order = users_with_counts(users, deliveries, rare, replica)
    order = order.sort_values([by, "user"], ascending=[by != "delivered", True])
    quantiles = table.groupby("user")["delay_s"].quantile(np.array([0.05, 0.25, 0.5, 0.75, 0.95])).unstack()
    quantiles = quantiles.reindex(order["user"])
    unit, unit_name = time_unit(float(table["delay_s"].median()) if len(table) else 0.0)
    points = np.zeros((5, 0))  # without any delivery there are no columns
    if len(quantiles.columns):
        points = (quantiles / unit).to_numpy(float).T
    low, first, middle, third, high = points
    positions = np.arange(len(order))
    hues, _ = user_hues(order)
    if len(order) <= MAX_BOXES:
        ax.vlines(positions, low, high, color=hues, linewidth=1.0)
        ax.bar(positions, third - first, bottom=first, width=0.62, color=hues, alpha=0.45)
        ax.hlines(middle, positions - 0.31, positions + 0.31, color=hues, linewidth=2.0)
        label_users(ax, order)
    else:
        served = ~np.isnan(middle)
        ax.vlines(positions[served], first[served], third[served], color=hues[served], linewidth=0.8, alpha=0.5)
        dots: dict[str, Any] = {"s": 5, "color": hues[served], "linewidths": 0, "rasterized": len(order) > 1000}
        ax.scatter(positions[served], middle[served], **dots)
        ax.set_xticks([])
    if len(table) and (table["delay_s"] > 0).all():
        style.set_logarithmic(ax, "y")
        ax.set_ylim(0.85 * np.nanmin(low), 1.15 * np.nanmax(high))
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.01)
    ax.set(xlabel=f"user, {order_label(by)}", ylabel=f"delay ({unit_name})")
    return ax


def staleness(deliveries: pd.DataFrame, rounds: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the staleness of delivered updates: versions between their base and the newest when their round opened.

    Args:
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    age = aggregates.delays(deliveries, rounds)["age"]
    shares = pd.Series(dtype=float)
    if len(age):
        shares = 100.0 * aggregates.ages(age)
    ax.bar(np.arange(len(shares)), shares.to_numpy(), color=COMMON)
    ax.set_xticks(np.arange(len(shares)), labels=shares.index.tolist())
    ax.grid(visible=False, axis="x")
    ax.set(xlabel="age of the base (versions)", ylabel="delivered updates (%)")
    return ax


def node_delays(events: pd.DataFrame, *, nodes: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the time in towers and routers: waiting and transmission.

    Args:
        events: `Run.events`, with the kind ``forwarded``.
        nodes: towers and routers; by default all that forwarded a message.
        ax: axes to draw on.

    Raises:
        ValueError: no such events were recorded.
    """
    rows = _forwarded(events)
    if not nodes:
        nodes = sorted(rows["node"].unique())
    parts = {node: rows.loc[rows["node"] == node, "stay_s"] for node in nodes}
    return distributions(parts, xlabel="stay in the port", ax=ax)


def backlog(
    events: pd.DataFrame,
    *,
    nodes: Sequence[str] | None = None,
    end_s: float | None = None,
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of messages in towers and routers over time, the one in service included.

    Args:
        events: `Run.events`, with the kind ``forwarded``.
        nodes: towers and routers, in the order of their colours; by default all that forwarded a message.
        end_s: end of the run in seconds; by default the last event.
        replica: the replica to draw.
        ax: axes to draw on.

    Raises:
        ValueError: no such events were recorded.
    """
    ax = style.new_axes(ax)
    rows = _forwarded(events)
    rows = rows[rows["replica"] == replica]
    if end_s is None:
        end_s = float(events["time_s"].max())
    unit, name = time_unit(end_s)
    lines = style.line_styles(nodes or sorted(rows["node"].unique()))
    for node, line in lines.items():
        numbers = aggregates.backlog_over_time(rows[rows["node"] == node], end_s)
        edges = np.linspace(0.0, end_s / unit, len(numbers) + 1)
        ax.stairs(numbers, edges, baseline=None, linewidth=1.3, color=line["color"], linestyle=line["linestyle"])
    ax.set(xlabel=f"simulated time ({name})", ylabel="messages in the port", xlim=(0.0, end_s / unit))
    ax.set_ylim(bottom=0.0)
    style.line_legend(ax, lines, loc="upper right")
    return ax


def utilisation(final_metrics: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the share of time in which cells and links were in use, the busiest on top, with 95 % t-intervals.

    There are intervals from three replicas on; a triangle marks an end that is cut at 0 or 100 %.

    Args:
        final_metrics: `Run.final_metrics`.
        ax: axes to draw on.

    Raises:
        ValueError: the run has no such metrics.
    """
    table = aggregates.utilisation(final_metrics)
    if table.empty:
        raise ValueError("the metrics have no utilisation: the run has no network, or is not finished")
    ax = style.new_axes(ax)
    shares = {str(part): statistics.interval(values) for part, values in table.groupby("part")["share"]}
    with_values = [part for part, share in shares.items() if share.replicas]
    shown = sorted(with_values, key=lambda part: -shares[part].mean)[:MAX_BARS]
    means = 100.0 * np.array([shares[part].mean for part in shown])
    halves = 100.0 * np.array([shares[part].half if shares[part].is_shown else np.nan for part in shown])
    is_link = np.array([_LINK.search(part) is not None for part in shown], bool)
    positions = np.arange(len(shown))
    ax.barh(positions, means, color=np.where(is_link, style.SKY, COMMON), height=0.7)
    has_bar = np.isfinite(halves)
    reach = np.minimum(halves, [means, 100.0 - means])[:, has_bar]  # an interval of t may leave 0 to 100 %
    ax.errorbar(means[has_bar], positions[has_bar], xerr=reach, fmt="none", ecolor=style.INK, elinewidth=1.0)
    cut: dict[str, Any] = {"color": style.INK, "linestyle": "none", "markersize": 5, "clip_on": False}
    for is_cut, end, marker in ((halves > means, 0.0, "<"), (halves > 100.0 - means, 100.0, ">")):
        if is_cut.any():
            ax.plot(np.full(is_cut.sum(), end), positions[is_cut], marker=marker, **cut)
    ax.set_yticks(positions, labels=shown, fontsize=9 if len(shown) <= 16 else 7)
    ax.set(xlabel="share of the time in use (%)", ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    ax.set_xlim(right=min(100.0, max(1e-3, ax.get_xlim()[1])))
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.grid(visible=False, axis="y")
    if is_link.any() and not is_link.all():
        style.box_legend(ax, {"the air of a cell": COMMON, "a link": style.SKY}, loc="lower right")
    return ax


def _forwarded(events: pd.DataFrame) -> pd.DataFrame:
    """Return the forwarded messages in events, or in a table of `aggregates.node_delays`."""
    rows = events if "stay_s" in events else aggregates.node_delays(events)
    if rows.empty:
        raise ValueError("the table has no such events; the scenario's 'record' selects the events to keep")
    return rows
