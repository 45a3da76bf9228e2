"""What a sweep's folder says of it: which points there are, which lanes bring them, and which task brings those.

Everything stands in ``sweep.json``; ``points.parquet`` and ``lanes.parquet`` say the same to other tools.  Whether a
task is done its own run directory says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, Field, ValidationError, field_validator

from netfl.errors import Fault, MachineError, NetflError, ScenarioError
from netfl.network import files
from netfl.network.files import absolute_path
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import SWEEP, TASKS, Run, open_run
from netfl.results.run_writer import write_json, write_text
from netfl.scenario.scenario import Scenario
from netfl.sweeps.engine import task_folder
from netfl.sweeps.plan import Cell, Point, Task
from netfl.types import FORMAT, check_format

_MOST_REPLICAS = 1_000_000
"""No sweep has more; a file that says so would keep its readers busy."""


class _Task(BaseModel):
    trace: str
    lanes: dict[str, str]
    first: Annotated[int, Field(ge=0)]
    stop: Annotated[int, Field(le=_MOST_REPLICAS)]
    levels: list[float]
    label: str = ""


class _Point(BaseModel):
    values: dict[str, Any]
    trace: str
    lanes: dict[str, str]
    levels: list[float]
    choices: list[str]


class _Told(BaseModel):
    tasks: dict[str, _Task]
    points: list[_Point]
    replicas: Annotated[int, Field(ge=1, le=_MOST_REPLICAS)]
    errors: dict[str, str]

    @field_validator("points")
    @classmethod
    def _same_axes(cls, points: list[_Point]) -> list[_Point]:
        """Refuse points that lie on other axes than the first."""
        if any(one.values.keys() != points[0].values.keys() for one in points):
            raise ValueError("points have different axes")
        return points


@dataclass
class SweepIndex:
    """The tasks that a folder knows of, done or not, and the points that are asked for.

    Args:
        folder: of the sweep.
        tasks: by key: ``trace``, ``lanes`` (lane key → name in the run), ``first`` and ``stop`` of its replicas,
            ``levels`` at which the CVaR is told, and the ``label`` that people read.
        points: for each, ``values`` by axis, ``trace``, ``lanes`` (learner → lane key), ``levels``, and the names of
            its ``choices`` among learners.
        replicas: how many each point has.
        errors: why a task failed, by key.
    """

    folder: Path
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)
    replicas: int = 1
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> SweepIndex:
        """What ``sweep.json`` of *folder* says.

        Raises:
            ScenarioError: there is none, or a newer netfl wrote it.
            MachineError: it is damaged.
        """
        path = folder / SWEEP
        try:
            told = json.loads(files.read_text(path))
            check_format(told.get("format"), str(path))
            _Told.model_validate(told)
            return cls(folder, told["tasks"], told["points"], told["replicas"], told["errors"])
        except (FileNotFoundError, NotADirectoryError):
            problem = f"{folder} is no folder of a sweep: there is no sweep.json in it"
            raise ScenarioError([Fault("", problem, None, "name a folder that netfl sweep wrote")]) from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise MachineError(f"{path} cannot be read: {place}: {first['msg']}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error

    def plan(self, scenario: Scenario, points: Sequence[Point], names: Mapping[str, str]) -> None:
        """Have the points asked for be *points*, whose axes are called *names*."""
        self.replicas, self.errors = scenario.replicas, {}
        self.points = [
            {
                "values": {names[path]: value for path, value in point.values.items()},
                "trace": point.trace,
                "lanes": dict(point.lanes),
                "levels": sorted(point.levels),
                "choices": [*point.scenario.evaluation.choose],
            }
            for point in points
        ]

    def add(self, tasks: Sequence[Task]) -> None:
        """Know of *tasks*."""
        for task in tasks:
            told = {"trace": task.trace, "lanes": dict(task.lanes), "first": task.first, "stop": task.stop}
            self.tasks[task.key] = told | {"levels": sorted(task.levels), "label": task.label}

    def run(self, task: str) -> Run | None:
        """A task's run, if one has begun."""
        try:
            return open_run(task_folder(self.folder, task))
        except ScenarioError:
            return None

    def status(self, task: str) -> str:
        """``done``, ``interrupted``, ``running``, ``crashed``, ``failed``, or ``missing`` where it has not begun."""
        try:
            run = self.run(task)
            status = "missing" if run is None else run.status
        except NetflError:
            status = "crashed"
        return "failed" if status == "missing" and task in self.errors else status

    def done(self) -> list[str]:
        """The tasks that are done, in the order in which they were planned."""
        return [task for task in self.tasks if self.status(task) == "done"]

    def manifests(self) -> list[dict[str, Any]]:
        """Those of the tasks that are done."""
        return [run.manifest for task in self.done() if (run := self.run(task)) is not None]

    def homes(self) -> Callable[[Cell], str | None]:
        """Says which task brought a cell, the first one of them; ``None`` where none is done."""
        found: dict[tuple[str, int], list[str]] = {}
        for task in self.done():
            told = self.tasks[task]
            for cell in product(told["lanes"], range(told["first"], told["stop"])):
                found.setdefault(cell, []).append(task)

        def home(cell: Cell) -> str | None:
            lane, replica, levels = cell
            tasks = found.get((lane, replica), ())
            return next((task for task in tasks if levels <= {*self.tasks[task]["levels"]}), None)

        return home

    def lane_table(self) -> pd.DataFrame:
        """One row for each point, learner and replica that is there: the task, and what its run calls the lane."""
        home, rows = self.homes(), list[tuple[int, str, int, str, str]]()
        for number, point in enumerate(self.points):
            before = len(rows)
            for (learner, lane), replica in product(point["lanes"].items(), range(self.replicas)):
                task = home((lane, replica, frozenset(point["levels"])))
                if task is not None:
                    rows.append((number, learner, replica, task, self.tasks[task]["lanes"][lane]))
            chosen = {replica: task for *_, replica, task, _ in rows[before:]}  # all learners are in one task
            rows += [(number, name, *there, name) for name in point["choices"] for there in chosen.items()]
        return pd.DataFrame(rows, columns=["point", "learner", "replica", "task", "lane"])

    def point_table(self, lanes: pd.DataFrame) -> pd.DataFrame:
        """One row for each point: its number, the trace that it shares, the values of the axes, and how it stands.

        Args:
            lanes: from `lane_table`.
        """
        axes = [*(self.points[0]["values"] if self.points else ())]
        columns: dict[str, Any] = {"point": range(len(self.points)), "trace": [one["trace"] for one in self.points]}
        columns |= {axis: axis_column([one["values"][axis] for one in self.points]) for axis in axes}
        there, needed = lanes["point"].value_counts(), [len(one["lanes"]) + len(one["choices"]) for one in self.points]
        found = [(int(there.get(number, 0)), each * self.replicas) for number, each in enumerate(needed)]
        columns["status"] = ["missing" if not own else "done" if own == all_ else "partial" for own, all_ in found]
        return pd.DataFrame(columns)

    def write(self) -> None:
        """Write it down, whole or not at all."""
        told = {"format": FORMAT, "replicas": self.replicas, "points": self.points, "tasks": self.tasks}
        write_json(self.folder / SWEEP, told | {"errors": self.errors})
        lanes = self.lane_table()
        for name, table in (("points", self.point_table(lanes)), ("lanes", lanes)):
            with atomic_write(self.folder / f"{name}.parquet") as part:
                table.to_parquet(absolute_path(part), index=False)

    def begin(self, text: str) -> None:
        """Make the folder that tasks lie in, and keep the scenario's *text*."""
        (self.folder / TASKS).mkdir(exist_ok=True)
        write_text(self.folder / "scenario.yaml", text)


def axis_column(values: Sequence[Any]) -> list[Any]:
    """The values of an axis as a column holds them: numbers, truths or words as they are, all else as JSON."""
    for kinds in ((bool,), (int,), (int, float), (str,)):
        if all(isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) for value in values):
            return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]
