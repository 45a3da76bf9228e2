"""Interface of observers of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netfl.sweeps.index import PointEntry, SearchEntry, TrialEntry
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate


class SweepObserver:
    """Observer of a sweep; derive from it and override what is needed.

    Attributes:
        stop: set it to end each task after its current round, with a checkpoint.
    """

    stop: bool = False

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Observe the number of points, the tasks to do, and the number of tasks that are done already."""

    def on_search(self, folder: Path, search: SearchEntry) -> None:
        """Observe a search, with the trials that are there already; it has no plan."""

    def on_trial(self, number: int, trial: TrialEntry, point: PointEntry, tasks: Sequence[Task]) -> None:
        """Observe the start of a trial, with its tasks, or its end."""

    def on_update(self, update: TaskUpdate) -> None:
        """Observe the progress or the end of a task."""
