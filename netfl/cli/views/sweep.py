"""Terminal view of a sweep: the results of its points."""

from __future__ import annotations

import math

from rich.console import Console

from netfl.cli.views import print_columns
from netfl.core.screen import open_console
from netfl.results.formatting import (
    format_column,
    format_setting,
    metric_cell,
    metric_head,
    metric_label,
)
from netfl.results.metrics import metrics_in, with_reported
from netfl.results.statistics import FINAL, LAST_ROUND, LAST_TENTH, ConfidenceInterval, mean_sentence, metric_of
from netfl.sweeps import Sweep

SHOWN = 40
"""The largest number of points in the table of results."""
COLUMNS = 12
"""The largest number of metrics in the table of results."""
_MAX_NOTES = 3
"""The largest number of sentences about the billing of learners; runs with other learners have others."""
_STATUSES = ("done", "partial", "missing", "pruned", "failed")


def show_sweep(sweep: Sweep, console: Console | None = None) -> None:
    """Print the results of a sweep, finished or not, on *console* or the terminal."""
    with with_reported(sweep.reported):
        _show_sweep(sweep, console or open_console())


def _show_sweep(sweep: Sweep, console: Console) -> None:
    points = sweep.points
    if (points["status"] != "missing").any():
        _show_points(sweep, console)
    counts = points["status"].value_counts()
    statuses = ", ".join(f"{counts[status]} {status}" for status in _STATUSES if status in counts)
    if sweep.search is not None:
        for number in sweep.search.ranked()[:1]:
            console.print(f"best: {sweep.search.describe(number, sweep.point_values(number))}", soft_wrap=True)
    unit = "points" if sweep.search is None else "trials"
    console.print(f"{unit}: {statuses or 'none'}: {sweep.folder}", soft_wrap=True)


def _show_points(sweep: Sweep, console: Console) -> None:
    points = sweep.points
    summary = sweep.summary
    if sweep.search is not None:
        ranked = sweep.search.ranked()
        points = points.loc[[*ranked, *(number for number in points["point"] if number not in {*ranked})]]
    points = points.head(SHOWN)
    replicas = int(summary["replicas"].max())
    metrics = summary["metric"].map(metric_of)
    learners = [name for name in summary["learner"].unique() if name]
    of_learners = [*metrics_in("points", is_learned=True)]
    if metrics.isin(of_learners).any():
        wanted = [(name, metric) for metric in of_learners for name in learners]
    else:
        wanted = [("", metric) for metric in metrics_in("points", is_learned=False)]
    wanted += [(name, metric.name) for metric in sweep.reported for name in ("", *learners)]
    keys = zip(summary["point"], summary["learner"], metrics, strict=True)
    values = dict(zip(keys, zip(summary["mean"], summary["half"], summary["replicas"], strict=True), strict=True))
    available = {(name, metric) for _, name, metric in values}
    wanted = [pair for pair in wanted if pair in available]
    columns = {}
    for name, metric in wanted[:COLUMNS]:
        known = [values.get((number, name, metric), (math.nan, math.nan, 0)) for number in points["point"]]
        if name:
            head = f"{name}\n{metric_head(metric)}"
            columns[head] = [metric_cell(metric, *value, replicas) for value in known]
        else:
            columns[metric_label(metric)] = format_column(metric, [ConfidenceInterval(*value) for value in known])
    if any(name for name, _ in wanted):
        has_choices = summary["metric"].str.endswith(LAST_ROUND).any()
        choices = f"; choices: {FINAL[LAST_ROUND]}" if has_choices else ""
        console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; accuracies in %")
        if sweep.comparison:
            console.print(f"comparison: {sweep.comparison}")
    if replicas > 1:
        console.print(mean_sentence(replicas))
    print_columns(console, {axis: [*map(format_setting, points[axis])] for axis in sweep.axes}, columns)
    for note in sweep.billing_notes[:_MAX_NOTES]:
        console.print(note, style="dim")
    left_out = [f"{len(sweep.points) - SHOWN} points"] if len(sweep.points) > SHOWN else []
    left_out += [f"{len(wanted) - COLUMNS} columns"] if len(wanted) > COLUMNS else []
    if left_out:
        where = f"netfl.open_sweep({str(sweep.folder)!r}).summary"
        console.print(f"and {' and '.join(left_out)} more: {where}", soft_wrap=True)
