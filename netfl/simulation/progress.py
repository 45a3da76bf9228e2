"""Progress displays of a run: on a terminal, in plain lines, and in a notebook."""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from threading import current_thread, main_thread
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from netfl.results.formatting import clock, format_progress
from netfl.types import RoundProgress, RunObserver, RunProgress, RunStart

PLAIN_EVERY_S = 5.0
"""Seconds between two lines if the output is not a terminal."""

SCREEN_EVERY_S = 0.1
"""Seconds between two updates of a terminal."""

SLOW_S = 2.0
"""A round that takes longer than this has its own progress line."""

STOPPING = "stops after this round; press Ctrl-C again to stop immediately"
"""The line that the display shows after a request to stop."""

SHOWN = 8
"""The largest number of learners on the screen."""


class _Screen(Progress):
    """A bar; below it the state of network and learners, the progress within a slow round and a request to stop."""

    state: Sequence[str] = ()
    within = stopping = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table([task for task in self.tasks if task.visible])
        for line in filter(None, (*self.state, self.within, self.stopping)):
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")


class StopOnSignal:
    """A context in which *screen* is shown, and Ctrl-C and SIGTERM are requests to stop."""

    def __init__(self, screen: Progress) -> None:
        self.stop, self._screen = False, screen

    def __enter__(self) -> Self:
        self._screen.start()
        numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
        self._actions = {number: signal.signal(number, lambda *_: self.ask_to_stop()) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, action in self._actions.items():
            signal.signal(number, action)
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
        super().ask_to_stop()
        self._screen.stopping = STOPPING

    def on_start(self, start: RunStart) -> None:
        self._printed_at = self._round_at = time.monotonic()
        self._screen.within = ""
        self._opened, self._duration_s = True, start.duration_s
        self._screen.update(self._task, total=start.rounds, visible=True)
        if not self._quiet:
            self._console.print(f"{start.name} → {start.folder}", soft_wrap=True)
            if start.training:
                self._console.print(f"training: {start.training}", soft_wrap=True)

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
        line = f"in round {progress.round}" if self._duration_s is None else "running"
        line = f"{line if self._opened else f'partitioning the data, {line}'}: {format_progress(progress)}"
        if plain:
            self._console.print(" · ".join([line, STOPPING] if self.stop else [line]), soft_wrap=True)
        else:
            self._screen.within = line

    def on_round(self, progress: RunProgress) -> None:
        if self._quiet:
            return
        now = self._round_at = time.monotonic()
        self._screen.within = ""
        if now - self._printed_at < (PLAIN_EVERY_S if self._screen.disable else SCREEN_EVERY_S):
            return
        pace_s = (now - self._printed_at) / (progress.round - self._printed_round)
        self._printed_at, self._printed_round = now, progress.round
        position, state = f"round {progress.round}/{progress.rounds}", [_network(progress), *_learners(progress)]
        if self._duration_s is not None:
            position, state = f"{clock(progress.time_s)} of {clock(self._duration_s)}", []
        if self._screen.disable:
            left = pace_s * (progress.rounds - progress.round)
            self._console.print(" · ".join([position, *state, f"{left:.0f} s left"]), soft_wrap=True)
        else:
            self._screen.state = state
            self._screen.update(self._task, completed=progress.round, position=position)


class NotebookDisplay(RunObserver):
    """A display of a run in a notebook: a bar, and below it the state of network and learners."""

    def __init__(self) -> None:
        ipython: Any = importlib.import_module("IPython.display")  # it is there in a notebook
        self._html, self._output = ipython.HTML, ipython.display(ipython.HTML(""), display_id=True)
        self._title, self._shown_at = "", 0.0

    def on_start(self, start: RunStart) -> None:
        self._title = f"{escape(start.name)} → <code>{escape(str(start.folder))}</code>"
        if start.training:
            self._title += f"<br>training: {escape(start.training)}"

    def on_round(self, progress: RunProgress) -> None:
        now = time.monotonic()
        if now - self._shown_at >= SCREEN_EVERY_S or progress.round == progress.rounds:
            self._shown_at = now
            lines = [f"round {progress.round:,} of {progress.rounds:,}", _network(progress), *_learners(progress)]
            bar = f'<progress style="width: 20em" value="{progress.round}" max="{progress.rounds}"></progress>'
            self._show(f"{bar} {'<br>'.join(map(escape, lines))}")

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        self._show(status)

    def _show(self, state: str) -> None:
        self._output.update(self._html(f"<div>{self._title}<br>{state}</div>"))


@contextmanager
def python_display(observer: RunObserver | None, *, progress: bool) -> Iterator[RunObserver]:
    """Show a run that a program started, in its notebook or on its terminal; nothing beside an *observer*.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the run after a round.
    """
    console = Console(stderr=True, markup=False, highlight=False)
    if observer is not None or not progress:
        yield observer or RunObserver()
    elif _is_notebook():
        yield NotebookDisplay()
    else:
        with ProgressDisplay(console, quiet=not console.is_terminal) as display:
            yield display
        if display.stop:
            raise KeyboardInterrupt


def _is_notebook() -> bool:
    """Return whether this is the kernel of a notebook; IPython is imported there."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _network(progress: RunProgress) -> str:
    parts = [f"{clock(progress.time_s)} simulated", f"delivered {_few(progress.delivered) or 'none'}"]
    nodes = [entity for entity in progress.down if isinstance(entity, str)]
    users = [entity for entity in progress.down if not isinstance(entity, str)]
    if progress.down:
        parts.append(f"out: {', '.join([*nodes, *([f'users {_few(users)}'] if users else [])])}")
    return " · ".join(parts)


def _few(users: Sequence[int]) -> str:
    more = len(users) - 3
    return " ".join(map(str, users[:3])) + (f" and {more} more" if more > 0 else "")


def _learners(progress: RunProgress) -> Iterator[str]:
    names = [*dict.fromkeys(name for name, _ in progress.lanes)]
    labels = {"accuracy": "", "rare_accuracy": " rare", "r2": " R²"}
    shown = [(metric, label) for metric, label in labels.items() if metric in progress.metrics]
    for learner in names[:SHOWN] if shown else ():
        lanes = [lane for lane, (name, _) in enumerate(progress.lanes) if name == learner]
        yield f"{learner}" + ",".join(f"{label} {_mean(progress.metrics[metric][lanes])}" for metric, label in shown)
    if shown and len(names) > SHOWN:
        yield f"and {len(names) - SHOWN} more learners"


def _mean(values: NDArray[np.float64]) -> str:
    finite = values[np.isfinite(values)]  # replicas that have not diverged
    return f"{finite.mean():.1%}" if finite.size else "diverged"
