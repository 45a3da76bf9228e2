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

from netfl.core.screen import open_console
from netfl.errors import Fault, ScenarioError
from netfl.results.formatting import clock, counted, format_progress
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

_NAMED_USERS = 3
"""Users that a line names."""


class _Screen(Progress):
    """A bar; below it the state of network and learners, the progress within a slow round and a request to stop."""

    state: Sequence[str] = ()
    within: str = ""
    stopping: str = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table([task for task in self.tasks if task.visible])
        for line in (*self.state, self.within, self.stopping):
            if line:
                yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")


class StopOnSignal:
    """A context in which *screen* is shown, and Ctrl-C and SIGTERM are requests to stop."""

    def __init__(self, screen: Progress) -> None:
        self.stop = False
        self._screen = screen
        self._is_over = False
        self._former_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._screen.start()
        if current_thread() is main_thread():  # no other thread can set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former_handlers[number] = signal.signal(number, lambda *_: self.ask_to_stop())
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._screen.stop()
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)

    def ask_to_stop(self) -> None:
        """Stop after the current round; stop at once on the second call."""
        if self.stop and not self._is_over:
            raise KeyboardInterrupt
        self.stop = True


class ProgressDisplay(StopOnSignal, RunObserver):
    """A display of a run: a screen on a terminal, plain lines elsewhere, nothing if *quiet*."""

    _screen: _Screen

    def __init__(self, console: Console, *, quiet: bool) -> None:
        super().__init__(
            _Screen(
                BarColumn(),
                TextColumn("{task.fields[position]}", markup=False),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=console,
                disable=quiet or not console.is_terminal,
                transient=True,
            )
        )
        self._console = console
        self._quiet = quiet
        self._is_open = False
        self._is_pass = False  # the run that starts next, or runs, is a pass of tuning
        self._pass_is_next = False
        self._duration_s: float | None = None
        now = time.monotonic()
        self._round_at = now  # start of the round
        self._within_at = now  # the last progress line within a round
        self._printed_at = now  # the last line of a round
        self._printed_share = 0.0  # of the run that was over then
        self._task = self._screen.add_task("round", total=None, position="", visible=False)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._screen.stopping = STOPPING

    def on_start(self, start: RunStart) -> None:
        now = time.monotonic()
        self._printed_at = now
        self._printed_share = 0.0
        self._round_at = now
        self._is_open = True
        self._is_pass = self._pass_is_next
        self._pass_is_next = False
        self._duration_s = start.duration_s
        self._screen.within = ""
        self._screen.update(self._task, total=1.0, completed=0.0, visible=True)
        if not self._quiet:
            title = _describe_pass(start) if self._is_pass else f"{start.name} → {start.folder}"
            self._console.print(title, soft_wrap=True)
            if start.training:
                self._console.print(f"training: {start.training}", soft_wrap=True)

    def pass_observer(self) -> RunObserver:
        """Return this display, which shows the run that starts next as a pass of tuning."""
        self._pass_is_next = True
        return self

    def on_progress(self, progress: RoundProgress) -> None:
        """Show the progress within a slow round.

        Raises:
            KeyboardInterrupt: a stop was requested before the run began, while rounds are played to partition the data.
        """
        if self.stop and not self._is_open:
            raise KeyboardInterrupt
        now = time.monotonic()
        slow_s = SLOW_S
        if self._screen.disable:
            slow_s = PLAIN_EVERY_S
        if self._quiet or now - self._round_at < slow_s:
            return
        if now - max(self._within_at, self._printed_at) < self._every_s:
            return
        self._within_at = now
        line = f"running: {format_progress(progress)}"
        if self._duration_s is None:
            line = f"in round {progress.round}: {format_progress(progress)}"
        if not self._is_open:
            line = f"partitioning the data, {line}"
        if not self._screen.disable:
            self._screen.within = line
            return
        if self.stop:
            line = f"{line} · {STOPPING}"
        self._console.print(line, soft_wrap=True)

    def on_round(self, progress: RunProgress) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        self._round_at = now
        self._screen.within = ""
        if now - self._printed_at < self._every_s:
            return
        pace_s = (now - self._printed_at) / max(progress.share - self._printed_share, 1e-9)  # of the whole run
        self._printed_at = now
        self._printed_share = progress.share
        state: list[str] = []
        if self._duration_s is None:
            position = _describe_position(progress)
            state = [_describe_network(progress), *_describe_learners(progress)]
            if self._is_pass:
                position = f"tuning: {position}"
        else:  # traffic alone
            position = f"{clock(progress.time_s)} of {clock(self._duration_s)}"
        if self._is_pass and self._screen.disable:
            state = []  # a line with a value of each candidate is too long to read
        if self._screen.disable:
            left_s = pace_s * (1.0 - progress.share)
            self._console.print(" · ".join([position, *state, f"{left_s:.0f} s left"]), soft_wrap=True)
        else:
            self._screen.state = state
            self._screen.update(self._task, completed=progress.share, position=position)

    @property
    def _every_s(self) -> float:
        """Seconds between two lines, or between two updates of the screen."""
        if self._screen.disable:
            return PLAIN_EVERY_S
        return SCREEN_EVERY_S


class NotebookOutput:
    """An output of a notebook cell, whose content can be replaced."""

    def __init__(self) -> None:
        ipython: Any = importlib.import_module("IPython.display")  # it is there in a notebook
        self._html = ipython.HTML
        self._output = ipython.display(ipython.HTML(""), display_id=True)

    def show(self, html: str) -> None:
        """Replace the content."""
        self._output.update(self._html(f"<div>{html}</div>"))


class NotebookDisplay(RunObserver):
    """A display of a run in a notebook: a bar, and below it the state of network and learners."""

    def __init__(self) -> None:
        self._output = NotebookOutput()
        self._title = ""
        self._shown_at = 0.0
        self._pass_is_next = False

    def on_start(self, start: RunStart) -> None:
        self._title = f"{escape(start.name)} → <code>{escape(str(start.folder))}</code>"
        if self._pass_is_next:
            self._title = escape(_describe_pass(start))
        self._pass_is_next = False
        if start.training:
            self._title += f"<br>training: {escape(start.training)}"

    def on_round(self, progress: RunProgress) -> None:
        now = time.monotonic()
        if now - self._shown_at >= SCREEN_EVERY_S or progress.round == progress.rounds:
            self._shown_at = now
            lines = [_describe_position(progress), _describe_network(progress), *_describe_learners(progress)]
            bar = f'<progress style="width: 20em" value="{progress.share:.4f}" max="1"></progress>'
            self._show(f"{bar} {'<br>'.join(map(escape, lines))}")

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        self._show(status)

    def pass_observer(self) -> RunObserver:
        """Return this display, which shows the run that starts next as a pass of tuning."""
        self._pass_is_next = True
        return self

    def _show(self, state: str) -> None:
        self._output.show(f"{self._title}<br>{state}")


@contextmanager
def python_display(observer: RunObserver | None, *, progress: bool) -> Iterator[RunObserver]:
    """Show a run that a program started, in its notebook or on its terminal; nothing beside an *observer*.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the run after a round.
    """
    if not isinstance(observer, RunObserver | None):
        problem = f"not an observer of runs but {type(observer).__name__}"
        raise ScenarioError([Fault("observer", problem, None, "derive its class from netfl.types.RunObserver")])
    console = open_console(stderr=True)
    if observer is not None or not progress:
        yield observer or RunObserver()
    elif is_notebook():
        yield NotebookDisplay()
    else:
        with ProgressDisplay(console, quiet=not console.is_terminal) as display:
            yield display
        if display.stop:
            raise KeyboardInterrupt


def is_notebook() -> bool:
    """Return whether this is the kernel of a notebook; IPython is imported there."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell: Any = ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _describe_pass(start: RunStart) -> str:
    """Return the title of a pass of tuning, whose learners are candidates and whose folder is numbered."""
    candidates = len({learner for learner, _ in start.lanes})
    place = start.folder.name.replace("-", " ")
    if start.folder.parent.name.startswith("replica-"):  # which is tuned by itself
        place = f"{start.folder.parent.name.replace('-', ' ')}, {place}"
    return f"tuning {start.name}: {place}, {counted(candidates, 'candidate')}"


def _describe_position(progress: RunProgress) -> str:
    """Return the number of the last round, with that of all rounds if it is known."""
    if progress.rounds is None:
        return f"round {progress.round}"
    return f"round {progress.round}/{progress.rounds}"


def _describe_network(progress: RunProgress) -> str:
    """Return the time, the deliveries of the last round, and all that is down, in a line."""
    delivered = "none"
    if progress.delivered:
        delivered = _format_users(progress.delivered)
    simulated = clock(progress.time_s)
    if progress.stop_s is not None:
        simulated += f" of {clock(progress.stop_s)}"
    parts = [f"{simulated} simulated", f"delivered {delivered}"]
    down = [entity for entity in progress.down if isinstance(entity, str)]
    users = [entity for entity in progress.down if not isinstance(entity, str)]
    if users:
        down.append(f"users {_format_users(users)}")
    if down:
        parts.append(f"out: {', '.join(down)}")
    return " · ".join(parts)


def _format_users(users: Sequence[int]) -> str:
    """Return the first users, and the number of the others."""
    first = " ".join(map(str, users[:_NAMED_USERS]))
    if len(users) <= _NAMED_USERS:
        return first
    return f"{first} and {len(users) - _NAMED_USERS} more"


def _describe_learners(progress: RunProgress) -> Iterator[str]:
    """Yield a line with the metrics of each of the first learners, as a mean over replicas."""
    labels = {"accuracy": "", "rare_accuracy": " rare", "r2": " R²"}
    metrics = [metric for metric in labels if metric in progress.metrics]
    if not metrics:
        return
    learners = [*dict.fromkeys(name for name, _ in progress.lanes)]
    for learner in learners[:SHOWN]:
        lanes = [lane for lane, (name, _) in enumerate(progress.lanes) if name == learner]
        means = [f"{labels[metric]} {_format_mean(progress.metrics[metric][lanes])}" for metric in metrics]
        yield f"{learner}{','.join(means)}"
    if len(learners) > SHOWN:
        yield f"and {len(learners) - SHOWN} more learners"


def _format_mean(values: NDArray[np.float64]) -> str:
    finite = values[np.isfinite(values)]  # replicas that have not diverged
    if not finite.size:
        return "diverged"
    return f"{finite.mean():.1%}"
