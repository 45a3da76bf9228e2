"""Terminal view of a sweep: the results of its points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 40
"""The largest number of points in the table of results."""
COLUMNS = 12
"""The largest number of metrics in the table of results."""
_MAX_NOTES = 3
"""The largest number of sentences about the billing of learners; runs with other learners have others."""
_MISSING = ConfidenceInterval(math.nan, math.nan, 0)
"""The value of a point without one."""
_STATUSES = ("done", "partial", "missing", "pruned", "failed")


def show_sweep(sweep: Sweep, console: Console | None = None) -> None:
    """Print the results of a sweep, finished or not, on *console* or the terminal."""
    with with_reported(sweep.reported):
        _show_sweep(sweep, console or open_console())


def _show_sweep(sweep: Sweep, console: Console) -> None:
    statuses = sweep.points["status"]
    if (statuses != "missing").any():
        _show_points(sweep, console)
    unit = "points"
    if sweep.search is not None:
        unit = "trials"
        for best in sweep.search.ranked()[:1]:
            console.print(f"best: {sweep.search.describe(best, sweep.point_values(best))}", soft_wrap=True)
    counts = statuses.value_counts()
    states = ", ".join(f"{counts[status]} {status}" for status in _STATUSES if status in counts)
    console.print(f"{unit}: {states or 'none'}: {sweep.folder}", soft_wrap=True)


def _show_points(sweep: Sweep, console: Console) -> None:
    points = _first_points(sweep)
    values = _values(sweep)
    available = {(learner, metric) for _, learner, metric in values}
    wanted = [column for column in _wanted_columns(sweep) if column in available]
    replicas = int(sweep.summary["replicas"].max())
    columns = {}
    for learner, metric in wanted[:COLUMNS]:
        of_points = [values.get((number, learner, metric), _MISSING) for number in points["point"]]
        if learner:
            head = f"{learner}\n{metric_head(metric)}"
            columns[head] = [
                metric_cell(metric, value.mean, value.half, value.replicas, replicas) for value in of_points
            ]
        else:
            columns[metric_label(metric)] = format_column(metric, of_points)
    if any(learner for learner, _ in wanted):
        choices = ""
        if sweep.summary["metric"].str.endswith(LAST_ROUND).any():
            choices = f"; choices: {FINAL[LAST_ROUND]}"
        console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; accuracies in %")
        if sweep.comparison:
            console.print(f"comparison: {sweep.comparison}")
    if replicas > 1:
        console.print(mean_sentence(replicas))
    settings = {axis: [format_setting(value) for value in points[axis]] for axis in sweep.axes}
    print_columns(console, settings, columns)
    for note in sweep.billing_notes[:_MAX_NOTES]:
        console.print(note, style="dim")
    left_out = []
    if len(sweep.points) > SHOWN:
        left_out.append(f"{len(sweep.points) - SHOWN} points")
    if len(wanted) > COLUMNS:
        left_out.append(f"{len(wanted) - COLUMNS} columns")
    if left_out:
        where = f"netfl.open_sweep({str(sweep.folder)!r}).summary"
        console.print(f"and {' and '.join(left_out)} more: {where}", soft_wrap=True)


def _first_points(sweep: Sweep) -> pd.DataFrame:
    """Return the points that are shown; those of a search begin with the best."""
    points = sweep.points
    if sweep.search is not None:
        ranked = sweep.search.ranked()
        others = [number for number in points["point"] if number not in set(ranked)]
        points = points.loc[[*ranked, *others]]
    return points.head(SHOWN)


def _values(sweep: Sweep) -> dict[tuple[int, str, str], ConfidenceInterval]:
    """Return the values of the summary by point, learner (empty for the network) and metric."""
    summary = sweep.summary
    keys = zip(summary["point"], summary["learner"], summary["metric"].map(metric_of), strict=True)
    intervals = map(ConfidenceInterval, summary["mean"], summary["half"], summary["replicas"])
    return dict(zip(keys, intervals, strict=True))


def _wanted_columns(sweep: Sweep) -> list[tuple[str, str]]:
    """Return learner and metric of each column: those of the network only where no learner is evaluated."""
    learners = [name for name in sweep.summary["learner"].unique() if name]
    of_learners = list(metrics_in("points", is_learned=True))
    if sweep.summary["metric"].map(metric_of).isin(of_learners).any():
        wanted = [(learner, metric) for metric in of_learners for learner in learners]
    else:
        wanted = [("", metric) for metric in metrics_in("points", is_learned=False)]
    for metric in sweep.reported:
        wanted += [(learner, metric.name) for learner in ("", *learners)]
    return wanted
