"""What a sweep's folder says of it: which points there are, which lanes bring them, and which task brings those.

Everything stands in ``sweep.json``; ``points.parquet`` and ``lanes.parquet`` say the same to other tools.  Whether a
task is done its own run directory says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from netfl.errors import Fault, MachineError, NetflError, ScenarioError
from netfl.reading import Run, open_run
from netfl.recording import whole, write_json, write_text
from netfl.scenario import Scenario
from netfl.sweeping.engine import TASKS, place
from netfl.sweeping.plan import Point, Task

_FORM = 1
"""The version of ``sweep.json``."""


@dataclass
class Ledger:
    """The tasks that a folder knows of, done or not, and the points that are asked for.

    Args:
        folder: of the sweep.
        tasks: by key: ``trace``, ``lanes`` (lane key → name in the run), ``first`` and ``stop`` of its replicas.
        points: for each, ``values`` by axis, ``trace``, and ``lanes`` (learner → lane key).
        replicas: how many each point has.
        errors: why a task failed, by key.
    """

    folder: Path
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)
    replicas: int = 1
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Ledger:
        """What ``sweep.json`` of *folder* says.

        Raises:
            ScenarioError: there is none.
            MachineError: it is damaged.
        """
        path = folder / "sweep.json"
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return cls(folder, told["tasks"], told["points"], told["replicas"], told["errors"])
        except (FileNotFoundError, NotADirectoryError):
            problem = f"{folder} is no folder of a sweep: there is no sweep.json in it"
            raise ScenarioError([Fault("", problem, None, "name a folder that netfl sweep wrote")]) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error

    def plan(self, scenario: Scenario, points: Sequence[Point], names: Mapping[str, str]) -> None:
        """Have the points asked for be *points*, whose axes are called *names*."""
        self.replicas, self.errors = scenario.replicas, {}
        self.points = [
            {
                "values": {names[path]: value for path, value in point.values.items()},
                "trace": point.trace,
                "lanes": dict(point.lanes),
            }
            for point in points
        ]

    def add(self, tasks: Sequence[Task]) -> None:
        """Know of *tasks*."""
        for task in tasks:
            told = {"trace": task.trace, "lanes": dict(task.lanes), "first": task.first, "stop": task.stop}
            self.tasks[task.key] = told

    def run(self, task: str) -> Run | None:
        """A task's run, if one has begun."""
        try:
            return open_run(place(self.folder, task))
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

    def homes(self) -> dict[tuple[str, int], str]:
        """For each lane key and replica that is there, the task that brought it."""
        found: dict[tuple[str, int], str] = {}
        for task in self.done():
            told = self.tasks[task]
            for lane in told["lanes"]:
                for replica in range(told["first"], told["stop"]):
                    found.setdefault((lane, replica), task)
        return found

    def point_table(self, homes: Mapping[tuple[str, int], str]) -> pd.DataFrame:
        """One row for each point: its number, the trace that it shares, the values of the axes, and how it stands."""
        axes = [*(self.points[0]["values"] if self.points else ())]
        columns: dict[str, Any] = {"point": range(len(self.points)), "trace": [one["trace"] for one in self.points]}
        columns |= {axis: column([one["values"][axis] for one in self.points]) for axis in axes}
        cells = [[(lane, at) in homes for lane in one["lanes"].values() for at in range(self.replicas)]
                 for one in self.points]  # fmt: skip
        columns["status"] = ["done" if all(own) else "partial" if any(own) else "missing" for own in cells]
        return pd.DataFrame(columns)

    def lane_table(self, homes: Mapping[tuple[str, int], str]) -> pd.DataFrame:
        """One row for each point, learner and replica that is there: the task, and what its run calls the lane."""
        rows = [
            (number, learner, replica, homes[lane, replica], self.tasks[homes[lane, replica]]["lanes"][lane])
            for number, point in enumerate(self.points)
            for learner, lane in point["lanes"].items()
            for replica in range(self.replicas)
            if (lane, replica) in homes
        ]
        return pd.DataFrame(rows, columns=["point", "learner", "replica", "task", "lane"])

    def write(self) -> None:
        """Write it down, whole or not at all."""
        told = {"form": _FORM, "replicas": self.replicas, "points": self.points, "tasks": self.tasks}
        write_json(self.folder / "sweep.json", told | {"errors": self.errors})
        homes = self.homes()
        for name, table in (("points", self.point_table(homes)), ("lanes", self.lane_table(homes))):
            with whole(self.folder / f"{name}.parquet") as part:
                table.to_parquet(part, index=False)

    def begin(self, text: str) -> None:
        """Make the folder that tasks lie in, and keep the scenario's *text*."""
        (self.folder / TASKS).mkdir(exist_ok=True)
        write_text(self.folder / "scenario.yaml", text)


def column(values: Sequence[Any]) -> list[Any]:
    """The values of an axis as a column holds them: numbers, truths or words as they are, all else as JSON."""
    for kinds in ((bool,), (int,), (int, float), (str,)):
        if all(isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) for value in values):
            return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]
