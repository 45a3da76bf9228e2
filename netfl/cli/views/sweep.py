"""What the terminal shows of a sweep: how its tasks go, and what its points came to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from netfl.cli.progress import PLAIN_EVERY_S, STOPPING, StopOnSignal
from netfl.cli.views.run_summary import Column, fold
from netfl.errors import MachineError
from netfl.results.formatting import METRICS, format_metric, format_setting, metric_cell, metric_label
from netfl.results.statistics import FINAL, LAST_ROUND, LAST_TENTH, mean_sentence, metric_of
from netfl.sweeps import Sweep, TaskUpdate
from netfl.sweeps.plan import Task

SHOWN = 40
"""So many points have a row in the table at the end."""
COLUMNS = 12
"""So many figures have a column there."""
_LEARNT = ("accuracy", "rare_accuracy", "loss")
_NETWORK = ("rounds_per_hour", "delivered_per_round", "throughput_bps", "delay_mean_s", "loss_ratio", "jain")


class SweepDisplay(StopOnSignal):
    """Shows a sweep: a bar over all tasks and one for each that is under way; plain lines where there is no terminal.

    Args:
        console: where to.
        quiet: show nothing.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        super().__init__(
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[far]}"),
                TimeRemainingColumn(compact=True),
                console=console,
                disable=quiet or not console.is_terminal,
                transient=True,
            )
        )
        self._console, self._quiet, self._said_at = console, quiet, time.monotonic()
        self._left, self._ended, self._failed = 0, 0, 0
        self._far: dict[str, float] = {}
        self._bars: dict[str, TaskID] = {}
        self._names: dict[str, str] = {}
        self._whole = self._screen.add_task("all tasks", total=None, far="", visible=False)

    def ask_to_stop(self) -> None:
        """The screen says that it has been heard."""
        super().ask_to_stop()
        self._screen.update(self._whole, description=STOPPING)

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """What there is to do."""
        self._left, self._said_at = len(tasks), time.monotonic()
        self._names = {task.key: task.name for task in tasks}
        self._screen.update(self._whole, total=len(tasks), visible=bool(tasks), far=self._counted())
        if not self._quiet:
            there = f", {done} done already" if done else ""
            self._console.print(f"{points} points, {len(tasks)} tasks{there} → {folder}", highlight=False)

    def on_update(self, update: TaskUpdate) -> None:
        """A task has begun, is so far, or has ended."""
        if update.ended:
            self._end(update)
        else:
            self._far[update.task] = update.round / update.rounds if update.rounds else 0.0
            if update.task not in self._bars:
                self._bars[update.task] = self._screen.add_task(
                    self._name(update.task), total=update.rounds or None, far=""
                )
            far = f"round {update.round}/{update.rounds}"
            self._screen.update(self._bars[update.task], completed=update.round, total=update.rounds or None, far=far)
        whole = self._ended + sum(self._far.values())
        self._screen.update(self._whole, completed=whole, far=self._counted())
        if self._screen.disable and not self._quiet and time.monotonic() - self._said_at >= PLAIN_EVERY_S:
            self._said_at = time.monotonic()
            under = "; ".join(f"{self._name(task)} {far:.0%}" for task, far in self._far.items())
            self._console.print(self._counted() + (f" · under way: {under}" if under else ""), highlight=False)

    def _end(self, update: TaskUpdate) -> None:
        """A task is over."""
        self._far.pop(update.task, None)
        if update.task in self._bars:
            self._screen.remove_task(self._bars.pop(update.task))
        if update.error:
            self._failed += 1
            if not self._quiet:
                self._console.print(
                    f"{self._name(update.task)} failed: {update.error}", highlight=False, soft_wrap=True
                )
        self._ended += not update.stopped

    def _name(self, task: str) -> str:
        """What people read of a task."""
        return self._names.get(task, task)

    def _counted(self) -> str:
        """How many tasks are over."""
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._ended}/{self._left} tasks{failed}"


def show_sweep(sweep: Sweep, console: Console | None = None) -> None:
    """What the points of a sweep came to.

    Args:
        sweep: done or not.
        console: where to; by default the terminal.
    """
    console = console or Console(markup=False)
    points = sweep.points
    if (points["status"] != "missing").any():
        _show_points(sweep, console)
    counts = points["status"].value_counts()
    told = ", ".join(f"{counts[status]} {status}" for status in ("done", "partial", "missing") if status in counts)
    console.print(f"points: {told}: {sweep.folder}", highlight=False, soft_wrap=True)


def show_sweep_report(sweep: Sweep, out: Path | None) -> None:
    """Write the page of a sweep, and say where it is.

    Args:
        sweep: done or not.
        out: the file to write; by default ``report.html`` in the sweep's folder.
    """
    from netfl import report as reports

    try:
        Console(markup=False, highlight=False).print(f"report: {reports.write_sweep(sweep, out)}", soft_wrap=True)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
        raise MachineError(f"cannot write the report: {why}; the sweep itself is as it was") from error


def _show_points(sweep: Sweep, console: Console) -> None:
    """Print the values of the axes and the figures of each point, and what is left out."""
    points, summary = sweep.points.head(SHOWN), sweep.summary
    replicas = int(summary["replicas"].max())
    metrics = summary["figure"].map(metric_of)
    learners = [name for name in summary["learner"].unique() if name]
    wanted = [(name, metric) for metric in _LEARNT for name in learners]
    wanted = wanted if metrics.isin(_LEARNT).any() else [("", figure) for figure in _NETWORK]
    keys = zip(summary["point"], summary["learner"], metrics, strict=True)
    found = dict(zip(keys, zip(summary["mean"], summary["half"], summary["replicas"], strict=True), strict=True))
    there = {(name, metric) for _, name, metric in found}
    wanted = [which for which in wanted if which in there]
    columns = [Column(axis, tuple(map(format_setting, points[axis])), is_key=True) for axis in sweep.axes]
    for name, figure in wanted[:COLUMNS]:
        cells = [_cell(found.get((number, name, figure)), name, figure, replicas) for number in points["point"]]
        columns.append(Column(f"{name}\n{METRICS[figure].lower()}" if name else metric_label(figure), tuple(cells)))
    if any(name for name, _ in wanted):
        has_choices = summary["figure"].str.endswith(LAST_ROUND).any()
        choices = f"; choices: {FINAL[LAST_ROUND]}" if has_choices else ""
        console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; accuracies in %", highlight=False)
    if replicas > 1:
        console.print(mean_sentence(replicas), highlight=False)
    for table in fold(columns, console.width):
        console.print(table)
    left_out = [f"{len(sweep.points) - SHOWN} points"] if len(sweep.points) > SHOWN else []
    left_out += [f"{len(wanted) - COLUMNS} columns"] if len(wanted) > COLUMNS else []
    if left_out:
        where = f"netfl.open_sweep({str(sweep.folder)!r}).summary"
        console.print(f"and {' and '.join(left_out)} more: {where}", highlight=False, soft_wrap=True)


def _cell(found: tuple[float, float, int] | None, learner: str, figure: str, replicas: int) -> str:
    """Return a figure of a point with its interval; a dash where it has none."""
    if found is None:
        return "–"
    return metric_cell(figure, *found, replicas) if learner else format_metric(figure, *found[:2])
