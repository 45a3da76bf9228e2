"""The overview of a run as one PNG file: learning above, participation and outcomes below."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netfl.plots import deliveries as delivery_plots
from netfl.plots import learning as learning_plots
from netfl.plots import style
from netfl.report.page import caption
from netfl.report.run_data import RunData, read_run_data
from netfl.report.summary_text import run_facts, verdict_metrics
from netfl.results import aggregates, formatting, statistics
from netfl.results.formatting import accuracy_of_block, capitalized, class_names, learning_label
from netfl.results.metrics import metrics_in, with_reported
from netfl.results.run_reader import Run

_LINES = 12
"""Maximum number of metrics in a column."""
_CHARACTERS = 180
"""Number of characters of a line below the plots."""


def picture(run: Run) -> Path:
    """Write ``overview.png`` into the run directory; a run without learners has only the lower half."""
    with with_reported(run.reported):
        return _picture(read_run_data(run))


def _picture(data: RunData) -> Path:
    rows = 2 if data.learners else 1

    def paint(figure: Figure) -> None:
        parts = figure.subfigures(rows, 1, squeeze=False)[:, 0]
        cells = [part.subplots(1, 2) for part in parts]
        figure.suptitle(data.name, x=0.012, ha="left", fontweight="bold", fontsize=13)
        figure.text(0.988, 0.985, run_facts(data), ha="right", va="top", fontsize=8, alpha=0.7)
        figure.supxlabel(fill(_legend(data), _CHARACTERS), x=0.012, ha="left", fontsize=7, alpha=0.7)
        if data.learners:
            _draw_learning(data, *cells[0])
            learning_plots.learner_legend(parts[0], data.learners, diverged=data.diverged, ncols=6, fontsize=8)
        if data.duration_s is None:
            _draw_access(data, *cells[-1])
        else:
            _draw_metrics(data, *cells[-1])

    return style.png(paint, data.run.folder / "overview.png", size=(10.4, 3.3 * rows))


def _legend(data: RunData) -> str:
    """Return the line below the plots: the state of the comparison, and the meaning of the curves."""
    remarks = [data.run.comparison]
    if data.learners:
        is_smoothed = any(aggregates.smoothing_window(data.metrics, metric) > 1 for metric in verdict_metrics())
        remarks.append(caption("overview", data, is_smoothed))
    return "; ".join(remark for remark in remarks if remark)


def _draw_learning(data: RunData, *cells: Axes) -> None:
    """Draw accuracy and rare-class accuracy, or that of the worst users if no class is rare; R² of a regression.

    With two blocks of users or more, the accuracies of the first two are drawn, as each has its own trouble; with one,
    that of all and that of the block.
    """
    titles = {metric: title for metric, title in metrics_in("headline", is_learned=True).items() if data.has(metric)}
    if data.rare_classes and "rare_accuracy" in titles:
        titles["rare_accuracy"] = f"Rare-class accuracy ({class_names(data.rare_classes)})"
    in_trouble = [name for name in map(accuracy_of_block, data.run.blocks[:-1]) if data.has(name)]  # the last: others
    of_blocks = {name: capitalized(learning_label(name)) for name in in_trouble[:2]}
    if len(of_blocks) == 1:
        titles = {"accuracy": titles["accuracy"]} | of_blocks
    elif of_blocks:
        titles = of_blocks
    for (metric, title), ax in zip(titles.items(), cells, strict=False):
        learning_plots.curves(data.metrics, metric, rounds=data.ends, learners=data.learners, ax=ax)
        style.without_legend(ax).set_title(title or capitalized(learning_label(metric)))
    for ax in cells[len(titles) :]:
        _draw_note(ax, "no values")


def _draw_access(data: RunData, left: Axes, right: Axes) -> None:
    if data.lacks("rounds", "deliveries"):
        _draw_note(left, "a table is missing")
    elif data.first_users.empty or data.run.rounds.empty:
        _draw_note(left, "no rounds yet")
    else:
        delivery_plots.participation_bars(data.first_users, replica=data.first, ax=left)
        title = "Participation"
        if len(data.replicas) > 1:
            title += f" in replica {data.first}"
        left.set_title(title)
    if data.lacks("rounds", "events"):
        _draw_note(right, "a table is missing")
    elif data.outcomes.empty or data.run.rounds.empty:
        _draw_note(right, "no outcomes were recorded")
    else:
        every = (data.run.manifest.get("events_thinned") or {}).get("every", 1)
        delivery_plots.outcomes(data.outcomes, data.run.rounds, every=every, inside=True, ax=right)
        right.set_title("Outcomes of updates")


def _draw_metrics(data: RunData, left: Axes, right: Axes) -> None:
    names = data.access_metrics[: 2 * _LINES]
    summary = data.run.summary
    if not names:
        _draw_note(left, "no metrics yet")
        _draw_note(right, "")
        return
    lines = min(_LINES, math.ceil(len(names) / 2))
    replicas = int(summary.get("replicas", 1))
    for ax, column in ((left, names[:lines]), (right, names[lines:])):
        ax.set_axis_off()
        for line, name in enumerate(column):
            half = summary.get(name + statistics.HALF)
            value = formatting.format_metric(name, summary[name], half, replicas)
            options: dict[str, Any] = {"y": 1.0 - line / _LINES, "va": "top", "transform": ax.transAxes}
            ax.text(x=0.0, s=formatting.metric_label(name), **options)
            ax.text(x=0.78, s=value, ha="right", fontweight="bold", **options)


def _draw_note(ax: Axes, note: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, note, ha="center", va="center", transform=ax.transAxes, alpha=0.6)
