"""Engines of sweeps: the interface, and the engine that runs tasks in processes of this machine."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from netfl.simulation.workers.process import WorkerProcess, check_workers
from netfl.sweeps import task as tasks_module
from netfl.sweeps.plan import Task, task_folder
from netfl.sweeps.task import TaskUpdate, UpdateHandler

_POLL_S = 0.2
_Inbox = queue.Queue[tuple[WorkerProcess, TaskUpdate | Exception]]
"""Updates of tasks by process, and the error that ended a process."""


class Engine(Protocol):
    """Interface of engines."""

    def run(self, tasks: Iterable[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*, each in its `task_folder`, and report the end of each task once.

        Args:
            tasks: the tasks.  The engine takes a task when it has room for it, in the thread of the caller, since the
                tasks of a search depend on the updates that were reported before.
            folder: folder of the sweep.
            report: receives the updates of the tasks, in the thread of the caller.  It returns ``True`` if the task is
                not worth its time and must end after its current round.
            stop: polled regularly. Once it returns ``True``, running tasks end after their current round and no other
                task starts. A task that did not finish is reported as stopped or not at all.

        Raises:
            MachineError: no task can run.
        """


class LocalEngine:
    """Engine with single-threaded processes of this machine; a process that dies costs one attempt of one task.

    Args:
        workers: number of processes; by default one for each core.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        retries: number of further attempts of a task whose process has died.

    Raises:
        ScenarioError: *workers* is not a number of processes.
    """

    def __init__(self, workers: int | None = None, device: str = "auto", retries: int = 1) -> None:
        if workers is not None:
            check_workers(workers)
        self._workers = workers or os.cpu_count() or 1
        self._device = device
        self._retries = retries

    def run(self, tasks: Iterable[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*; see `Engine.run`."""
        waiting = iter(tasks)
        retried: deque[Task] = deque()
        attempts: Counter[str] = Counter()
        busy: dict[WorkerProcess, Task] = {}
        idle: list[WorkerProcess] = []
        stopping: set[WorkerProcess] = set()
        inbox: _Inbox = queue.Queue()
        with ExitStack() as stack:

            def start_worker() -> WorkerProcess:
                worker = WorkerProcess(tasks_module.__name__, "its process")
                stack.callback(worker.close)
                threading.Thread(target=_listen, args=(worker, inbox), daemon=True).start()
                return worker

            def ask_to_stop(worker: WorkerProcess) -> None:
                if worker not in stopping:
                    worker.ask_to_stop()
                    stopping.add(worker)

            def give_tasks() -> None:
                while len(busy) < self._workers:
                    task = retried.popleft() if retried else next(waiting, None)
                    if task is None:
                        return
                    worker = idle.pop() if idle else start_worker()
                    busy[worker] = task
                    attempts[task.key] += 1
                    worker.send((task, task_folder(folder, task.key), self._device))

            while True:
                if stop():
                    waiting = iter(())
                    retried.clear()
                    for worker in busy:
                        ask_to_stop(worker)
                give_tasks()
                if not busy:
                    return
                try:
                    worker, message = inbox.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if isinstance(message, TaskUpdate):
                    ends_early = report(message)
                    if message.ended:
                        del busy[worker]
                        idle.append(worker)
                        stopping.discard(worker)
                    elif ends_early:
                        ask_to_stop(worker)
                elif worker in busy:  # it has died during its task
                    task = busy.pop(worker)
                    if attempts[task.key] <= self._retries:
                        retried.append(task)
                    else:
                        report(TaskUpdate(task.key, ended=True, error=str(message)))


def _listen(worker: WorkerProcess, inbox: _Inbox) -> None:
    """Put what a process sends into the *inbox*, in a thread of its own, until the process ends."""
    try:
        while True:
            inbox.put((worker, worker.receive()))
    except Exception as error:  # its process has ended, or was closed here
        inbox.put((worker, error))
