"""What the terminal shows: progress while a run goes on, its figures at the end, the catalogue of models."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from netfl.errors import MachineError

if TYPE_CHECKING:
    from netfl import watch
    from netfl.reading import Run
    from netfl.scenario import Scenario

PLAIN_EVERY_S = 5.0
"""Seconds between lines where the output is no terminal."""


class Watcher:
    """Shows a run: a bar on a terminal, plain lines elsewhere, nothing if quiet; notes when the user wants to stop."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.stop = False
        self._console, self._quiet, self._said_at = console, quiet, time.monotonic()
        self._begun = self._said_at
        state = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            BarColumn(bar_width=16),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[state]}", markup=False, table_column=state),
            console=console,
            disable=quiet or not console.is_terminal,
            expand=True,
        )
        self._task = self._bar.add_task("round", total=None, state="setting up", visible=False)

    def __enter__(self) -> Watcher:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        """A signal handler: end after this round; a second signal ends at once."""
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True

    def opened(self, folder: Path, scenario: Scenario) -> None:
        """The run directory is there."""
        self._begun = self._said_at = time.monotonic()
        self._bar.update(self._task, total=scenario.rounds, visible=True)
        if not self._quiet:
            self._console.print(f"{scenario.name} → {folder}", highlight=False, soft_wrap=True)

    def closed(self, progress: watch.Progress) -> None:
        """A round is over."""
        if self._quiet:
            return
        if not self._bar.disable:
            self._bar.update(self._task, completed=progress.round, state=_state(progress))
            return
        now = time.monotonic()
        if now - self._said_at > PLAIN_EVERY_S:
            self._said_at = now
            left = (now - self._begun) / progress.round * (progress.rounds - progress.round)
            self._console.print(
                f"round {progress.round}/{progress.rounds} · {_state(progress)} · {left:.0f} s left", highlight=False
            )


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """A watcher on the terminal; Ctrl-C and SIGTERM end the run after the round that is going on."""
    watcher = Watcher(Console(markup=False), quiet=quiet)
    before = {number: signal.signal(number, watcher.ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with watcher:
            yield watcher
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def clock(time_s: float) -> str:
    """A simulated time for people.

    >>> clock(59.4), clock(7260), clock(200000)
    ('59.4 s', '2 h 01 min', '2 d 7 h')
    """
    if time_s < 60:
        return f"{time_s:.3g} s"
    minutes = int(time_s // 60)
    if minutes < 60:
        return f"{minutes} min {int(time_s % 60):02d} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _state(progress: watch.Progress) -> str:
    """Simulated clock, who was heard, and each learner's newest accuracy."""
    heard = ",".join(map(str, progress.heard[:3])) + ("…" if len(progress.heard) > 3 else "")
    parts = [clock(progress.time_s), f"heard {heard or 'nobody'}"]
    for metric, short in (("accuracy", ""), ("rare_accuracy", " rare")):
        values = progress.metrics.get(metric)
        if values is None:
            continue
        for learner in dict.fromkeys(name for name, _ in progress.lanes):
            own = [lane for lane, (name, _) in enumerate(progress.lanes) if name == learner]
            parts.append(f"{learner}{short} {np.mean(values[own]):.1%}")
    return " · ".join(parts)


def show_run(run: Run) -> None:
    """The figures that a run ended with."""
    console = Console(markup=False)
    summary, manifest = run.summary, run.manifest
    if summary:
        fates = ", ".join(
            f"{count} {key.removeprefix('fate.').replace('_', ' ')}"
            for key, count in summary.items()
            if key.startswith("fate.") and count
        )
        console.print(f"{summary['rounds']} rounds in {clock(summary['simulated_s'])} simulated · updates: {fates}")
        _show_learners(console, run)
    console.print(f"{manifest['status']} in {manifest['timings']['total_s']:.1f} s: {run.folder}", soft_wrap=True)


def show_report(done: Run, out: Path | None) -> None:
    """Write the page and the picture, and say where they are."""
    from netfl import report as reports  # noqa: PLC0415 - the pictures take a second to import

    console = Console(markup=False, highlight=False)
    try:
        console.print(f"report:  {reports.write(done, out)}", soft_wrap=True)
        console.print(f"picture: {reports.picture(done)}", soft_wrap=True)
    except OSError as error:
        raise MachineError(f"cannot write the report: {error.strerror or error}; the run itself is whole") from error


def _show_learners(console: Console, run: Run) -> None:
    """A table of learners and what they came to."""
    columns = {
        "accuracy": "accuracy",
        "rare_accuracy": "rare classes",
        "accuracy_users_worst10": "worst 10 % of users",
        "accuracy_users_jain": "Jain index",
        "loss": "loss",
        "t": "t",
    }
    learners = list(run.scenario.get("learners") or {})
    if not learners or not run.metrics.size:
        return
    table = Table(title="mean over the last tenth of the rounds and over replicas", title_justify="left")
    table.add_column("learner", no_wrap=True)
    shown = [metric for metric in columns if f"{learners[0]}.{metric}.smoothed" in run.summary]
    for metric in shown:
        table.add_column(columns[metric], justify="right")
    for learner in learners:
        table.add_row(learner, *(_figure(metric, run.summary[f"{learner}.{metric}.smoothed"]) for metric in shown))
    console.print(table)


def _figure(metric: str, value: float | None) -> str:
    """A figure of a learner; a dash where it is not finite."""
    if value is None:
        return "–"
    return f"{value:.3f}" if metric.startswith(("accuracy", "rare_")) else f"{value:.4g}"
