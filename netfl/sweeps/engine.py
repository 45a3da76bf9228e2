"""Interface of the engines that run the tasks of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from netfl.results.run_reader import TASKS
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate

UpdateHandler = Callable[[TaskUpdate], None]
"""Function that receives the updates of tasks, in the thread that called `Engine.run`."""


class Engine(Protocol):
    """Interface of engines."""

    def run(self, tasks: Sequence[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*, each in its `task_folder`, and report the end of each task once.

        Args:
            tasks: the tasks.
            folder: folder of the sweep.
            report: receives the updates of the tasks.
            stop: polled regularly. Once it returns ``True``, running tasks end after their current round and no other
                task starts. A task that did not finish is reported as stopped or not at all.

        Raises:
            MachineError: no task can run.
        """


def task_folder(folder: Path, task: str) -> Path:
    """Return the folder of a task's run; a Hive-partitioned Parquet data set reads the task's key from its name."""
    return folder / TASKS / f"task={task}"
