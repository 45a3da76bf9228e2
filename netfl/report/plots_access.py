"""Pictures of who was heard and what became of updates.  Each takes tables and returns Axes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from netfl.report import canvas, tallies
from netfl.types import FATES

FATE_COLOURS = dict(
    zip(
        FATES,
        (
            canvas.GREEN,
            canvas.YELLOW,
            "#8a6d00",
            canvas.ORANGE,
            canvas.PINK,
            canvas.BROWN,
            canvas.ROSE,
            canvas.SKY,
            "#aab0bb",
            "#7c8390",
        ),
        strict=True,
    )
)
"""A colour for each fate, the same in every picture."""

MOST = 2_000
"""More users than this are not drawn one by one, but so many of them."""

COMMON, RARE = canvas.BLUE, canvas.RED
"""Colours of users without and with rare classes."""


def heard(users: pd.DataFrame, *, by: str = "heard", ax: Axes | None = None) -> Axes:
    """How often each user was heard, as bars; users that hold rare classes have their own colour.

    Args:
        users: columns user, heard and rare, and *by*.
        by: the column to sort by, ``heard`` (most first) or ``distance_m`` (nearest first).
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    rows, few = tallies.sample_users(users, MOST, by)
    places = np.arange(len(rows))
    hues = np.where(rows["rare"], RARE, COMMON)
    heights, many = rows["heard"].to_numpy(float), len(rows) > 1000
    never = heights == 0
    ax.scatter(
        places[never],
        np.zeros(never.sum()),
        marker="x",
        c=hues[never],
        s=18,
        lw=1.2,
        clip_on=False,
        zorder=3,
        rasterized=many,
    )
    if len(rows) > 80:
        for hue in (COMMON, RARE):
            own = np.where(hues == hue, heights, 0.0)
            ax.stairs(own, np.arange(len(rows) + 1) - 0.5, fill=True, color=hue, rasterized=many)
        ax.set_xticks([])
    else:
        ax.bar(places, heights, color=hues)
        size, turn = (7, 90) if len(rows) > 15 else (9, 0)
        ax.set_xticks(places, labels=rows["user"].astype(str).tolist(), fontsize=size, rotation=turn)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.01)
    order = "from most to least heard" if by == "heard" else "from nearest to farthest"
    ax.set(xlabel=f"user, {order}{f' ({few})' if few else ''}", ylabel="times heard")
    if users["rare"].any():
        boxes = [Rectangle((0, 0), 1, 1, color=hue) for hue in (COMMON, RARE)]
        canvas.legend(ax, boxes, ["other users", "hold a rare class"], loc="upper right")
    return ax


def participation(
    share: NDArray[np.float64],
    labels: list[str],
    rounds: int,
    *,
    rare: list[bool],
    few: str = "",
    ax: Axes | None = None,
) -> Axes:
    """When each user was heard: a row for each user, dark where it was.

    Args:
        share: ``[users, bins]``: how often each was heard in equal bins of rounds.
        labels: what each row is called.
        rounds: the last round.
        rare: whether each user holds a rare class; those rows have their own colour.
        few: which users these are, where they are not all.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    top = max(float(share.max(initial=0.0)), 1e-9)
    marked = np.asarray(rare, bool)[:, None]
    for hue, rows in ((COMMON, ~marked), (RARE, marked)):
        ax.imshow(
            np.where(rows, share, 0.0),
            aspect="auto",
            cmap=_veil(hue),
            vmin=0.0,
            vmax=top,
            extent=(0.5, rounds + 0.5, len(labels) - 0.5, -0.5),
        )
    named = len(labels) <= 60
    ax.set_yticks(
        range(len(labels)) if named else [], labels=labels if named else [], fontsize=7 if len(labels) > 12 else 9
    )
    ax.grid(visible=False)
    ax.set(xlabel="round", ylabel=f"user ({few})" if few else "user")
    return ax


def _veil(hue: str) -> ListedColormap:
    """From nothing to *hue*; already a single delivery is seen."""
    alpha = np.concatenate([[0.0], np.linspace(0.45, 1.0, 255)])
    return ListedColormap([(*to_rgb(hue), step) for step in alpha])


def fate_areas(table: pd.DataFrame, *, inside: bool = False, ax: Axes | None = None) -> Axes:
    """What became of updates over the rounds, stacked.

    Args:
        table: an index of first rounds of equal bins, a column of counts per round for each fate.
        inside: whether the legend stands above the areas, inside the axes, or else to their right.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    known = [fate for fate in FATES if fate in table]
    table = table[[*known, *sorted(set(map(str, table)) - set(known))]]
    step = table.index[1] - table.index[0] if len(table) > 1 else 1
    edges = np.append(table.index.to_numpy(), table.index[-1] + step)
    base = np.zeros(len(table))
    patches = []
    for index, fate in enumerate(table):
        hue = FATE_COLOURS.get(str(fate), canvas.PALETTE[index % len(canvas.PALETTE)])
        above = base + table[fate].to_numpy()
        patches.append(ax.stairs(above, edges, baseline=base, fill=True, color=hue, linewidth=0))
        base = above
    names = [str(fate).replace("_", " ") for fate in table]
    if inside:
        ax.set_ylim(0.0, 1.1 * float(base.max(initial=1.0)) * (1.0 + 0.1 * math.ceil(len(names) / 3)))
        canvas.legend(ax, patches, names, loc="upper left", ncols=3)
    else:
        canvas.legend(ax, patches[::-1], names[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.margins(x=0)
    ax.grid(visible=False, axis="x")
    ax.set(xlabel="round", ylabel="per round")
    return ax
