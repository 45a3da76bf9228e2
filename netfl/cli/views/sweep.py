"""Terminal view of a sweep: the progress of its tasks and the results of its points."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from netfl.cli.views import print_columns
from netfl.results.formatting import (
    format_metric,
    format_setting,
    metric_cell,
    metric_head,
    metric_label,
)
from netfl.results.metrics import metrics_in
from netfl.results.statistics import FINAL, LAST_ROUND, LAST_TENTH, mean_sentence, metric_of
from netfl.screen import open_console
from netfl.simulation.progress import PLAIN_EVERY_S, STOPPING, StopOnSignal
from netfl.sweeps import Sweep, SweepObserver, TaskUpdate
from netfl.sweeps.index import PointEntry, SearchEntry, TrialEntry
from netfl.sweeps.plan import Task

SHOWN = 40
"""The largest number of points in the table of results."""
COLUMNS = 12
"""The largest number of metrics in the table of results."""
_MAX_NOTES = 3
"""The largest number of sentences about the billing of learners; runs with other learners have others."""
_STATUSES = ("done", "partial", "missing", "pruned", "failed")


class SweepDisplay(StopOnSignal, SweepObserver):
    """A display of a sweep: a bar for all tasks and one for each running task; plain lines without a terminal."""

    def __init__(self, *, quiet: bool, console: Console | None = None) -> None:
        console = console or open_console()
        super().__init__(
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[position]}", markup=False),
                TimeRemainingColumn(compact=True),
                console=console,
                disable=quiet or not console.is_terminal,
                transient=True,
            )
        )
        self._console = console
        self._quiet = quiet
        self._printed_at = time.monotonic()
        self._left = 0
        self._ended = 0
        self._failed = 0
        self._unit = "tasks"
        self._search: SearchEntry | None = None
        self._progress: dict[str, float] = {}
        self._bars: dict[str, TaskID] = {}
        self._names: dict[str, str] = {}
        self._whole = self._screen.add_task("all tasks", total=None, position="", visible=False)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._screen.update(self._whole, description=STOPPING)

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Show the number of points and tasks."""
        self._left = len(tasks)
        self._printed_at = time.monotonic()
        self._names = {task.key: task.name for task in tasks}
        self._screen.update(self._whole, total=len(tasks), visible=bool(tasks), position=self._count_tasks())
        if not self._quiet:
            finished = f", {done} done already" if done else ""
            self._console.print(f"{points} points, {len(tasks)} tasks{finished} → {folder}")

    def on_search(self, folder: Path, search: SearchEntry) -> None:
        """Show the number of trials."""
        self._search = search
        self._unit = "trials"
        self._printed_at = time.monotonic()
        self._ended = sum(entry.state != "running" for entry in search.entries)
        self._left = search.trials
        self._screen.update(self._whole, description="all trials", total=search.trials, visible=True)
        self._show_whole()
        if not self._quiet:
            finished = f", {self._ended} done already" if self._ended else ""
            self._console.print(f"{search.trials} trials{finished} → {folder}")

    def on_trial(self, number: int, trial: TrialEntry, point: PointEntry, tasks: Sequence[Task]) -> None:
        """Show the best trial as soon as it is known, and trials that failed."""
        self._names |= {task.key: task.name for task in tasks}
        if self._search is None or trial.state == "running":
            return
        self._ended += 1
        self._show_whole()
        text = ""
        if trial.state == "failed":
            self._failed += 1
            text = f"trial {number} failed: {trial.error}"
        elif self._search.ranked()[:1] == [number]:
            text = f"best so far: {self._search.describe(number, point.values)}"
        if text and not self._quiet:
            self._console.print(text, soft_wrap=True)

    def on_update(self, update: TaskUpdate) -> None:
        """Show the start, progress or end of a task."""
        if update.ended:
            self._end(update)
        else:
            self._progress[update.task] = update.round / update.rounds if update.rounds else 0.0
            if update.task not in self._bars:
                self._bars[update.task] = self._screen.add_task(self._names[update.task], total=None, position="")
            bar = self._bars[update.task]
            position = f"round {update.round}/{update.rounds}"
            self._screen.update(bar, completed=update.round, total=update.rounds or None, position=position)
        self._show_whole()
        if self._screen.disable and not self._quiet and time.monotonic() - self._printed_at >= PLAIN_EVERY_S:
            self._printed_at = time.monotonic()
            running = "; ".join(f"{self._names[task]} {share:.0%}" for task, share in self._progress.items())
            self._console.print(self._count_tasks() + (f" · running: {running}" if running else ""))

    def _end(self, update: TaskUpdate) -> None:
        self._progress.pop(update.task, None)
        if update.task in self._bars:
            self._screen.remove_task(self._bars.pop(update.task))
        if self._search is not None:
            return  # its trials are counted
        if update.error:
            self._failed += 1
            if not self._quiet:
                self._console.print(f"{self._names[update.task]} failed: {update.error}", soft_wrap=True)
        self._ended += not update.stopped

    def _show_whole(self) -> None:
        done = min(self._left, self._ended + sum(self._progress.values()))
        self._screen.update(self._whole, completed=done, position=self._count_tasks())

    def _count_tasks(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._ended}/{self._left} {self._unit}{failed}"


def show_sweep(sweep: Sweep, console: Console | None = None) -> None:
    """Print the results of a sweep, finished or not, on *console* or the terminal."""
    console = console or open_console()
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
            columns[metric_label(metric)] = [format_metric(metric, *value[:2]) for value in known]
    if any(name for name, _ in wanted):
        has_choices = summary["metric"].str.endswith(LAST_ROUND).any()
        choices = f"; choices: {FINAL[LAST_ROUND]}" if has_choices else ""
        console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; accuracies in %")
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
