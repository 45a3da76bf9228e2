"""What an engine is: whoever has tasks done, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from netfl.results.run_reader import TASKS
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate

Heard = Callable[[TaskUpdate], None]
"""Who is told of tasks; in the thread that called `Engine.run`."""


class Engine(Protocol):
    """Has tasks done."""

    def run(self, tasks: Sequence[Task], folder: Path, heard: Heard, stop: Callable[[], bool]) -> None:
        """Do all *tasks*, each in its `place` below *folder*; every one is told to *heard* as ended, once.

        Args:
            tasks: what to do.
            folder: of the sweep.
            heard: is told how tasks go.
            stop: asked now and then; once it says so, tasks under way end after their round, and no other is begun.
                Those are told as stopped, if at all.

        Raises:
            MachineError: nothing can be done at all.
        """


def task_folder(folder: Path, task: str) -> Path:
    """Where a task's run is: a Parquet data set in Hive's form finds the task's key in the folder's name."""
    return folder / TASKS / f"task={task}"
