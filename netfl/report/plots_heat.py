"""A heat map of how well users are served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from netfl.report import canvas


def user_heat(accuracy: pd.DataFrame, *, learners: Sequence[str], ax: Axes | None = None) -> Axes:
    """Final accuracy of each learner on each user's data, users from the most often heard to the least.

    Users that hold a rare class have bold, coloured numbers; of more than 60 users no numbers are shown.

    Args:
        accuracy: columns learner, user, value, heard and rare, of one replica.
        learners: the rows; those without such figures are left out.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    order = accuracy.drop_duplicates("user").sort_values(["heard", "user"], ascending=[False, True])
    named = [name for name in learners if (accuracy["learner"] == name).any()]
    table = accuracy.pivot_table(index="learner", columns="user", values="value").reindex(named)[order["user"]]
    shown = ax.imshow(100.0 * table.to_numpy(float), aspect="auto", cmap="cividis", vmin=0.0, vmax=100.0)
    ax.figure.colorbar(shown, ax=ax, label="accuracy (%)", pad=0.02)
    ax.set_yticks(np.arange(len(named)), labels=named)
    few = len(order) <= 60
    ax.set_xticks(range(len(order)) if few else [], labels=order["user"].astype(str).tolist() if few else [])
    ax.tick_params(length=0)
    ax.tick_params(axis="x", labelsize=7 if len(order) > 20 else 9)
    for text, marked in zip(ax.get_xticklabels(), order["rare"], strict=False):
        if marked:
            text.set(color=canvas.RED, fontweight="bold")
    ax.grid(visible=False)
    ax.set_xlabel("user, from most to least heard")
    return ax
