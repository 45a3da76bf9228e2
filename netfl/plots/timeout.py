"""Plot of the time to a target over the deadline of rounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from netfl.plots import style
from netfl.results.formatting import time_unit


def timeout_curve(curve: pd.DataFrame, deadline_s: float, *, ax: Axes | None = None) -> Axes:
    """Draw the expected time to a target over the deadline, with its 95 % interval, and the recommended deadline.

    Args:
        curve: `netfl.diagnosis.timeout.Advice.curve`.
        deadline_s: the recommended deadline.
        ax: axes to draw on.
    """
    ax = style.new_axes(ax)
    shown = curve[np.isfinite(curve["high_s"])]
    across, across_name = time_unit(float(deadline_s))
    up, up_name = time_unit(float(shown["time_s"].min()))
    x = shown["deadline_s"] / across
    ax.fill_between(x, shown["low_s"] / up, shown["high_s"] / up, color=style.BLUE, alpha=0.2, linewidth=0)
    ax.plot(x, shown["time_s"] / up, color=style.BLUE)
    ax.axvline(deadline_s / across, color=style.ORANGE, linestyle="--")
    ax.annotate(
        f"{deadline_s / across:.3g} {across_name}",
        (deadline_s / across, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
    )
    style.set_logarithmic(ax, "x")
    style.set_logarithmic(ax, "y")
    ax.set_xlabel(f"deadline ({across_name})")
    ax.set_ylabel(f"time to the target ({up_name})")
    return ax
