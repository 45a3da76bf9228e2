"""What the terminal shows while a run goes on, and where its report is."""

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
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from netfl.errors import MachineError
from netfl.figures import clock

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
        self._duration_s: float | None = None
        state = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            BarColumn(bar_width=16),
            TextColumn("{task.fields[far]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[state]}", markup=False, table_column=state),
            console=console,
            disable=quiet or not console.is_terminal,
            expand=True,
        )
        self._task = self._bar.add_task("round", total=None, far="", state="setting up", visible=False)

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
        self._duration_s = scenario.duration
        self._bar.update(self._task, total=scenario.steps, visible=True)
        if not self._quiet:
            self._console.print(f"{scenario.name} → {folder}", highlight=False, soft_wrap=True)

    def closed(self, progress: watch.Progress) -> None:
        """A round is over."""
        if self._quiet:
            return
        if not self._bar.disable:
            self._bar.update(self._task, completed=progress.round, far=self._far(progress), state=self._state(progress))
            return
        now = time.monotonic()
        if now - self._said_at > PLAIN_EVERY_S:
            self._said_at = now
            left = (now - self._begun) / progress.round * (progress.rounds - progress.round)
            said = [part for part in (self._far(progress), self._state(progress), f"{left:.0f} s left") if part]
            self._console.print(" · ".join(said), highlight=False)

    def _far(self, progress: watch.Progress) -> str:
        """How far it is: in rounds, or in simulated time where there are none."""
        if self._duration_s is None:
            return f"round {progress.round}/{progress.rounds}"
        return f"{clock(progress.time_s)} of {clock(self._duration_s)}"

    def _state(self, progress: watch.Progress) -> str:
        """What happens in the rounds; nothing where there are none."""
        return _state(progress) if self._duration_s is None else ""


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


def show_report(done: Run, out: Path | None) -> None:
    """Write the page and the picture, and say where they are."""
    from netfl import report as reports  # noqa: PLC0415 - the pictures take a second to import

    console = Console(markup=False, highlight=False)
    try:
        console.print(f"report:  {reports.write(done, out)}", soft_wrap=True)
        console.print(f"picture: {reports.picture(done)}", soft_wrap=True)
    except OSError as error:
        raise MachineError(f"cannot write the report: {error.strerror or error}; the run itself is whole") from error
