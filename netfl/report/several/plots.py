"""Pictures of several runs side by side.  Each takes tables that name the run and returns Axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from netfl.report import canvas, measures, phrases, plots_learning
from netfl.report.plots_access import FATE_COLOURS
from netfl.results import formatting
from netfl.types import FATES

POINTS = 400
"""A curve of more evaluations is thinned out to about so many."""

Strokes = Mapping[tuple[str, str], dict[str, Any]]
"""How the line of each run and learner is drawn."""


def strokes(runs: Sequence[str], learners: Sequence[str]) -> Strokes:
    """A colour for each learner and a dash for each run; of one learner, a colour and a dash for each run."""
    hues, dashes = canvas.line_styles(learners), canvas.line_styles(runs)
    if len(learners) == 1:
        return {(run, learners[0]): dashes[run] for run in runs}
    return {
        (run, learner): hues[learner] | {"linestyle": dashes[run]["linestyle"]} for run in runs for learner in learners
    }


def courses(tables: Mapping[str, pd.DataFrame], metric: str, over: measures.Over) -> pd.DataFrame:
    """A metric's course in each run: columns run, learner, at, mean, low and high, as `measures.curve` has them.

    Args:
        tables: the metrics of each run, with what was spent by then; see `measures.spent`.
        metric: which metric.
        over: what it runs over.
    """
    parts = []
    for run, metrics in tables.items():
        found = measures.curve(metrics, metric, over=over, smooth=measures.smoothing_window(metrics, metric))
        for learner, rows in found.groupby("learner", sort=False):
            step = max(1, len(rows) // POINTS)
            kept = rows.iloc[::-1].iloc[::step].iloc[::-1]
            parts.append(kept.assign(run=run, learner=learner))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["run", "learner", "at", "mean", "low", "high"])


def curves(
    table: pd.DataFrame,
    metric: str,
    *,
    over: measures.Over = "round",
    how: Strokes,
    reach: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A metric of learners in several runs: means over replicas with their 95 % t-intervals.

    Args:
        table: from `courses`.
        metric: which metric; accuracies are drawn in percent.
        over: what it runs over.
        how: how each run and learner is drawn; others are left out.
        reach: the end of the axis; by default that of the longest curve.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    scale = 100.0 if metric in formatting.SHARES else 1.0
    reach = float(table["at"].max()) if reach is None and len(table) else reach or 0.0
    unit, name = phrases.axis_unit(over, reach)
    for (run, learner), stroke in how.items():
        rows = table[(table["run"] == run) & (table["learner"] == learner)]
        band = {"color": stroke["color"], "alpha": min(0.18, 0.6 / len(how)), "lw": 0}
        ax.fill_between(rows["at"] / unit, scale * rows["low"], scale * rows["high"], **band)
        ax.plot(rows["at"] / unit, scale * rows["mean"], **stroke)
    ax.autoscale(axis="y")  # anew, as panels that share it may have been drawn before
    plots_learning.limits(ax, metric, table, scale)
    ax.set(xlabel=name, xlim=(0.0, max(reach, 1e-12) / unit * 1.01))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=over == "round", steps=[1, 2, 5, 10]))
    return ax


def rates(heard: Mapping[str, Iterable[float]], *, ax: Axes | None = None) -> Axes:
    """How often users were heard, by rank: a step line for each run, from the most often heard.

    Args:
        heard: for each run the share of rounds in which each user was heard.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    for run, stroke in canvas.line_styles(list(heard)).items():
        shares = np.sort(100.0 * np.asarray(list(heard[run]), float))[::-1]
        ax.plot(np.arange(1, len(shares) + 1), shares, drawstyle="steps-mid", **stroke)
    ax.set(xlabel="user, from most to least heard", ylabel="heard in rounds (%)")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(left=0.5)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    return ax


def rate_heat(share: NDArray[np.float64], runs: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """How often each user was heard in each run, as a heat map.

    Args:
        share: ``[runs, users]``, as shares of rounds; NaN where a run has no such user.
        runs: what the rows are called.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    shown = ax.imshow(100.0 * share, aspect="auto", cmap="cividis", vmin=0.0)
    ax.set_yticks(range(len(runs)), labels=list(runs))
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_xlabel("user")
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    ax.figure.colorbar(shown, ax=ax, label="rounds (%)", pad=0.02)
    return ax


def fate_bars(shares: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """What became of updates in each run, as stacked bars of shares.

    Args:
        shares: a row for each run, a column for each fate.
        ax: where to draw.
    """
    ax = canvas.axes(ax)
    known = [fate for fate in FATES if fate in shares]
    base = np.zeros(len(shares))
    places = np.arange(len(shares))
    bars = []
    for fate in known:
        width = 100.0 * shares[fate].to_numpy(float)
        bars.append(ax.barh(places, width, left=base, color=FATE_COLOURS[fate], height=0.7)[0])
        base = base + width
    ax.set_yticks(places, labels=[str(run) for run in shares.index])
    ax.set(xlabel="updates (%)", xlim=(0.0, 100.0), ylim=(len(shares) - 0.4, -0.6))
    ax.grid(visible=False, axis="y")
    names = [fate.replace("_", " ") for fate in known]
    canvas.legend(ax, bars, names, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5)
    return ax


def legend(figure: Figure, how: Strokes) -> None:
    """A legend of runs and learners above all axes."""
    lines = [Line2D([], [], **stroke, linewidth=2.2) for stroke in how.values()]
    names = [f"{run} · {learner}" for run, learner in how]
    canvas.legend(figure, lines, names, loc="outside upper left", ncols=4, handlelength=3.6)
