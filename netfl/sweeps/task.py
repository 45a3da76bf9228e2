"""Execution of one task: a run in its folder, started or continued."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netfl.errors import MachineError, NetflError
from netfl.results.locking import locked
from netfl.results.run_reader import TASKS, open_run
from netfl.results.run_writer import create_run_directory
from netfl.simulation.learners import open_learner
from netfl.simulation.run import perform_run
from netfl.simulation.setup import prepare_run
from netfl.sweeps.plan import Task
from netfl.types import RunObserver, RunProgress, RunStart

_UPDATE_EVERY_S = 0.5
"""Seconds between two updates of a task."""


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """Progress or end of a task.

    Args:
        task: key of the task.
        round: number of complete rounds.
        rounds: number of rounds of the run; 0 until it is known.
        ended: ``True`` in the last update of the task.
        error: error that ended the task; empty otherwise.
        stopped: ``True`` if the task ended before its last round and can be continued.
    """

    task: str
    round: int = 0
    rounds: int = 0
    ended: bool = False
    error: str = ""
    stopped: bool = False


UpdateHandler = Callable[[TaskUpdate], None]
"""Function that receives the updates of tasks."""


class TaskReporter(RunObserver):
    """Observer of a task's run that reports its progress.

    Args:
        task: key of the task.
        send: receives the updates.
        should_stop: polled after each round.
    """

    def __init__(self, task: str, send: UpdateHandler, should_stop: Callable[[], bool] = lambda: False) -> None:
        self._task, self._send, self._should_stop, self._sent_at = task, send, should_stop, -math.inf

    def on_start(self, start: RunStart) -> None:
        self._report(0, start.rounds)

    def on_round(self, progress: RunProgress) -> None:
        self._report(progress.round, progress.rounds)

    def _report(self, round: int, rounds: int) -> None:
        if time.monotonic() - self._sent_at >= _UPDATE_EVERY_S:
            self._sent_at = time.monotonic()
            try:
                self._send(TaskUpdate(self._task, round, rounds))
            except BrokenPipeError:  # the process of the sweep has died
                self.stop = True
        self.stop |= self._should_stop()


def open_worker(send: Callable[[object], None], should_stop: Callable[[], bool]) -> Callable[..., TaskUpdate]:
    """Return the function that a worker executes: run a task, and send its progress."""
    return lambda task, folder, device: run_task(task, folder, device, TaskReporter(task.key, send, should_stop))


def task_folder(folder: Path, task: str) -> Path:
    """Return the folder of a task's run; a Hive-partitioned Parquet data set reads the task's key from its name."""
    return folder / TASKS / f"task={task}"


def run_task(task: Task, folder: Path, device: str, reporter: TaskReporter) -> TaskUpdate:
    """Run *task* in *folder*, or continue it there, and return its last update, also after an error.

    A task starts over if its checkpoint is not usable.
    """
    try:
        status = ""
        if can_resume(folder):
            with suppress(MachineError), locked(folder):
                status = _perform(task, folder, device, reporter)
        if not status:
            shutil.rmtree(folder, ignore_errors=True)
            with create_run_directory(folder):
                status = _perform(task, folder, device, reporter)
    except NetflError as error:
        return TaskUpdate(task.key, ended=True, error=str(error))
    except Exception as error:  # a user's model may raise anything; other tasks continue
        return TaskUpdate(task.key, ended=True, error=f"{type(error).__name__}: {error}")
    return TaskUpdate(task.key, ended=True, stopped=status != "done")


def can_resume(folder: Path) -> bool:
    """Return whether *folder* has a run that can be continued."""
    try:
        return open_run(folder).status in {"interrupted", "crashed"}
    except NetflError:
        return False


def _perform(task: Task, folder: Path, device: str, reporter: TaskReporter) -> str:
    replicas = range(task.first, task.scenario.replicas)
    setup = prepare_run(task.scenario, learning=task.learning, replicas=replicas)
    with open_learner(setup, device, learning=task.learning) as learner:
        return perform_run(setup, learner, folder, reporter).status
