"""The progress display of a run on the terminal, and the commands' output of reports."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from netfl.errors import MachineError
from netfl.results.formatting import clock
from netfl.simulation.observers import format_progress
from netfl.types import RoundProgress, RunObserver, RunProgress, RunStart

if TYPE_CHECKING:
    from netfl.results.run_reader import Run

PLAIN_EVERY_S = 5.0
"""Seconds between two lines if the output is not a terminal."""

SCREEN_EVERY_S = 0.1
"""Seconds between two updates of a terminal."""

STOPPING = "stops after this round; Ctrl-C once more: at once"
"""The line that the display shows after a request to stop."""

SLOW_S = 2.0
"""A round that takes longer than this has its own progress line."""

SHOWN = 8
"""The largest number of learners on the screen."""


class _Screen(Progress):
    """A bar; below it the state of network and learners, the progress within a slow round and a request to stop."""

    state: tuple[str, ...] = ()
    within = stopping = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bar, then the lines."""
        yield self.make_tasks_table([task for task in self.tasks if task.visible])
        for line in filter(None, (*self.state, self.within, self.stopping)):
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")


class StopOnSignal:
    """A context in which *screen* is shown and requests to stop are recorded."""

    def __init__(self, screen: Progress) -> None:
        self.stop, self._screen = False, screen

    def __enter__(self) -> Self:
        self._screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def ask_to_stop(self) -> None:
        """Stop after the current round; stop at once on the second call."""
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True


class ProgressDisplay(StopOnSignal, RunObserver):
    """A display of a run: a screen on a terminal, plain lines elsewhere, nothing if *quiet*."""

    _screen: _Screen

    def __init__(self, console: Console, *, quiet: bool) -> None:
        super().__init__(
            _Screen(
                BarColumn(),
                TextColumn("{task.fields[position]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=console,
                disable=quiet or not console.is_terminal,
                transient=True,
            )
        )
        self._console, self._quiet, self._printed_at = console, quiet, time.monotonic()
        self._printed_round = 0  # the round shown at that time
        self._round_at = self._within_at = self._printed_at  # start of the round, and its last progress line
        self._opened = False
        self._duration_s: float | None = None
        self._task = self._screen.add_task("round", total=None, position="", visible=False)

    def ask_to_stop(self) -> None:
        """Confirm the request on the screen."""
        super().ask_to_stop()
        self._screen.stopping = STOPPING

    def on_start(self, start: RunStart) -> None:
        """Show the run directory."""
        self._printed_at = self._round_at = time.monotonic()
        self._screen.within = ""
        self._opened, self._duration_s = True, start.duration_s
        self._screen.update(self._task, total=start.rounds, visible=True)
        if not self._quiet:
            self._console.print(f"{start.name} → {start.folder}", highlight=False, soft_wrap=True)

    def on_progress(self, progress: RoundProgress) -> None:
        """Show the progress within a slow round.

        Raises:
            KeyboardInterrupt: a stop was requested before the run began, while rounds are played to partition the data.
        """
        if self.stop and not self._opened:
            raise KeyboardInterrupt
        now, plain = time.monotonic(), self._screen.disable
        slow_s, every_s = (PLAIN_EVERY_S, PLAIN_EVERY_S) if plain else (SLOW_S, SCREEN_EVERY_S)
        if self._quiet or now - self._round_at < slow_s or now - max(self._within_at, self._printed_at) < every_s:
            return
        self._within_at = now
        line = f"in round {progress.round}" if self._duration_s is None else "on the way"
        line = f"{line if self._opened else f'dealing out the data, {line}'}: {format_progress(progress)}"
        if plain:
            self._console.print(" · ".join([line, STOPPING] if self.stop else [line]), highlight=False, soft_wrap=True)
        else:
            self._screen.within = line

    def on_round(self, progress: RunProgress) -> None:
        """Show the state after a round."""
        if self._quiet:
            return
        now = self._round_at = time.monotonic()
        self._screen.within = ""
        if now - self._printed_at < (PLAIN_EVERY_S if self._screen.disable else SCREEN_EVERY_S):
            return
        pace_s = (now - self._printed_at) / (progress.round - self._printed_round)
        self._printed_at, self._printed_round = now, progress.round
        position, state = self._position(progress), self._state(progress)
        if self._screen.disable:
            left = pace_s * (progress.rounds - progress.round)
            self._console.print(" · ".join([position, *state, f"{left:.0f} s left"]), highlight=False, soft_wrap=True)
        else:
            self._screen.state = state
            self._screen.update(self._task, completed=progress.round, position=position)

    def _position(self, progress: RunProgress) -> str:
        if self._duration_s is None:
            return f"round {progress.round}/{progress.rounds}"
        return f"{clock(progress.time_s)} of {clock(self._duration_s)}"

    def _state(self, progress: RunProgress) -> tuple[str, ...]:
        return (_network(progress), *_learners(progress)) if self._duration_s is None else ()


@contextmanager
def progress_display(*, quiet: bool) -> Iterator[ProgressDisplay]:
    """Show a run on the terminal; Ctrl-C and SIGTERM stop it after the current round."""
    with ProgressDisplay(Console(markup=False), quiet=quiet) as watcher, handle_signals(watcher.ask_to_stop):
        yield watcher


@contextmanager
def handle_signals(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """Call *ask_to_stop* on Ctrl-C and SIGTERM within the context."""

    def handler(number: int, frame: FrameType | None) -> None:
        ask_to_stop()

    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, action in previous.items():
            signal.signal(number, action)


def _network(progress: RunProgress) -> str:
    parts = [f"{clock(progress.time_s)} simulated", f"heard {_few(progress.delivered) or 'nobody'}"]
    nodes = [entity for entity in progress.down if isinstance(entity, str)]
    users = [entity for entity in progress.down if not isinstance(entity, str)]
    if progress.down:
        parts.append(f"out: {', '.join([*nodes, *([f'users {_few(users)}'] if users else [])])}")
    return " · ".join(parts)


def _few(users: Sequence[int]) -> str:
    more = len(users) - 3
    return " ".join(map(str, users[:3])) + (f" and {more} more" if more > 0 else "")


def _learners(progress: RunProgress) -> Iterator[str]:
    """Yield each learner's latest accuracies, means over replicas."""
    names = [*dict.fromkeys(name for name, _ in progress.lanes)]
    labels = {"accuracy": "", "rare_accuracy": " rare"}
    shown = [(metric, label) for metric, label in labels.items() if metric in progress.metrics]
    for learner in names[:SHOWN] if shown else ():
        lanes = [lane for lane, (name, _) in enumerate(progress.lanes) if name == learner]
        yield f"{learner}" + ",".join(f"{label} {_mean(progress.metrics[metric][lanes])}" for metric, label in shown)
    if shown and len(names) > SHOWN:
        yield f"and {len(names) - SHOWN} learners more"


def _mean(values: NDArray[np.float64]) -> str:
    finite = values[np.isfinite(values)]  # replicas that have not diverged
    return f"{finite.mean():.1%}" if finite.size else "diverged"


def show_report(done: Run, out: Path | None) -> None:
    """Write the report and the plot of a run, and print their paths."""
    from netfl import report as reports

    console = Console(markup=False, highlight=False)
    try:
        console.print(f"report:  {reports.write(done, out)}", soft_wrap=True)
        console.print(f"picture: {reports.picture(done)}", soft_wrap=True)
    except OSError as error:
        reason = describe_os_error(error)
        raise MachineError(f"cannot write the report: {reason}; the run itself is as it was") from error


def show_comparison(folders: Sequence[Path], out: Path) -> None:
    """Write the report of several runs, and print its path."""
    from netfl import report as reports

    try:
        Console(markup=False, highlight=False).print(f"report:  {reports.write_several(folders, out)}", soft_wrap=True)
    except OSError as error:
        reason = describe_os_error(error)
        raise MachineError(f"cannot write the report: {reason}; the runs themselves are whole") from error


def describe_os_error(error: OSError) -> str:
    """Return the file and the reason of an error."""
    return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
