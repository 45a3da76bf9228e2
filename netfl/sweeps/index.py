"""Index of a sweep's folder: points, the lanes that provide them, and the tasks that run these lanes.

``sweep.json`` contains the whole index; ``points.parquet`` and ``lanes.parquet`` repeat it for other tools.  The status
of a task is that of its run directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pandas as pd
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from netfl import files
from netfl.core.formats import FORMAT, check_folder_format
from netfl.errors import NetflError, ScenarioError
from netfl.files import absolute_path, is_file_name, unreadable_file
from netfl.results.atomic_write import atomic_write, write_json
from netfl.results.formatting import format_final, format_setting, learning_label, metric_label
from netfl.results.run_reader import Run, open_run
from netfl.results.statistics import metric_of
from netfl.scenario.path_errors import SWEEP, is_sweep, wrong_path
from netfl.scenario.scenario import Scenario
from netfl.sweeps.plan import MAX_REPLICAS, Cell, Point, TaskEntry, task_folder


class PointEntry(BaseModel):
    """A point: its values by axis, its trace, its lane keys by learner, its levels, and its choices among learners."""

    values: dict[str, Any]
    trace: str
    lanes: dict[str, str]
    levels: list[float]
    choices: list[str]


class TrialEntry(BaseModel):
    """A trial of a search; its point has the same number."""

    state: Literal["running", "done", "pruned", "failed"] = "running"
    """``pruned``: ended early, as its metric was poor."""
    value: float | None = None
    """Value of the metric that the search optimises; of a pruned trial the last one before its end."""
    error: str = ""
    """Reason of the failure."""
    tasks: list[str] = []
    """Keys of the tasks that run it."""


class SearchEntry(BaseModel):
    """A search: what it optimises, how many trials it has, and those that were started."""

    metric: str
    learner: str
    """Learner that has the metric; empty for a metric of the network."""
    direction: Literal["maximize", "minimize"]
    trials: Annotated[int, Field(ge=1)]
    """Number of trials, started or not."""
    paths: dict[str, str]
    """Dotted path of each axis, by its name."""
    entries: list[TrialEntry]

    def ranked(self) -> list[int]:
        """Return the numbers of complete trials, the best first."""
        sign = -1 if self.direction == "maximize" else 1
        done = [number for number, entry in enumerate(self.entries) if entry.state == "done"]
        return sorted(done, key=lambda number: (sign * (self.entries[number].value or 0.0), number))

    @property
    def is_over(self) -> bool:
        """No trial runs or is left."""
        return len(self.entries) >= self.trials and all(entry.state != "running" for entry in self.entries)

    def describe(self, number: int, values: Mapping[str, Any]) -> str:
        """Return the number, the value and the settings of a trial in words."""
        metric = metric_of(self.metric)
        label = f"{self.learner}, {learning_label(metric)}" if self.learner else metric_label(metric)
        settings = ", ".join(f"{name} = {format_setting(value)}" for name, value in values.items())
        return f"trial {number}: {label} {format_final(metric, self.entries[number].value)} at {settings}"


class FinishedCells:
    """The first complete task that has a cell."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, int], list[tuple[str, frozenset[float]]]] = {}

    def add(self, key: str, task: TaskEntry) -> None:
        """Add the cells of a complete task."""
        for lane, replica in product(task.lanes, range(task.first, task.stop)):
            self._tasks.setdefault((lane, replica), []).append((key, frozenset(task.levels)))

    def find(self, cell: Cell) -> str | None:
        """Return the key of the first task with a cell, or ``None``."""
        lane, replica, levels = cell
        for key, task_levels in self._tasks.get((lane, replica), ()):
            if levels <= task_levels:
                return key
        return None


def _check_key(key: str) -> str:
    """Refuse the key of a task whose folder is not one of the sweep."""
    if not is_file_name(f"task={key}"):
        raise ValueError("is not the key of a task")
    return key


_TaskKey = Annotated[str, AfterValidator(_check_key)]


class SweepIndex(BaseModel):
    """Index of the tasks of a sweep, done or not, and of its points."""

    folder: Annotated[Path, Field(exclude=True)]
    replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
    """Replicas of each point."""
    points: list[PointEntry]
    tasks: dict[_TaskKey, TaskEntry]
    """Tasks by key."""
    errors: dict[str, str]
    """Errors of failed tasks, by key."""
    search: SearchEntry | None = None
    """The search, if the points are its trials."""

    @model_validator(mode="after")
    def _check_axes(self) -> Self:
        if any(point.values.keys() != self.points[0].values.keys() for point in self.points):
            raise ValueError("points have different axes")
        if self.search is not None and len(self.search.entries) != len(self.points):
            raise ValueError("the points are not the trials")
        return self

    @classmethod
    def read(cls, folder: Path) -> SweepIndex:
        """Read ``sweep.json`` of *folder*.

        Raises:
            ScenarioError: the file is missing, or a netfl of another format wrote it.
            MachineError: the file is damaged.
        """
        path = folder / SWEEP
        if not is_sweep(folder):
            raise ScenarioError([wrong_path(folder, "sweep")])
        try:
            content = json.loads(files.read_text(path))
            check_folder_format(content.get("format"), path)
            return cls.model_validate(content | {"folder": folder})
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise unreadable_file(path, ValueError(f"{key}: {first['msg']}")) from error
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise unreadable_file(path, error) from error

    def plan(self, scenario: Scenario, points: Sequence[Point], names: Mapping[str, str]) -> None:
        """Set the points of the sweep; *names* are the names of the axes by dotted path."""
        self.replicas = scenario.replicas
        self.points = [point_entry(point, names) for point in points]
        self.errors = {}
        self.search = None

    def run(self, task: str) -> Run | None:
        """Return the run of a task; ``None`` before it starts."""
        try:
            return open_run(task_folder(self.folder, task))
        except ScenarioError:
            return None

    def status(self, task: str) -> str:
        """Return ``done``, ``interrupted``, ``running``, ``crashed``, ``failed``, ``missing``, or ``pruned``.

        A pruned task belongs to trials that a search has ended early.
        """
        try:
            run = self.run(task)
            status = "missing" if run is None else run.status
        except NetflError:
            status = "crashed"
        if status != "done" and self.search is not None:
            trial_states = {entry.state for entry in self.search.entries if task in entry.tasks}
            if trial_states == {"pruned"}:
                return "pruned"
        if status == "missing" and task in self.errors:
            return "failed"
        return status

    def damage(self, task: str) -> str:
        """Return why the run of a task cannot be read; empty if it can, or does not exist."""
        try:
            run = self.run(task)
            if run is not None:
                _ = run.status
        except NetflError as error:
            return str(error)
        return ""

    def done(self) -> list[str]:
        """Return the keys of complete tasks, in the order of planning."""
        return [task for task in self.tasks if self.status(task) == "done"]

    def finished_cells(self) -> FinishedCells:
        """Return the cells of complete tasks."""
        cells = FinishedCells()
        for task in self.done():
            cells.add(task, self.tasks[task])
        return cells

    def lane_table(self) -> pd.DataFrame:
        """Return one row for each complete point, learner and replica: its task, and the lane's name in the run."""
        cells = self.finished_cells()
        rows: list[tuple[int, str, int, str, str]] = []
        for number, point in enumerate(self.points):
            levels = frozenset(point.levels)
            task_of_replica: dict[int, str] = {}
            for (learner, lane), replica in product(point.lanes.items(), range(self.replicas)):
                task = cells.find((lane, replica, levels))
                if task is not None:
                    rows.append((number, learner, replica, task, self.tasks[task].lanes[lane]))
                    task_of_replica[replica] = task
            # a choice among learners is a lane of the one task that has them all
            for choice in point.choices:
                for replica, task in task_of_replica.items():
                    rows.append((number, choice, replica, task, choice))
        return pd.DataFrame(rows, columns=["point", "learner", "replica", "task", "lane"])

    def point_table(self, lanes: pd.DataFrame) -> pd.DataFrame:
        """Return one row for each point: its number, the trace that it shares, the values of the axes, and its status.

        Args:
            lanes: from `lane_table`.
        """
        axes = [*(self.points[0].values if self.points else ())]
        columns: dict[str, Any] = {"point": range(len(self.points)), "trace": [point.trace for point in self.points]}
        for axis in axes:
            columns[axis] = axis_column([point.values[axis] for point in self.points])

        # points are done when they have all their lanes, in all replicas
        counts = lanes["point"].value_counts()
        status = []
        for number, point in enumerate(self.points):
            complete = int(counts.get(number, 0))
            if not complete:
                status.append("missing")
            elif complete == (len(point.lanes) + len(point.choices)) * self.replicas:
                status.append("done")
            else:
                status.append("partial")
        if self.search is not None:
            for number, entry in enumerate(self.search.entries):
                if entry.state in {"pruned", "failed"}:
                    status[number] = entry.state
        return pd.DataFrame(columns | {"status": status})

    def write_json(self) -> None:
        """Write the index without the tables for other tools."""
        write_json(self.folder / SWEEP, {"format": FORMAT} | self.model_dump())

    def write(self) -> None:
        """Write the files of the index, each completely or not at all."""
        self.write_json()
        lanes = self.lane_table()
        for name, table in (("points", self.point_table(lanes)), ("lanes", lanes)):
            with atomic_write(self.folder / f"{name}.parquet") as part:
                table.to_parquet(absolute_path(part), index=False)


def point_entry(point: Point, names: Mapping[str, str]) -> PointEntry:
    """Return the entry of a point; *names* are the names of the axes by dotted path."""
    return PointEntry(
        values={names[path]: value for path, value in point.values.items()},
        trace=point.trace,
        lanes=dict(point.lanes),
        levels=sorted(point.levels),
        choices=[*point.scenario.evaluation.choose],
    )


def axis_column(values: Sequence[Any]) -> list[Any]:
    """Return the values of an axis as a column: numbers, booleans and strings unchanged, other values as JSON."""
    if all(isinstance(value, bool) for value in values) or all(isinstance(value, str) for value in values):
        return list(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]
