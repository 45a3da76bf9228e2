"""Pictures of a network: who was cut off when, and where everybody stands.  Each takes tables and returns Axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from netfl.report import canvas, phrases

DOWN, CUT = canvas.BROWN, "#9aa1ad"
"""Colours of what is down itself, and of users whose tower is down."""

HEARD = canvas.GREEN
"""The colour of the instants at which a user was heard."""


def outage_lines(
    down: pd.DataFrame,
    cut: pd.DataFrame,
    heard: pd.DataFrame,
    *,
    labels: Sequence[str],
    rare: Sequence[bool],
    end_s: float,
    ax: Axes | None = None,
) -> Axes:
    """Who was cut off, when: a row for each node and user, bars while it was down, ticks when it was heard.

    Args:
        down: columns row, from_s and to_s: what was down itself.
        cut: the same, for users whose tower was down.
        heard: columns row and arrived_s.
        labels: what each row is called.
        rare: whether each row is a user that holds a rare class.
        end_s: the end of the run, in seconds.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    unit, name = phrases.clock(end_s)
    for table, hue in ((cut, CUT), (down, DOWN)):
        ax.add_collection(_bars(table, unit, hue))
    at = heard["arrived_s"] / unit
    ax.plot(at, heard["row"], "|", color=HEARD, markersize=6, markeredgewidth=1.2, rasterized=len(heard) > 1500)
    ax.set(xlim=(0.0, end_s / unit), ylim=(len(labels) - 0.5, -0.5), xlabel=f"simulated time ({name})")
    ax.set_yticks(range(len(labels)), labels=list(labels), fontsize=7 if len(labels) > 12 else 9)
    for text, marked in zip(ax.get_yticklabels(), rare, strict=True):
        if marked:
            text.set(color=canvas.RED, fontweight="bold")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    boxes = [Rectangle((0, 0), 1, 1, color=hue) for hue in (DOWN, CUT, HEARD)]
    names = ["down", "its tower was down", "heard"]
    canvas.legend(ax, boxes, names, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return ax


def _bars(table: pd.DataFrame, unit: float, hue: str) -> PolyCollection:
    """One rectangle for each row of *table*, as a single artist."""
    left, right = table["from_s"].to_numpy() / unit, table["to_s"].to_numpy() / unit
    low, high = table["row"].to_numpy() - 0.4, table["row"].to_numpy() + 0.4
    corners = np.stack([[left, low], [right, low], [right, high], [left, high]]).transpose(2, 0, 1)
    return PolyCollection(list(corners), facecolors=hue, linewidths=0, rasterized=len(table) > 1500)


def user_map(
    users: pd.DataFrame, value: str, caption: str, *, nodes: pd.DataFrame | None = None, ax: Axes | None = None
) -> Axes:
    """Where users stand, coloured by a figure of theirs; users that hold rare classes have a ring.

    Args:
        users: columns user, x_m, y_m, rare and *value*.
        value: the column that gives the colour.
        caption: what the colour means; a figure in ``(%)`` has its colours from 0 to 100.
        nodes: columns role, x_m and y_m of towers, routers and the server.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    places = pd.concat([users, nodes])[["x_m", "y_m"]]
    unit, name = (1e3, "km") if np.ptp(places.to_numpy(), axis=0).max() > 2000 else (1.0, "m")
    at_x, at_y, ring = users["x_m"] / unit, users["y_m"] / unit, users["rare"]
    ax.scatter(at_x[ring], at_y[ring], s=130, facecolors="none", edgecolors=canvas.RED, linewidths=1.6)
    top = 100.0 if caption.endswith("(%)") else None
    dots = ax.scatter(at_x, at_y, c=users[value], cmap="viridis", vmin=0, vmax=top, s=42, edgecolors=canvas.INK, lw=0.5)
    ax.figure.colorbar(dots, ax=ax, label=caption, location="bottom", shrink=0.85, aspect=28, pad=0.03)
    if len(users) <= 60:
        for user, x, y in zip(users["user"], at_x, at_y, strict=True):
            ax.annotate(str(user), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=6.5)
    if nodes is not None:
        _infrastructure(ax, nodes, unit)
    _square(ax, places.to_numpy(float) / unit)
    ax.set(xlabel=f"east ({name})", ylabel=f"north ({name})")
    return ax


def _square(ax: Axes, places: NDArray[np.float64]) -> None:
    """Show all of *places* at one scale in a square."""
    low, high = places.min(axis=0), places.max(axis=0)
    reach = 0.56 * max(float((high - low).max()), 1e-9)
    (x, y) = (low + high) / 2
    ax.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach), aspect="equal")


def _infrastructure(ax: Axes, nodes: pd.DataFrame, unit: float) -> None:
    """Towers, routers and the server, each with a mark of its own."""
    marks = {"tower": ("^", 70), "router": ("s", 40), "server": ("*", 150)}
    drawn = {}
    for role, (mark, size) in marks.items():
        rows = nodes[nodes["role"] == role]
        if len(rows):
            x, y = rows["x_m"] / unit, rows["y_m"] / unit
            drawn[role] = ax.scatter(x, y, marker=mark, s=size, color=canvas.INK, alpha=0.75, linewidths=0, zorder=3)
    where = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "handletextpad": 0.2, "columnspacing": 0.9}
    canvas.legend(ax, list(drawn.values()), list(drawn), **where)
