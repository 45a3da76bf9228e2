"""What the terminal shows while a run goes on, and where its report is."""

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
"""Seconds between lines where the output is no terminal."""

SCREEN_EVERY_S = 0.1
"""Seconds between looks at the run where it is one."""

STOPPING = "stops after this round; Ctrl-C once more: at once"
"""What a screen says that was asked to stop."""

SLOW_S = 2.0
"""A round that takes longer than this is said to be under way."""

SHOWN = 8
"""So many learners have a line on the screen."""


class _Screen(Progress):
    """A bar, and below it how network and learners stand, how far a slow round is, and whether it is to stop."""

    state: tuple[str, ...] = ()
    within = stopping = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bar, then the lines."""
        yield self.make_tasks_table([task for task in self.tasks if task.visible])
        for line in filter(None, (*self.state, self.within, self.stopping)):
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")


class StopOnSignal:
    """Shows something on a screen, as long as it is entered, and notes the wish to stop.

    Args:
        screen: where it is shown.
    """

    def __init__(self, screen: Progress) -> None:
        self.stop, self._screen = False, screen

    def __enter__(self) -> Self:
        self._screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def ask_to_stop(self) -> None:
        """End after the round that is going on; asked a second time, at once."""
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True


class ProgressDisplay(StopOnSignal, RunObserver):
    """Shows a run: a screen on a terminal, plain lines elsewhere, nothing if quiet; notes the wish to stop."""

    _screen: _Screen

    def __init__(self, console: Console, *, quiet: bool) -> None:
        super().__init__(
            _Screen(
                BarColumn(),
                TextColumn("{task.fields[far]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=console,
                disable=quiet or not console.is_terminal,
                transient=True,
            )
        )
        self._console, self._quiet, self._said_at = console, quiet, time.monotonic()
        self._said_of = 0  # the round of which something was said last, at that time
        self._round_at = self._within_at = self._said_at  # when a round began, and something was said within it
        self._opened = False
        self._duration_s: float | None = None
        self._task = self._screen.add_task("round", total=None, far="", visible=False)

    def ask_to_stop(self) -> None:
        """The screen says that it has been heard."""
        super().ask_to_stop()
        self._screen.stopping = STOPPING

    def on_start(self, start: RunStart) -> None:
        """Show the run directory."""
        self._said_at = self._round_at = time.monotonic()
        self._screen.within = ""
        self._opened, self._duration_s = True, start.duration_s
        self._screen.update(self._task, total=start.rounds, visible=True)
        if not self._quiet:
            self._console.print(f"{start.name} → {start.folder}", highlight=False, soft_wrap=True)

    def on_progress(self, progress: RoundProgress) -> None:
        """A round goes on: said of slow ones.  Before the first, when rounds are played for the data, it ends at once.

        Raises:
            KeyboardInterrupt: it was asked to stop, and nothing has begun.
        """
        if self.stop and not self._opened:
            raise KeyboardInterrupt
        now, plain = time.monotonic(), self._screen.disable
        slow_s, every_s = (PLAIN_EVERY_S, PLAIN_EVERY_S) if plain else (SLOW_S, SCREEN_EVERY_S)
        if self._quiet or now - self._round_at < slow_s or now - max(self._within_at, self._said_at) < every_s:
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
        if now - self._said_at < (PLAIN_EVERY_S if self._screen.disable else SCREEN_EVERY_S):
            return
        pace_s = (now - self._said_at) / (progress.round - self._said_of)
        self._said_at, self._said_of = now, progress.round
        far, state = self._far(progress), self._state(progress)
        if self._screen.disable:
            left = pace_s * (progress.rounds - progress.round)
            self._console.print(" · ".join([far, *state, f"{left:.0f} s left"]), highlight=False, soft_wrap=True)
        else:
            self._screen.state = state
            self._screen.update(self._task, completed=progress.round, far=far)

    def _far(self, progress: RunProgress) -> str:
        """How far it is: in rounds, or in simulated time where there are none."""
        if self._duration_s is None:
            return f"round {progress.round}/{progress.rounds}"
        return f"{clock(progress.time_s)} of {clock(self._duration_s)}"

    def _state(self, progress: RunProgress) -> tuple[str, ...]:
        """How network and learners stand; nothing where there are no rounds."""
        return (_network(progress), *_learners(progress)) if self._duration_s is None else ()


@contextmanager
def progress_display(*, quiet: bool) -> Iterator[ProgressDisplay]:
    """A watcher on the terminal; Ctrl-C and SIGTERM end the run after the round that is going on."""
    with ProgressDisplay(Console(markup=False), quiet=quiet) as watcher, handle_signals(watcher.ask_to_stop):
        yield watcher


@contextmanager
def handle_signals(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM *ask_to_stop*, as long as this lasts."""

    def handler(number: int, frame: FrameType | None) -> None:
        ask_to_stop()

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def _network(progress: RunProgress) -> str:
    """Simulated clock, who was heard, and who is out."""
    parts = [f"{clock(progress.time_s)} simulated", f"heard {_few(progress.delivered) or 'nobody'}"]
    nodes = [who for who in progress.down if isinstance(who, str)]
    users = [who for who in progress.down if not isinstance(who, str)]
    if progress.down:
        parts.append(f"out: {', '.join([*nodes, *([f'users {_few(users)}'] if users else [])])}")
    return " · ".join(parts)


def _few(users: Sequence[int]) -> str:
    """The first of some users, and how many more there are."""
    more = len(users) - 3
    return " ".join(map(str, users[:3])) + (f" and {more} more" if more > 0 else "")


def _learners(progress: RunProgress) -> Iterator[str]:
    """Each learner's newest accuracies, means over replicas."""
    names = [*dict.fromkeys(name for name, _ in progress.lanes)]
    shown = [
        (metric, word) for metric, word in (("accuracy", ""), ("rare_accuracy", " rare")) if metric in progress.metrics
    ]
    for learner in names[:SHOWN] if shown else ():
        own = [lane for lane, (name, _) in enumerate(progress.lanes) if name == learner]
        yield f"{learner}" + ",".join(f"{word} {_mean(progress.metrics[metric][own])}" for metric, word in shown)
    if shown and len(names) > SHOWN:
        yield f"and {len(names) - SHOWN} learners more"


def _mean(values: NDArray[np.float64]) -> str:
    """The mean over the replicas that have not diverged."""
    there = values[np.isfinite(values)]
    return f"{there.mean():.1%}" if there.size else "diverged"


def show_report(done: Run, out: Path | None) -> None:
    """Write the page and the picture, and say where they are."""
    from netfl import report as reports

    console = Console(markup=False, highlight=False)
    try:
        console.print(f"report:  {reports.write(done, out)}", soft_wrap=True)
        console.print(f"picture: {reports.picture(done)}", soft_wrap=True)
    except OSError as error:
        raise MachineError(f"cannot write the report: {_why(error)}; the run itself is as it was") from error


def show_comparison(folders: Sequence[Path], out: Path) -> None:
    """Write the page of several runs, and say where it is."""
    from netfl import report as reports

    try:
        Console(markup=False, highlight=False).print(f"report:  {reports.write_several(folders, out)}", soft_wrap=True)
    except OSError as error:
        raise MachineError(f"cannot write the report: {_why(error)}; the runs themselves are whole") from error


def _why(error: OSError) -> str:
    """What went wrong, and with which file."""
    return f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
