"""What the terminal shows of a sweep: how its tasks go, and what its points came to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from netfl.console import PLAIN_EVERY_S, STOPPING, Stoppable
from netfl.errors import MachineError
from netfl.figures import label, setting, told
from netfl.sweeping import Sweep, Told
from netfl.sweeping.plan import Task

SHOWN = 40
"""So many points have a row in the table at the end."""
_LEARNT = {"accuracy": "accuracy_share", "rare_accuracy": "accuracy_share", "loss": "t"}
"""Figures of learners, and which name says how they are written."""
_NETWORK = ("rounds_per_hour", "delivered_per_round", "throughput_bps", "delay_mean_s", "loss_ratio", "jain")
_COLUMN = 18
"""Letters that a figure takes with its interval."""


class SweepWatcher(Stoppable):
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

    def planned(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """What there is to do."""
        self._left, self._said_at = len(tasks), time.monotonic()
        self._names = {task.key: task.name for task in tasks}
        self._screen.update(self._whole, total=len(tasks), visible=bool(tasks), far=self._counted())
        if not self._quiet:
            there = f", {done} done already" if done else ""
            self._console.print(f"{points} points, {len(tasks)} tasks{there} → {folder}", highlight=False)

    def told(self, word: Told) -> None:
        """A task has begun, is so far, or has ended."""
        if word.ended:
            self._end(word)
        else:
            self._far[word.task] = word.round / word.rounds if word.rounds else 0.0
            if word.task not in self._bars:
                self._bars[word.task] = self._screen.add_task(self._name(word.task), total=word.rounds or None, far="")
            far = f"round {word.round}/{word.rounds}"
            self._screen.update(self._bars[word.task], completed=word.round, total=word.rounds or None, far=far)
        whole = self._ended + sum(self._far.values())
        self._screen.update(self._whole, completed=whole, far=self._counted())
        if self._screen.disable and not self._quiet and time.monotonic() - self._said_at >= PLAIN_EVERY_S:
            self._said_at = time.monotonic()
            under = "; ".join(f"{self._name(task)} {far:.0%}" for task, far in self._far.items())
            self._console.print(self._counted() + (f" · under way: {under}" if under else ""), highlight=False)

    def _end(self, word: Told) -> None:
        """A task is over."""
        self._far.pop(word.task, None)
        if word.task in self._bars:
            self._screen.remove_task(self._bars.pop(word.task))
        if word.error:
            self._failed += 1
            if not self._quiet:
                self._console.print(f"{self._name(word.task)} failed: {word.error}", highlight=False, soft_wrap=True)
        self._ended += not word.stopped

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
        console.print(_table(sweep, console.width))
        if len(points) > SHOWN:
            console.print(f"and {len(points) - SHOWN} points more: netfl.open_sweep('{sweep.folder}').summary")
        if sweep.summary["replicas"].max() > 1:
            console.print("mean of replicas ± half width of the 95 % interval")
    counts = points["status"].value_counts()
    told = ", ".join(f"{counts[status]} {status}" for status in ("done", "partial", "missing") if status in counts)
    console.print(f"points: {told}: {sweep.folder}", highlight=False, soft_wrap=True)


def show_sweep_report(sweep: Sweep, out: Path | None) -> None:
    """Write the page of a sweep, and say where it is.

    Args:
        sweep: done or not.
        out: the file to write; by default ``report.html`` in the sweep's folder.
    """
    from netfl import report as reports  # noqa: PLC0415 - the pictures take a second to import

    try:
        Console(markup=False, highlight=False).print(f"report: {reports.write_sweep(sweep, out)}", soft_wrap=True)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
        raise MachineError(f"cannot write the report: {why}; the sweep itself is as it was") from error


def _table(sweep: Sweep, width: int) -> Table:
    """A row for each point: the values of its axes, and as many of its figures as there is room for."""
    points, summary = sweep.points.head(SHOWN), sweep.summary
    axes = {axis: [setting(value) for value in points[axis]] for axis in sweep.axes}
    room = width - sum(3 + max(map(len, [axis, *words])) for axis, words in axes.items())
    learners, there = [name for name in summary["learner"].unique() if name], {*summary["figure"]}
    figures = [(name, figure) for figure in _LEARNT for name in learners if figure in there]
    figures = (figures or [("", figure) for figure in _NETWORK if figure in there])[: max(1, room // _COLUMN)]
    keys = zip(summary["point"], summary["learner"], summary["figure"], strict=True)
    found = dict(zip(keys, zip(summary["mean"], summary["half"], strict=True), strict=True))
    table = Table(box=box.SIMPLE)
    for axis in axes:
        table.add_column(axis, no_wrap=True)
    for name, figure in figures:
        table.add_column(f"{name}\n{label(figure)}" if name else label(figure), justify="right")
    for row, number in enumerate(points["point"]):
        cells = [_cell(found, (number, *which)) for which in figures]
        table.add_row(*(words[row] for words in axes.values()), *cells)
    return table


def _cell(found: Mapping[tuple[int, str, str], tuple[float, float]], which: tuple[int, str, str]) -> str:
    """One figure."""
    return told(_LEARNT.get(which[2], which[2]) if which[1] else which[2], *found[which]) if which in found else "–"
