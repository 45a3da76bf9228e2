"""One task, wherever it is done: a run in a folder of its own, begun or gone on with."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netfl.errors import MachineError, NetflError
from netfl.results.locking import locked
from netfl.results.run_reader import open_run
from netfl.results.run_writer import create_run_directory
from netfl.simulation.learners import open_learner
from netfl.simulation.run import perform_run
from netfl.simulation.setup import prepare_run
from netfl.sweeps.plan import Task
from netfl.types import RunObserver, RunProgress, RunStart

_TOLD_EVERY_S = 0.5
"""Seconds between two words on how far a task is."""


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """What is heard of a task.

    Args:
        task: its key.
        round: how many rounds are over.
        rounds: how many there will be; 0 while that is not known.
        ended: whether no more is heard of it.
        error: why it failed; empty otherwise.
        stopped: whether it ended before its last round, and can go on.
    """

    task: str
    round: int = 0
    rounds: int = 0
    ended: bool = False
    error: str = ""
    stopped: bool = False


class TaskReporter(RunObserver):
    """Looks on at a task, and tells now and then how far it is.

    Args:
        task: its key.
        tell: whom.
    """

    def __init__(self, task: str, tell: Callable[[TaskUpdate], None]) -> None:
        self.stop = False
        self._task, self._tell, self._at = task, tell, 0.0

    def on_start(self, start: RunStart) -> None:
        """Report the number of rounds."""
        self._say(0, start.rounds)

    def on_round(self, progress: RunProgress) -> None:
        """Report the rounds so far, at most every `_TOLD_EVERY_S`."""
        if time.monotonic() - self._at >= _TOLD_EVERY_S:
            self._say(progress.round, progress.rounds)

    def _say(self, round: int, rounds: int) -> None:
        """Tell it; where nobody listens any more, the run ends with this round."""
        self._at = time.monotonic()
        try:
            self._tell(TaskUpdate(self._task, round, rounds))
        except BrokenPipeError:
            self.stop = True


def run_task(task: Task, folder: Path, device: str, watch: TaskReporter) -> TaskUpdate:
    """Do *task* in *folder*, or go on with it there; what came of it, whatever that is."""
    try:
        if not can_resume(folder):
            shutil.rmtree(folder, ignore_errors=True)
            status = _begin(task, folder, device, watch)
        else:
            status = _go_on(task, folder, device, watch)
    except NetflError as error:
        return TaskUpdate(task.key, ended=True, error=str(error))
    except Exception as error:  # whatever a model of the user's does; the other tasks go on
        return TaskUpdate(task.key, ended=True, error=f"{type(error).__name__}: {error}")
    return TaskUpdate(task.key, ended=True, stopped=status != "done")


def can_resume(folder: Path) -> bool:
    """Whether a run was begun there that can go on."""
    try:
        return open_run(folder).status in {"interrupted", "crashed"}
    except NetflError:
        return False


def _begin(task: Task, folder: Path, device: str, watch: TaskReporter) -> str:
    """Do it from the start."""
    with create_run_directory(folder):
        return _perform(task, folder, device, watch)


def _go_on(task: Task, folder: Path, device: str, watch: TaskReporter) -> str:
    """Go on with it; from the start where its checkpoint is of no use."""
    try:
        with locked(folder):
            return _perform(task, folder, device, watch)
    except MachineError:
        shutil.rmtree(folder, ignore_errors=True)
        return _begin(task, folder, device, watch)


def _perform(task: Task, folder: Path, device: str, watch: TaskReporter) -> str:
    """Play its rounds: how the run then stands."""
    replicas = range(task.first, task.scenario.replicas)
    staged = prepare_run(task.scenario, learning=task.learning, replicas=replicas)
    with open_learner(staged, device, learning=task.learning) as learner:
        return perform_run(staged, learner, folder, watch).status
