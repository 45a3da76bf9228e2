"""Engines of sweeps: the interface, and the engine that runs tasks in processes of this machine."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from netfl.simulation.workers.process import WorkerProcess
from netfl.sweeps import task as tasks_module
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate, UpdateHandler, task_folder

_POLL_S = 0.2


class Engine(Protocol):
    """Interface of engines."""

    def run(self, tasks: Sequence[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*, each in its `task_folder`, and report the end of each task once.

        Args:
            tasks: the tasks.
            folder: folder of the sweep.
            report: receives the updates of the tasks, in the thread of the caller.
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
    """

    def __init__(self, workers: int | None = None, device: str = "auto", retries: int = 1) -> None:
        self._workers, self._device, self._retries = workers or os.cpu_count() or 1, device, retries

    def run(self, tasks: Sequence[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*; see `Engine.run`."""
        waiting, attempts = deque(tasks), Counter[str]()
        busy, asked = dict[WorkerProcess, Task](), set[WorkerProcess]()
        inbox: queue.Queue[tuple[WorkerProcess, TaskUpdate | Exception]] = queue.Queue()
        with ExitStack() as stack:

            def start_worker() -> WorkerProcess:
                worker = WorkerProcess(tasks_module.__name__, "its process")
                stack.callback(worker.close)
                threading.Thread(target=listen, args=(worker,), daemon=True).start()
                return worker

            def listen(worker: WorkerProcess) -> None:
                try:
                    while True:
                        inbox.put((worker, worker.receive()))
                except Exception as error:  # its process has ended, or was closed here
                    inbox.put((worker, error))

            idle = [start_worker() for _ in range(min(self._workers, len(tasks)))]
            while waiting or busy:
                if stop():
                    waiting.clear()
                    for worker in busy.keys() - asked:
                        worker.ask_to_stop()
                        asked.add(worker)
                while waiting and idle:
                    worker, task = idle.pop(), waiting.popleft()
                    busy[worker] = task
                    attempts[task.key] += 1
                    worker.send((task, task_folder(folder, task.key), self._device))
                with suppress(queue.Empty):
                    worker, update = inbox.get(timeout=_POLL_S)
                    if isinstance(update, TaskUpdate):
                        report(update)
                        if update.ended:
                            del busy[worker]
                            idle.append(worker)
                    elif worker in busy:
                        task = busy.pop(worker)
                        idle.append(start_worker())
                        if attempts[task.key] <= self._retries:
                            waiting.append(task)
                        else:
                            report(TaskUpdate(task.key, ended=True, error=str(update)))
