"""Execution of one task: a run in its folder, started or continued."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from netfl.errors import MachineError, NetflError
from netfl.results.locking import locked
from netfl.results.run_reader import open_run
from netfl.results.run_writer import create_run_directory
from netfl.simulation.run import perform_scenario
from netfl.sweeps.plan import Task
from netfl.types import LearnerReport, RunObserver, RunProgress, RunStart

_UPDATE_EVERY_S = 0.5
"""Seconds between two updates of a task."""


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """Progress or end of a task.

    Args:
        task: key of the task.
        round: number of complete rounds.
        rounds: number of rounds of the run; 0 if it is unknown.
        share: share of the run that is over.
        ended: ``True`` in the last update of the task.
        error: error that ended the task; empty otherwise.
        stopped: ``True`` if the task ended before its last round and can be continued.
        values: after an evaluation, the watched metric of each learner of the task: its mean over replicas.
    """

    task: str
    round: int = 0
    rounds: int = 0
    share: float = 0.0
    ended: bool = False
    error: str = ""
    stopped: bool = False
    values: Mapping[str, float] = field(default_factory=dict)


UpdateHandler = Callable[[TaskUpdate], bool | None]
"""Function that receives the updates of tasks; it returns ``True`` if the task must end after its current round."""


class TaskReporter(RunObserver):
    """Observer of a task's run that reports its progress.

    Args:
        task: the task.
        send: receives the updates.
        should_stop: polled after each round.
    """

    def __init__(
        self, task: Task, send: Callable[[TaskUpdate], object], should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._task = task
        self._send = send
        self._should_stop = should_stop
        self._sent_at = -math.inf
        self._rounds = 0
        self._share = 0.0
        # of each lane: its learner, the place of its replica, whether this has ended, and the watched metric
        self._learners = np.array([])
        self._places = np.array([], np.int64)
        self._has_ended = np.array([], bool)
        self._watched = np.array([])

    def on_start(self, start: RunStart) -> None:
        self._rounds = start.rounds or 0
        self._learners = np.array([learner for learner, _ in start.lanes])
        replicas = np.array([replica for _, replica in start.lanes], np.int64)
        _, self._places = np.unique(replicas, return_inverse=True)
        self._has_ended = np.zeros(len(replicas), bool)
        self._watched = np.full(len(replicas), np.nan)
        self._report(0)

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Send the watched metric of the task, if it has one."""
        values = report.metrics.get(self._task.watched)
        if values is None:
            return
        self._watched = np.where(self._has_ended, self._watched, values)  # the last values of replicas that have ended
        if not report.round:  # before training
            return
        means = {}
        for learner in dict.fromkeys(self._learners.tolist()):
            means[learner] = float(self._watched[self._learners == learner].mean())
        self._post(TaskUpdate(self._task.key, report.round, self._rounds, self._share, values=means))

    def on_round(self, progress: RunProgress) -> None:
        self._share = progress.share
        if len(self._places) and None in progress.results:
            is_over = np.array([result is None for result in progress.results])  # [replicas]
            self._has_ended = is_over[self._places]
        self._report(progress.round)

    def pass_observer(self) -> RunObserver:
        """Return an observer that stops a pass of tuning with the task, and sends nothing."""
        return TaskReporter(self._task, lambda _: None, self._should_stop)

    def _report(self, round: int) -> None:
        if time.monotonic() - self._sent_at >= _UPDATE_EVERY_S:
            self._sent_at = time.monotonic()
            self._post(TaskUpdate(self._task.key, round, self._rounds, self._share))
        self.stop |= self._should_stop()

    def _post(self, update: TaskUpdate) -> None:
        try:
            self._send(update)
        except BrokenPipeError:  # the process of the sweep has died
            self.stop = True


def open_worker(send: Callable[[object], None], should_stop: Callable[[], bool]) -> Callable[..., TaskUpdate]:
    """Return the function that a worker executes: run a task, and send its progress."""
    return lambda task, folder, device: run_task(task, folder, device, TaskReporter(task, send, should_stop))


def run_task(task: Task, folder: Path, device: str, reporter: TaskReporter) -> TaskUpdate:
    """Run *task* in *folder*, or continue it there, and return its last update, also after an error.

    A task starts over if its checkpoint is not usable.
    """
    try:
        status = ""
        if is_running(folder):
            return TaskUpdate(task.key, ended=True, error=f"another process runs it in {folder}")
        if can_resume(folder):
            with suppress(MachineError), locked(folder):  # a checkpoint that cannot be read
                status = _perform(task, folder, device, reporter)
        if not status:  # from the beginning
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


def is_running(folder: Path) -> bool:
    """Return whether another process writes a run into *folder*."""
    try:
        return open_run(folder).status == "running"
    except NetflError:
        return False


def _perform(task: Task, folder: Path, device: str, reporter: TaskReporter) -> str:
    replicas = range(task.first, task.scenario.replicas)
    run = perform_scenario(task.scenario, folder, reporter, device=device, learning=task.learning, replicas=replicas)
    return run.status
