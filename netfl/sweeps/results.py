"""A sweep, read back: the tables of all its tasks as one data set, of which only what is asked for is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import absolute_path
from netfl.results.run_reader import TASKS
from netfl.results.statistics import interval, metric_of
from netfl.results.tables import SCHEMAS
from netfl.sweeps.engine import task_folder

if TYPE_CHECKING:
    from pathlib import Path

    from netfl.results.run_reader import Run
    from netfl.sweeps.index import SweepIndex

_HIVE = ds.partitioning(pa.schema({"task": pa.string()}), flavor="hive")


class Sweep:
    """A sweep's folder; its tables are read when they are asked for.

    `metrics` and `figures` have their rows for each point: what points share stands there for each of them.  Tables
    of the network, such as `deliveries`, have a column ``trace``, by which they join to `points`, and stand there once.

    Args:
        ledger: what the folder says.
    """

    def __init__(self, ledger: SweepIndex) -> None:
        self._ledger = ledger
        self.folder: Path = ledger.folder

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row for each point: ``point``, ``trace``, a column for each axis, and ``status``."""
        return self._ledger.point_table(self.lanes)

    @property
    def axes(self) -> list[str]:
        """The names of the axes."""
        return [name for name in self.points.columns if name not in {"point", "trace", "status"}]

    @cached_property
    def lanes(self) -> pd.DataFrame:
        """One row for each point, learner and replica that is done: its ``task``, and the ``lane``'s name there."""
        return self._ledger.lane_table()

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """A row per task: ``task``, its key; ``label``, the values of the axes that it serves; and how it stands.

        Then come ``trace``, ``status``, ``lanes``, ``first``, ``stop``, ``seconds`` and ``error``.  That is how many
        lanes it has, its first replica and the one behind its last, how long it took, and why it failed.
        """
        rows = []
        for key, told in self._ledger.tasks.items():
            status = self._ledger.status(key)
            run = None if status in {"missing", "failed"} else self._ledger.run(key)
            seconds = np.nan if run is None else run.manifest.get("timings", {}).get("total_s", np.nan)
            lanes = len(told["lanes"]) * (told["stop"] - told["first"])
            error = self._ledger.errors.get(key, "")
            rows.append(
                (key, told.get("label", ""), told["trace"], status, lanes, told["first"], told["stop"], seconds, error)
            )
        columns = ["task", "label", "trace", "status", "lanes", "first", "stop", "seconds", "error"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def status(self) -> str:
        """``done`` once all points are there, else ``partial``."""
        return "done" if (self.points["status"] == "done").all() else "partial"

    @property
    def metrics(self) -> pd.DataFrame:
        """One row for each point, learner, replica, round, metric and group, as in a run; see `table` for a part."""
        return self.table("metrics")

    @property
    def figures(self) -> pd.DataFrame:
        """One row for each point, replica and figure that it ended with; ``learner`` is empty for the network's."""
        return self.table("figures")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row for each trace, replica and round."""
        return self.table("rounds")

    @property
    def deliveries(self) -> pd.DataFrame:
        """One row for each trace and update that counted."""
        return self.table("deliveries")

    @property
    def events(self) -> pd.DataFrame:
        """One row for each trace and recorded thing that happened."""
        return self.table("events")

    @property
    def users(self) -> pd.DataFrame:
        """One row for each trace, replica and user."""
        return self.table("users")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """What all came to: for each point, learner and figure ``mean`` over replicas, ``half`` of its 95 % interval.

        The interval is Student's t; ``replicas`` says over how many.  ``learner`` is empty for the network's figures.
        """
        keys = ["point", *self.axes, "learner", "figure"]
        rows = []
        for own, part in self.figures.groupby(keys, sort=False, dropna=False):
            found = interval(part["value"])
            rows.append((*own, found.mean, found.half, found.replicas))
        return pd.DataFrame(rows, columns=[*keys, "mean", "half", "replicas"])

    def run(self, task: str) -> Run:
        """The run of a task.

        Raises:
            ScenarioError: it has not begun.
        """
        found = self._ledger.run(task)
        if found is None:
            raise ScenarioError([Fault("", f"there is no run of task {task}", None, "see the tasks of the sweep")])
        return found

    def dataset(self, name: str) -> ds.Dataset:
        """A table of all tasks that are done, as an Arrow data set with a column ``task``; nothing is read yet."""
        places = [task_folder(self.folder, task) / f"{name}.parquet" for task in self._ledger.done()]
        files = [absolute_path(path) for path in places if path.exists()]
        if not files:
            schema = SCHEMAS.get(name, pa.schema({"replica": pa.int32()}))
            return ds.dataset(schema.append(pa.field("task", pa.string())).empty_table())
        return ds.dataset(files, partitioning=_HIVE, partition_base_dir=absolute_path(self.folder / TASKS))

    def table(
        self, name: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> pd.DataFrame:
        """A table of all points that are there, or a part of it.

        Args:
            name: such as ``metrics`` or ``deliveries``.
            columns: only these of the columns that the table has in a run, beside those that say whose row it is.
            where: only rows for which this holds, such as ``pyarrow.dataset.field("metric") == "accuracy"``; the others
                are not read.

        Raises:
            MachineError: a file is damaged.
        """
        try:
            data = self.dataset(name)
            keys = [key for key in ("task", "replica", "learner") if key in data.schema.names]
            wanted = None if columns is None else [*dict.fromkeys([*keys, *columns])]
            found: pd.DataFrame = data.to_table(columns=wanted, filter=where).to_pandas()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise MachineError(f"table {name} of {self.folder} cannot be read: {error}") from error
        if name == "figures":
            return self._figures(found)
        if "learner" in found:
            return self._learned(found)
        return self._traces.merge(found, on=["task", "replica"]).drop(columns="task")

    @cached_property
    def _traces(self) -> pd.DataFrame:
        """For each trace and replica the task whose tables stand for it."""
        own = self.lanes.merge(self.points[["point", "trace"]], on="point")
        return own.drop_duplicates(["trace", "replica"])[["trace", "replica", "task"]]

    def _learned(self, found: pd.DataFrame) -> pd.DataFrame:
        """Rows of lanes as rows of the learners of points."""
        named = found.rename(columns={"learner": "lane"}).astype({"lane": str})
        placed = self._placed(self.lanes.merge(named, on=["task", "lane", "replica"]).drop(columns=["task", "lane"]))
        if not {"metric", "group"} <= {*placed}:
            return placed
        return placed[self._told(placed["point"], placed["metric"].astype(str) + "/" + placed["group"].astype(str))]

    def _figures(self, found: pd.DataFrame) -> pd.DataFrame:
        """Figures, of which those that begin with a lane's name are its own."""
        found = found.astype({"figure": str})
        lanes = dict([*self.lanes.groupby(["task", "lane"], sort=False)])
        parts = dict.fromkeys(lanes, found[:0])  # in the order of the learners
        for task, lane in sorted(lanes, key=lambda key: -len(str(key))):  # "A 0.1" before "A 0"
            begins = (found["task"] == task) & found["figure"].str.startswith(f"{lane}.")
            rows = found[begins].assign(figure=found["figure"][begins].str.slice(len(str(lane)) + 1))
            found = found[~begins]
            own = lanes[task, lane].merge(rows, on=["task", "replica"])
            parts[task, lane] = own.drop(columns=["task", "lane"])
        points = self.points[["point", "trace"]].merge(self._traces, on="trace")
        whole = points.merge(found, on=["task", "replica"]).assign(learner="")
        placed = self._placed(pd.concat([whole[["point", "learner", "replica", "figure", "value"]], *parts.values()]))
        return placed[self._told(placed["point"], placed["figure"].map(metric_of))]

    def _told(self, points: pd.Series[int], names: pd.Series[str]) -> pd.Series[bool]:
        """Whether *points* by themselves would be told figures of these *names*: a task may know more levels."""
        levels = {
            (number, f"cvar/alpha:{level:g}")
            for number, point in enumerate(self._ledger.points)
            for level in point["levels"]
        }
        return ~names.str.startswith("cvar/") | pd.Series([*zip(points, names, strict=True)], names.index).isin(levels)

    def _placed(self, found: pd.DataFrame) -> pd.DataFrame:
        """Rows of points with the values of their axes, in order of the points."""
        placed = self.points[["point", *self.axes]].merge(found, on="point")
        return placed.sort_values("point", kind="stable", ignore_index=True)
