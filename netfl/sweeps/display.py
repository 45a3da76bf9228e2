"""Progress displays of a sweep: on a terminal, in plain lines, and in a notebook."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from netfl.errors import Fault, ScenarioError
from netfl.simulation.progress import PLAIN_EVERY_S, STOPPING, NotebookOutput, StopOnSignal, is_notebook
from netfl.sweeps.index import PointEntry, SearchEntry, TrialEntry
from netfl.sweeps.observer import SweepObserver
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate


class SweepDisplay(StopOnSignal, SweepObserver):
    """A display of a sweep: a bar for all tasks and one for each running task; plain lines without a terminal."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
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
            self._progress[update.task] = update.share
            if update.task not in self._bars:
                self._bars[update.task] = self._screen.add_task(self._names[update.task], total=None, position="")
            position = f"round {update.round}"
            if update.rounds:
                position = f"{position}/{update.rounds}"
            self._screen.update(self._bars[update.task], completed=update.share, total=1.0, position=position)
        self._show_whole()
        is_due = time.monotonic() - self._printed_at >= PLAIN_EVERY_S
        if self._screen.disable and not self._quiet and is_due:  # without a terminal
            self._printed_at = time.monotonic()
            self._print_plain()

    def _print_plain(self) -> None:
        line = self._count_tasks()
        running = "; ".join(f"{self._names[task]} {share:.0%}" for task, share in self._progress.items())
        if running:
            line = f"{line} · running: {running}"
        self._console.print(line)

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


class NotebookSweepDisplay(SweepObserver):
    """A display of a sweep in a notebook: a bar, the number of tasks or trials that have ended, and their errors."""

    def __init__(self) -> None:
        self._output = NotebookOutput()
        self._title = ""
        self._unit = "tasks"
        self._names: dict[str, str] = {}
        self._total = 0
        self._ended = 0
        self._errors: list[str] = []

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        self._title = f"{points} points → <code>{escape(str(folder))}</code>"
        self._names = {task.key: task.name for task in tasks}
        self._total = len(tasks)
        self._show()

    def on_search(self, folder: Path, search: SearchEntry) -> None:
        self._title = f"{search.trials} trials → <code>{escape(str(folder))}</code>"
        self._unit = "trials"
        self._total = search.trials
        self._ended = sum(entry.state != "running" for entry in search.entries)
        self._show()

    def on_trial(self, number: int, trial: TrialEntry, point: PointEntry, tasks: Sequence[Task]) -> None:
        if trial.state == "running":
            return
        self._ended += 1
        if trial.state == "failed":
            self._errors.append(f"trial {number} failed: {trial.error}")
        self._show()

    def on_update(self, update: TaskUpdate) -> None:
        if self._unit == "trials" or not update.ended:
            return
        self._ended += not update.stopped
        if update.error:
            self._errors.append(f"{self._names[update.task]} failed: {update.error}")
        self._show()

    def _show(self) -> None:
        bar = f'<progress style="width: 20em" value="{self._ended}" max="{self._total}"></progress>'
        lines = [f"{bar} {self._ended} of {self._total} {self._unit}", *map(escape, self._errors)]
        self._output.show("<br>".join([self._title, *lines]))


@contextmanager
def sweep_display(observer: SweepObserver | None, *, progress: bool) -> Iterator[SweepObserver]:
    """Show a sweep that a program started, in its notebook or on its terminal; nothing beside an *observer*.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the tasks after a round.
    """
    if not isinstance(observer, SweepObserver | None):
        problem = f"not an observer of sweeps but {type(observer).__name__}"
        raise ScenarioError([Fault("observer", problem, None, "derive its class from netfl.sweeps.SweepObserver")])
    console = Console(stderr=True, markup=False, highlight=False)
    if observer is not None or not progress:
        yield observer or SweepObserver()
    elif is_notebook():
        yield NotebookSweepDisplay()
    else:
        with SweepDisplay(console, quiet=not console.is_terminal) as display:
            yield display
        if display.stop:
            raise KeyboardInterrupt
