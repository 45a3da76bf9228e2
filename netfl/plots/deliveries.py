"""Plots of participation and of the outcomes of updates."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from netfl.plots import style
from netfl.results import aggregates
from netfl.results.formatting import format_count
from netfl.types import OUTCOMES

OUTCOME_COLOURS = dict(
    zip(
        OUTCOMES,
        (
            style.GREEN, "#c9b300", "#8a6d00", style.ORANGE, style.PINK, style.BROWN, style.VIOLET, style.SKY,
            "#aab0bb", "#9a8f6a", "#7c8390", "#4a7c88", "#b07aa1",
        ),
        strict=True,
    )
)  # fmt: skip
"""Colour of each outcome, the same in every plot."""

MAX_USERS = 2_000
"""Maximum number of users in one plot; of more, evenly spaced ones are drawn."""

_MAX_BARS = 80
"""Maximum number of users with a bar each."""

_MAX_LABELS = 60
"""Maximum number of users with numbers beside their rows."""

COMMON = style.BLUE
"""Colour of users without rare classes."""

RARE = style.RED
"""Colour of users with rare classes."""

BLOCKS = (style.RED, style.VIOLET, style.GREEN, style.BROWN, style.YELLOW, style.GREY)
"""Colours of users in blocks, by the order of the blocks' names."""


def participation_bars(
    users: pd.DataFrame,
    deliveries: pd.DataFrame | None = None,
    *,
    by: str = "delivered",
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of deliveries of each user as bars; a cross marks users without any.

    Args:
        users: `Run.users`; with columns delivered and rare, *deliveries* and *rare* are not needed.
        deliveries: `Run.deliveries`.
        by: sort key, ``delivered`` (descending) or ``distance_m`` (ascending).
        rare: users that hold one of these classes have a different colour.
        replica: the replica to draw.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    rows, remark = aggregates.sample_users(users_with_counts(users, deliveries, rare, replica), MAX_USERS, by)
    positions = np.arange(len(rows))
    hues, legend = user_hues(rows)
    heights = rows["delivered"].to_numpy(float)
    never = heights == 0
    rasterized = len(rows) > 1000
    crosses: dict[str, Any] = {"marker": "x", "s": 18, "lw": 1.2, "clip_on": False, "zorder": 3}
    ax.scatter(positions[never], np.zeros(never.sum()), c=hues[never], **crosses, rasterized=rasterized)
    if len(rows) > _MAX_BARS:  # one outline for each colour
        edges = np.arange(len(rows) + 1) - 0.5
        for hue in np.unique(hues):
            values = np.where(hues == hue, heights, 0.0)
            ax.stairs(values, edges, fill=True, color=hue, rasterized=rasterized)
        ax.set_xticks([])
    else:
        ax.bar(positions, heights, color=hues)
        label_users(ax, rows)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.grid(visible=False, axis="x")
    ax.margins(x=0.01)
    label = f"user, {order_label(by)}"
    if remark:
        label = f"{label} ({remark})"
    ax.set(xlabel=label, ylabel="deliveries")
    if legend:
        style.box_legend(ax, legend, loc="upper right")
    return ax


def participation(
    users: pd.DataFrame,
    deliveries: pd.DataFrame,
    rounds: pd.DataFrame | None = None,
    *,
    rare: Collection[int] = (),
    replica: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw user × round: the deliveries of each user, from the most frequent user (top) to the least.

    Args:
        users: `Run.users`, with or without columns delivered and rare.
        deliveries: `Run.deliveries`.
        rounds: `Run.rounds`, for the last round; by default that of the last delivery.
        rare: users that hold one of these classes have a different colour.
        replica: the replica to draw.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    counts = users_with_counts(users, deliveries, rare, replica)
    rows, remark = aggregates.sample_users(counts, MAX_USERS)
    deliveries = deliveries[deliveries["replica"] == replica]
    last = 1
    with_rounds = deliveries if rounds is None else rounds
    if len(with_rounds):
        last = max(1, int(with_rounds["round"].max()))
    shares = aggregates.delivery_shares(deliveries, rows["user"], last)  # [users, bins]
    hues, _ = user_hues(rows)
    for hue in np.unique(hues):  # one image for each colour, transparent where its users have no delivery
        ax.imshow(
            np.where((hues == hue)[:, None], shares, 0.0),
            aspect="auto",
            cmap=_transparent_map(hue),
            vmin=0.0,
            vmax=max(float(shares.max(initial=0.0)), 1e-9),
            extent=(0.5, last + 0.5, len(rows) - 0.5, -0.5),
        )
    labels = []
    if len(rows) <= _MAX_LABELS:
        labels = rows["user"].astype(str).tolist()
    ax.set_yticks(range(len(labels)), labels=labels, fontsize=7 if len(rows) > 12 else 9)
    ax.grid(visible=False)
    ylabel = "user"
    if remark:  # some users are left out
        ylabel = f"user ({format_count(len(rows))} of {format_count(len(counts))})"
    ax.set(xlabel="round", ylabel=ylabel)
    return ax


def outcomes(
    events: pd.DataFrame,
    rounds: pd.DataFrame | None = None,
    *,
    attempts: bool = False,
    every: int = 1,
    inside: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the outcomes of updates per round, stacked, mean over replicas.

    Args:
        events: `Run.events`.
        rounds: `Run.rounds`, for the number of rounds and replicas; by default those with events.
        attempts: draw failed attempts by cause in place of updates.
        every: events of one round in this number were recorded; see ``record`` in the scenario.
        inside: put the legend above the areas, inside the axes, instead of to their right.
        ax: axes to draw on.

    Raises:
        ValueError: no such events were recorded.
    """
    rows = aggregates.failures(events) if attempts else aggregates.outcomes(events)
    if rows.empty:
        raise ValueError("the table has no such events; the scenario's 'record' selects the events to keep")
    ax = style.new_axes(ax)
    with_rounds = rows if rounds is None else rounds
    last_rounds = with_rounds.groupby("replica")["round"].max()
    table = aggregates.outcome_bins(rows, last_rounds.tolist(), every=every)
    names = [name for name in OUTCOMES if name in table]
    names += sorted(set(map(str, table)) - set(names))  # causes of failures that are no outcomes
    edges = np.append(table.index, last_rounds.max() + 1)
    base = np.zeros(len(table))
    patches = []
    for index, name in enumerate(names):
        hue = OUTCOME_COLOURS.get(name, style.PALETTE[index % len(style.PALETTE)])
        top = base + table[name].to_numpy()
        patches.append(ax.stairs(top, edges, baseline=base, fill=True, color=hue, linewidth=0))
        base = top
    labels = [name.replace("_", " ") for name in names]
    if inside:
        legend_rows = math.ceil(len(labels) / 3)
        ax.set_ylim(0.0, 1.1 * float(base.max(initial=1.0)) * (1.0 + 0.1 * legend_rows))
        style.add_legend(ax, patches, labels, loc="upper left", ncols=3)
    else:  # in the order in which the areas are stacked
        style.add_legend(ax, patches[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.margins(x=0)
    ax.grid(visible=False, axis="x")
    ax.set(xlabel="round", ylabel="failed attempts per round" if attempts else "updates per round")
    return ax


def users_with_counts(
    users: pd.DataFrame, deliveries: pd.DataFrame | None, rare: Collection[int], replica: int
) -> pd.DataFrame:
    """Return the users of one replica with their number of deliveries ``delivered`` and ``rare``."""
    if deliveries is not None and "delivered" not in users:
        users = aggregates.with_delivery_counts(users, deliveries, rare)
    if "replica" not in users:
        return users
    return users[users["replica"] == replica].reset_index(drop=True)


def user_hues(users: pd.DataFrame) -> tuple[NDArray[np.str_], dict[str, str]]:
    """Return the colour of each user, and the legend of the colours, empty if all are alike.

    Users have a colour by their block, or else by whether they hold a rare class.

    Args:
        users: columns ``rare`` and, with blocks of users, ``block``.
    """
    if "block" in users and (users["block"] != "").any():
        names = sorted({*users["block"]} - {""})
        colours = {name: BLOCKS[number % len(BLOCKS)] for number, name in enumerate(names)}
        hues = np.array([colours.get(name, COMMON) for name in users["block"]])
        legend = {"other users": COMMON}
        legend |= {f"block {name}": colour for name, colour in colours.items()}
        return hues, legend
    hues = np.where(users["rare"], RARE, COMMON)
    if not users["rare"].any():
        return hues, {}
    return hues, {"other users": COMMON, "hold a rare class": RARE}


def label_users(ax: Axes, users: pd.DataFrame) -> None:
    """Put the users' numbers on the x axis."""
    text: dict[str, Any] = {"fontsize": 9, "rotation": 0}
    if len(users) > 15:  # horizontal numbers would overlap
        text = {"fontsize": 7, "rotation": 90}
    ax.set_xticks(range(len(users)), labels=users["user"].astype(str).tolist(), **text)


def order_label(by: str) -> str:
    """Return the order of users that are sorted by ``delivered`` or by distance, in words."""
    if by == "delivered":
        return "from most to fewest deliveries"
    return "from nearest to farthest"


def _transparent_map(hue: str) -> ListedColormap:
    """Return a colour map from transparent to *hue*, in which even one delivery is visible."""
    alpha = np.concatenate([[0.0], np.linspace(0.45, 1.0, 255)])
    return ListedColormap([(*to_rgb(hue), step) for step in alpha])
