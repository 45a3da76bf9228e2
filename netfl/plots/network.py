"""Plots of a network: outages over time, and the positions of users and nodes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from netfl.plots import style
from netfl.plots.deliveries import MAX_USERS, users_with_counts
from netfl.plots.labels import place_labels, scale_length
from netfl.results import aggregates
from netfl.results.formatting import time_unit
from netfl.types import Floats

DOWN = style.BROWN
"""Colour of nodes and users that are down."""

TOWER_DOWN = "#9aa1ad"
"""Colour of users whose tower is down."""

DELIVERED = style.GREEN
"""Colour of deliveries."""

MAX_NUMBERS = 60
"""Maximum number of users with numbers on a map."""

_NUMBER_SIZE = 6.5
"""Size of the numbers of users in points."""

_NODE_MARKERS = {"tower": ("^", 70), "router": ("s", 40), "server": ("*", 150)}


def outages(events: pd.DataFrame, *, end_s: float | None = None, replica: int = 0, ax: Axes | None = None) -> Axes:
    """Draw a bar for each outage of each node and user that had one.

    Args:
        events: `Run.events`, with the kinds ``down`` and ``up``.
        end_s: end of the run in seconds; by default the last event.
        replica: the replica to draw.
        ax: axes to draw on.
    """
    events = events[events["replica"] == replica]
    if end_s is None:
        end_s = float(events["time_s"].max()) if len(events) else 0.0
    spans = aggregates.outages(events, end_s)
    names = np.where(spans["user"] < 0, spans["node"], "user " + spans["user"].astype(str))
    labels = sorted(set(names), key=lambda name: (name.startswith("user "), len(name), name))  # nodes first
    spans = spans.assign(row=[labels.index(name) for name in names], by_tower=False)
    deliveries = pd.DataFrame({"row": [], "arrived_s": []}, dtype=float)
    rows = pd.DataFrame({"label": labels, "rare": False})
    return outage_timeline(spans, deliveries, rows, max(end_s, 1e-9), ax=ax)


def outage_timeline(
    spans: pd.DataFrame, deliveries: pd.DataFrame, rows: pd.DataFrame, end_s: float, *, ax: Axes | None = None
) -> Axes:
    """Draw a row for each node and user, with bars for outages and ticks for deliveries.

    Args:
        spans: columns row, from_s, to_s and by_tower: the user's tower is down, not the user.
        deliveries: columns row and arrived_s.
        rows: columns label and rare, in the order of the rows.
        end_s: end of the run in seconds.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    unit, name = time_unit(end_s)
    by_tower = spans["by_tower"].to_numpy(bool)
    ax.add_collection(_bars(spans[by_tower], unit, TOWER_DOWN))
    ax.add_collection(_bars(spans[~by_tower], unit, DOWN))
    ticks: dict[str, Any] = {"markersize": 6, "markeredgewidth": 1.2, "rasterized": len(deliveries) > 1500}
    ax.plot(deliveries["arrived_s"] / unit, deliveries["row"], "|", color=DELIVERED, **ticks)
    ax.set(xlim=(0.0, end_s / unit), ylim=(len(rows) - 0.5, -0.5), xlabel=f"simulated time ({name})")
    ax.set_yticks(range(len(rows)), labels=rows["label"].tolist(), fontsize=7 if len(rows) > 12 else 9)
    style.mark_rare(ax.get_yticklabels(), rows["rare"])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    colours = {"down": DOWN, "its tower was down": TOWER_DOWN, "delivered": DELIVERED}
    style.box_legend(ax, colours, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return ax


def layout(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    nodes: pd.DataFrame | None = None,
    *,
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw a map of users, coloured by their number of deliveries, with towers, routers and the server.

    Args:
        users: `Run.users`, with positions.
        deliveries: `Run.deliveries`.
        nodes: `Run.nodes`.
        rare: users that hold one of these classes have a ring.
        replica: the replica to draw.
        ax: axes to draw on.
    """
    counts = users_with_counts(users, deliveries, rare, replica)
    shown, remark = aggregates.sample_users(counts, MAX_USERS)
    caption = "deliveries"
    if remark:
        caption = f"deliveries ({remark})"
    if nodes is not None:
        nodes = None if nodes.empty else nodes[nodes["replica"] == replica]
    return user_map(shown, "delivered", caption, nodes=nodes, ax=ax)


def user_map(
    users: pd.DataFrame,
    value: str,
    caption: str,
    *,
    nodes: pd.DataFrame | None = None,
    percent: style.TopNorm | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a map of users, coloured by the column *value*; users with rare classes have a ring.

    Up to 60 users have numbers, as far as there is room.

    Args:
        users: columns user, x_m, y_m, rare and *value*.
        value: the column of the colours.
        caption: label of the colour bar.
        nodes: columns role, x_m, y_m.
        percent: scale of the colours of shares in percent, from `style.percent_norm`; others begin at 0.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    positions = pd.concat([users, nodes])[["x_m", "y_m"]].to_numpy(float)
    unit = 1.0
    unit_name = "m"
    if np.ptp(positions, axis=0).max() > 2000:
        unit = 1e3
        unit_name = "km"
    positions = positions / unit
    x = users["x_m"] / unit
    y = users["y_m"] / unit
    rare = users["rare"]
    ax.scatter(x[rare], y[rare], s=130, facecolors="none", edgecolors=style.RED, linewidths=1.6)
    dots: dict[str, Any] = {"c": users[value], "cmap": "viridis", "s": 42, "edgecolors": style.INK, "lw": 0.5}
    bar: dict[str, Any] = {"location": "bottom", "shrink": 0.85, "aspect": 28, "pad": 0.03}
    if percent is None:
        ax.figure.colorbar(ax.scatter(x, y, vmin=0, **dots), ax=ax, label=caption, **bar)
    else:
        style.percent_bar(ax, ax.scatter(x, y, norm=percent, **dots), caption, **bar)
    if nodes is not None:
        _draw_nodes(ax, nodes, unit)

    # a square around all users and nodes, with a margin
    low = positions.min(axis=0)
    high = positions.max(axis=0)
    east, north = (low + high) / 2
    reach = 0.6 * max(float((high - low).max()), 1e-9)
    ax.set(xlim=(east - reach, east + reach), ylim=(north - reach, north + reach), aspect="equal")
    ax.set(xlabel=f"east ({unit_name})", ylabel=f"north ({unit_name})")
    if len(users) <= MAX_NUMBERS:
        _number_users(ax, users, positions)
    _draw_scale(ax, scale_length(2 * reach), unit_name)
    return ax


def _number_users(ax: Axes, users: pd.DataFrame, positions: Floats) -> None:
    """Write the numbers of *users*, the first of *positions*, where they overlap nothing."""
    points = 72.0 / ax.figure.dpi * min(ax.bbox.width, ax.bbox.height) / np.ptp(ax.get_xlim())  # in a unit of the map
    texts = users["user"].astype(str).tolist()
    sizes = np.array([(0.65 * len(text), 1.0) for text in texts]) * _NUMBER_SIZE  # width and height
    radii = np.full(len(positions), 5.0)  # of a dot and its edge; the larger marks of nodes are narrow
    user_radii = radii[: len(users)]
    user_radii[users["rare"].to_numpy(bool)] = 7.5  # in place: that of the ring
    places = place_labels(positions * points, sizes, radii) / points
    for text, (east, north) in zip(texts, places, strict=True):
        if np.isfinite(east):  # there is room
            ax.text(east, north, text, ha="center", va="center", fontsize=_NUMBER_SIZE)


def _draw_scale(ax: Axes, length: float, unit: str) -> None:
    """Draw a scale bar into the empty margin at the bottom of a map."""
    west, east = ax.get_xlim()
    south, north = ax.get_ylim()
    left = west + 0.03 * (east - west)
    bottom = south + 0.035 * (north - south)
    ax.plot([left, left + length], [bottom, bottom], color=style.INK, linewidth=2.0, solid_capstyle="butt")
    right = left + length + 0.015 * (east - west)
    ax.text(right, bottom, f"{length:g} {unit}", va="center", fontsize=_NUMBER_SIZE)


def _bars(spans: pd.DataFrame, unit: float, hue: str) -> PolyCollection:
    """Return a bar in the row of each span, from its beginning to its end in *unit*."""
    left = spans["from_s"].to_numpy() / unit
    right = spans["to_s"].to_numpy() / unit
    low = spans["row"].to_numpy() - 0.4
    high = spans["row"].to_numpy() + 0.4
    corners = np.stack([[left, low], [right, low], [right, high], [left, high]])  # [corners, 2, spans]
    return PolyCollection(list(corners.transpose(2, 0, 1)), facecolors=hue, linewidths=0, rasterized=len(spans) > 1500)


def _draw_nodes(ax: Axes, nodes: pd.DataFrame, unit: float) -> None:
    """Draw the nodes of each role, with a legend of the roles."""
    marks = {}
    for role, (marker, size) in _NODE_MARKERS.items():
        of_role = nodes[nodes["role"] == role]
        if len(of_role):
            look: dict[str, Any] = {"marker": marker, "s": size, "color": style.INK, "alpha": 0.75, "zorder": 3}
            marks[role] = ax.scatter(of_role["x_m"] / unit, of_role["y_m"] / unit, **look, linewidths=0)
    spacing: dict[str, Any] = {"ncols": 3, "handletextpad": 0.2, "columnspacing": 0.9}
    style.add_legend(ax, list(marks.values()), list(marks), loc="lower left", bbox_to_anchor=(0.0, 1.0), **spacing)
