"""Results of a sweep: the tables of all its tasks as one data set, read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from netfl.errors import Fault, MachineError, NetflError, ScenarioError
from netfl.files import absolute_path
from netfl.results.comparison import NOT_TUNED, UNFINISHED, comparison_state, criterion_label
from netfl.results.formatting import counted, format_setting
from netfl.results.metrics import Metric, reported_metrics
from netfl.results.payload import billing_kind, billing_note
from netfl.results.run_reader import check_table
from netfl.results.statistics import interval, metric_of
from netfl.results.tables import SCHEMAS
from netfl.scenario.html_card import html_card
from netfl.scenario.path_errors import TASKS
from netfl.scenario.scenario import Scenario, load
from netfl.scenario.sweep_axes import SearchSpec
from netfl.sweeps.plan import task_folder
from netfl.units import Quantities, read_si

if TYPE_CHECKING:
    from pathlib import Path

    from netfl.results.run_reader import Run
    from netfl.sweeps.index import SearchEntry, SweepIndex

SI = "_si"
"""End of the name of the column with the values of an axis in SI units."""
_SHOWN_POINTS = 20
"""Maximum number of points that a notebook shows."""
_NAMED_POINTS = 2
"""Points that a sentence names."""
_HIVE = ds.partitioning(pa.schema({"task": pa.string()}), flavor="hive")


class Sweep:
    """Results of a sweep; tables are read on demand.

    `metrics` and `final_metrics` have rows for each point; rows of a lane that points share are repeated.  Tables of
    the network, such as `deliveries`, have each row once and a column ``trace``, which joins them to `points`.

    Args:
        index: index of the sweep's folder.
    """

    def __init__(self, index: SweepIndex) -> None:
        self._index = index
        self.folder: Path = index.folder

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row for each point: ``point``, ``trace``, a column for each axis, and ``status``.

        An axis of quantities such as ``20 ms`` has a second column ``<axis>_si`` beside it, with numbers in SI units;
        see `units`.
        """
        table = self._index.point_table(self.lanes)
        for axis, quantities in self._si_axes.items():
            table.insert([*table.columns].index(axis) + 1, f"{axis}{SI}", [*quantities.numbers])
        return table

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns ``<axis>_si`` of `points` and `summary`, by axis: ``s``, ``Hz``, ``dBm``, …."""
        return {axis: quantities.unit for axis, quantities in self._si_axes.items()}

    @cached_property
    def _si_axes(self) -> dict[str, Quantities]:
        """The values of the axes of quantities at all points, as numbers in SI units."""
        si_axes = {}
        for axis in self.axes:
            quantities = read_si(point.values[axis] for point in self._index.points)
            if quantities is not None:
                si_axes[axis] = quantities
        return si_axes

    @property
    def search(self) -> SearchEntry | None:
        """The search, if an engine has chosen the points; see `trials`."""
        return self._index.search

    @property
    def trials(self) -> pd.DataFrame:
        """One row for each trial of a search, in their order; without a search there are none.

        ``trial`` is the number of its point, ``value`` that of the metric that the search optimises, and ``status`` is
        ``done``, ``pruned`` (ended early), ``failed`` or ``running``.
        """
        entries = [] if self.search is None else self.search.entries
        table = self.points[[*self.axes]].assign(trial=range(len(self.points))).iloc[: len(entries)]
        table = table.assign(
            value=pd.Series([entry.value for entry in entries], dtype=float),
            status=[entry.state for entry in entries],
            error=[entry.error for entry in entries],
        )
        return table[["trial", *self.axes, "value", "status", "error"]]

    @property
    def best(self) -> dict[str, Any] | None:
        """The values of the best trial of a search by dotted path, to load the scenario with; ``None`` without one."""
        if self.search is None:
            return None
        ranked = self.search.ranked()
        if not ranked:
            return None
        return {self.search.paths[name]: value for name, value in self.point_values(ranked[0]).items()}

    def point_values(self, number: int) -> dict[str, Any]:
        """Return the values of the axes at a point, by the names of the axes."""
        return self._index.points[number].values

    def scenario_at(self, number: int) -> Scenario:
        """Return the scenario of a point.

        Raises:
            ScenarioError: the file of the scenario is damaged or has other axes.
        """
        paths = {}
        if self._scenario.sweep is not None:
            paths = {name: path for path, name in self._scenario.sweep.names.items()}
        try:
            return self._scenario.at({paths[name]: value for name, value in self.point_values(number).items()})
        except KeyError as error:
            problem = f"{self.folder / 'scenario.yaml'} has no axis {error}"
            raise ScenarioError([Fault("sweep", problem, None, "restore the file of this sweep")]) from None

    @cached_property
    def _scenario(self) -> Scenario:
        return load(self.folder / "scenario.yaml")

    @property
    def axes(self) -> list[str]:
        """Names of the axes."""
        return [*(self._index.points[0].values if self._index.points else ())]

    @cached_property
    def lanes(self) -> pd.DataFrame:
        """One row for each complete point, learner and replica: its ``task``, and the name of the ``lane`` there."""
        return self._index.lane_table()

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """One row for each task: ``task``, its key; ``label``, its values of the axes; ``trace`` and ``status``.

        Further columns: ``lanes``, the number of lanes times replicas; ``first`` and ``stop`` (exclusive) of its
        replicas; ``seconds``, its duration; and ``error``, empty without a failure.
        """
        rows = []
        for key, entry in self._index.tasks.items():
            status = self._index.status(key)
            seconds = np.nan
            if status not in {"missing", "failed"}:
                run = self._index.run(key)
                if run is not None:
                    seconds = run.manifest.get("timings", {}).get("total_s", np.nan)
            lanes = len(entry.lanes) * (entry.stop - entry.first)
            error = self._index.errors.get(key) or self._index.damage(key)
            rows.append((key, entry.label, entry.trace, status, lanes, entry.first, entry.stop, seconds, error))
        columns = ["task", "label", "trace", "status", "lanes", "first", "stop", "seconds", "error"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def reported(self) -> tuple[Metric, ...]:
        """Metrics that plug-ins of its runs report, as they declare them."""
        return reported_metrics(self.reported_entries)

    @cached_property
    def reported_entries(self) -> list[dict[str, Any]]:
        """Declarations of `reported`, as in the manifests of its runs; of equal names the first one counts."""
        entries: dict[str, dict[str, Any]] = {}
        for run in self._runs:
            for entry in run.reported_entries:
                entries.setdefault(entry["name"], entry)
        return [*entries.values()]

    @cached_property
    def billing(self) -> frozenset[str]:
        """Kinds of billing in its runs, where learners do not pay what they send."""
        return frozenset(filter(None, (billing_kind(run.manifest) for run in self._runs)))

    @cached_property
    def billing_notes(self) -> list[str]:
        """Sentences of its runs about the billing of learners with different payloads, each once."""
        return [*filter(None, dict.fromkeys(billing_note(run.manifest) for run in self._runs))]

    @cached_property
    def comparison(self) -> str:
        """State of the comparison of the learners, at all points; empty for fewer than two, and if it is not known."""
        try:
            return self._comparison(self._scenario)
        except NetflError:  # of a file that is damaged
            return ""

    def _comparison(self, scenario: Scenario) -> str:
        if len(scenario.learners) < 2 and scenario.tuning is None:
            return ""
        state = self._state(scenario)
        if not isinstance(scenario.sweep, SearchSpec):
            return state
        searched = [path for path in scenario.sweep.names if path.startswith("learners.")]
        if not searched:
            return state
        return f"{state}; {', '.join(searched)} searched by {scenario.evaluation.on} {scenario.sweep.metric}"

    def _state(self, scenario: Scenario) -> str:
        """Return the state of all points, without what a search chooses."""
        runs = [*self._runs]
        tunings = [run.manifest.get("tuning") for run in runs if run.scenario.get("tuning") is not None]
        axes = () if scenario.sweep is None else scenario.sweep.names
        if not tunings and any(path.startswith("learners") for path in axes):
            return NOT_TUNED
        states = {run.comparison for run in runs}
        if not states:
            states = {comparison_state(scenario.plain(), {})}
        if len(states) == 1:
            return states.pop()
        if not tunings:
            return NOT_TUNED
        return self._tuned_state([tuning or {} for tuning in tunings])

    def _tuned_state(self, tunings: Sequence[Mapping[str, Any]]) -> str:
        """Return the state of points whose states differ, by the *tunings* of their runs; empty in unfinished ones."""
        points = dict(self._tuned_points())
        lacking = [point for point, is_tuned in points.items() if not is_tuned]
        if lacking and len(lacking) == len(points):
            return "not tuned at any point"
        if lacking:
            named = " and ".join(self._describe_point(point) for point in lacking[:_NAMED_POINTS])
            others = len(lacking) - _NAMED_POINTS
            if others > 0:
                named = f"{named} and {counted(others, 'other')}"
            return f"tuned at {len(points) - len(lacking)} of {counted(len(points), 'point')}, not at {named}"
        if not all(tuning.get("is_tuned", False) for tuning in tunings):  # of points that are not complete
            return UNFINISHED
        criteria = dict.fromkeys(criterion_label(tuning["by"]) for tuning in tunings)
        return f"tuned at each point by validation {' or '.join(criteria)}"

    def _tuned_points(self) -> Iterator[tuple[int, bool]]:
        """Yield the number of each complete point, and whether its learners were tuned."""
        for point in self.lanes["point"].unique():
            tasks = self.lanes.loc[self.lanes["point"] == point, "task"].unique()
            tunings = [self.run(task).manifest.get("tuning") or {} for task in tasks]
            yield int(point), all(tuning.get("is_tuned", False) for tuning in tunings)

    def _describe_point(self, number: int) -> str:
        """Return the values of the axes at a point in words."""
        return ", ".join(f"{name} = {format_setting(value)}" for name, value in self.point_values(number).items())

    @property
    def _runs(self) -> Iterator[Run]:
        """The runs of all tasks that have started."""
        runs = (self._index.run(key) for key in self._index.tasks)
        return (run for run in runs if run is not None)

    @property
    def status(self) -> str:
        """``done`` if all points are complete, or all trials of a search are over and some are; else ``partial``."""
        if self.search is not None:
            is_done = self.search.is_over and bool(self.search.ranked())
        else:
            is_done = bool((self.points["status"] == "done").all())
        return "done" if is_done else "partial"

    @property
    def metrics(self) -> pd.DataFrame:
        """One row for each point, learner, replica, round, metric and group, as in a run; see `table` for a part."""
        return self.table("metrics")

    @property
    def final_metrics(self) -> pd.DataFrame:
        """One row for each point, replica and value of its summary; ``learner`` is empty for values of the network."""
        return self.table("final_metrics")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row for each trace, replica and round."""
        return self.table("rounds")

    @property
    def deliveries(self) -> pd.DataFrame:
        """One row for each trace and delivered update."""
        return self.table("deliveries")

    @property
    def events(self) -> pd.DataFrame:
        """One row for each trace and recorded event."""
        return self.table("events")

    @property
    def users(self) -> pd.DataFrame:
        """One row for each trace, replica and user."""
        return self.table("users")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Mean over replicas for each point, learner and ``metric``, with its 95 % confidence interval.

        ``half`` is half the width of Student's t interval; ``replicas`` is the number of values.  ``learner`` is empty
        for values of the network.  Axes of quantities have a column in SI units, too, as in `points`.
        """
        keys = ["point", *self.axes, "learner", "metric"]
        rows = []
        for key, part in self.final_metrics.groupby(keys, sort=False, dropna=False):
            estimate = interval(part["value"])
            rows.append((*key, estimate.mean, estimate.half, estimate.replicas))
        table = pd.DataFrame(rows, columns=[*keys, "mean", "half", "replicas"])
        for axis in self._si_axes:
            numbers = self.points.set_index("point")[f"{axis}{SI}"]
            table.insert([*table.columns].index(axis) + 1, f"{axis}{SI}", table["point"].map(numbers))
        return table

    def _repr_html_(self) -> str:
        points = self.points
        counts = points["status"].value_counts()
        facts = {
            "axes": ", ".join(self.axes),
            "points": ", ".join(f"{counts[status]} {status}" for status in counts.index),
        }
        return html_card(f"Sweep {self.folder}", facts, points.drop(columns="trace").head(_SHOWN_POINTS))

    def run(self, task: str) -> Run:
        """Return the run of a task.

        Raises:
            ScenarioError: the task has not started.
        """
        run = self._index.run(task)
        if run is None:
            raise ScenarioError([Fault("", f"task {task} has no run", None, "see the tasks of the sweep")])
        return run

    def dataset(self, name: str) -> ds.Dataset:
        """Return a table of all complete tasks as a lazy Arrow data set with a column ``task``.

        Raises:
            ScenarioError: no run has a table of this name.
        """
        check_table(name)
        paths = [task_folder(self.folder, task) / f"{name}.parquet" for task in self._index.done()]
        files = [absolute_path(path) for path in paths if path.exists()]
        if not files:
            schema = SCHEMAS.get(name, pa.schema({"replica": pa.int32()}))
            return ds.dataset(schema.append(pa.field("task", pa.string())).empty_table())
        return ds.dataset(files, partitioning=_HIVE, partition_base_dir=absolute_path(self.folder / TASKS))

    def table(
        self, name: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> pd.DataFrame:
        """Return a table of all complete points, or a part of it.

        Args:
            name: name of the table, such as ``metrics`` or ``deliveries``.
            columns: columns to read, beside those that identify the row; by default all.
            where: condition of the rows to read, such as ``pyarrow.dataset.field("metric") == "accuracy"``.

        Raises:
            ScenarioError: no run has a table of this name.
            MachineError: a file is damaged.
        """
        try:
            data = self.dataset(name)
            if columns is not None:
                keys = [key for key in ("task", "replica", "learner") if key in data.schema.names]
                columns = [*dict.fromkeys([*keys, *columns])]
            table: pd.DataFrame = data.to_table(columns=columns, filter=where).to_pandas()
        except (OSError, ValueError, pa.ArrowException) as error:
            remedy = "repair or repeat its runs"
            if columns is not None or where is not None:
                remedy = f"check columns and where, or {remedy}"
            raise MachineError(f"table {name} of {self.folder} cannot be read: {error}; {remedy}") from error
        if name == "final_metrics":
            return self._place_figures(table)
        if "learner" in table:
            return self._place_lanes(table, is_by_replica=name != "candidates")
        return self._traces.merge(table, on=["task", "replica"]).drop(columns="task")

    @cached_property
    def _traces(self) -> pd.DataFrame:
        """Return the task whose network tables represent each trace and replica."""
        traces = self.lanes.merge(self.points[["point", "trace"]], on="point")
        return traces.drop_duplicates(["trace", "replica"])[["trace", "replica", "task"]]

    @property
    def _points_of_traces(self) -> pd.DataFrame:
        """The points of each trace and replica, with the task that represents it."""
        return self.points[["point", "trace"]].merge(self._traces, on="trace")

    def _place_lanes(self, table: pd.DataFrame, *, is_by_replica: bool) -> pd.DataFrame:
        """Assign rows to the points of their lanes; those of candidates have one choice for several replicas."""
        by_lane = table.rename(columns={"learner": "lane"}).astype({"lane": str})
        keys = [key for key in ("task", "lane", "replica") if key in by_lane]
        lanes = self.lanes
        if not is_by_replica:
            keys.remove("replica")
            lanes = lanes.drop(columns="replica").drop_duplicates()
        rows = lanes.merge(by_lane, on=keys).drop(columns=["task", "lane"])
        of_network = by_lane[by_lane["lane"] == ""].drop(columns="lane")
        if len(of_network):  # they belong to all points of the trace
            points = self._points_of_traces.drop(columns="trace")
            of_points = points.merge(of_network, on=["task", "replica"]).drop(columns="task").assign(learner="")
            rows = pd.concat([rows, of_points[rows.columns]])
        placed = self._place(rows)
        if not {"metric", "group"} <= {*placed}:
            return placed
        names = placed["metric"].astype(str) + "/" + placed["group"].astype(str)
        return placed[self._is_requested(placed["point"], names)]

    def _place_figures(self, table: pd.DataFrame) -> pd.DataFrame:
        """Assign values whose names begin with the name of a lane to that lane, others to the network."""
        remaining = table.astype({"metric": str})
        lanes = dict([*self.lanes.groupby(["task", "lane"], sort=False)])
        parts = dict.fromkeys(lanes, remaining[:0])  # in the order of the learners
        for task, lane in sorted(lanes, key=lambda key: -len(str(key))):  # "A 0.1" before "A 0"
            prefix = f"{lane}."
            is_of_lane = (remaining["task"] == task) & remaining["metric"].str.startswith(prefix)
            rows = remaining[is_of_lane]
            rows = rows.assign(metric=rows["metric"].str.slice(len(prefix)))
            remaining = remaining[~is_of_lane]
            of_points = lanes[task, lane].merge(rows, on=["task", "replica"])
            parts[task, lane] = of_points.drop(columns=["task", "lane"])
        of_network = self._points_of_traces.merge(remaining, on=["task", "replica"]).assign(learner="")
        columns = ["point", "learner", "replica", "metric", "value"]
        placed = self._place(pd.concat([of_network[columns], *parts.values()]))
        return placed[self._is_requested(placed["point"], placed["metric"].map(metric_of))]

    def _is_requested(self, points: pd.Series[int], names: pd.Series[str]) -> pd.Series[bool]:
        """Return which values belong to their points: a task may compute the CVaR at more levels than a point needs."""
        requested = {
            (number, f"cvar/alpha:{level:g}")
            for number, point in enumerate(self._index.points)
            for level in point.levels
        }
        values = pd.Series([*zip(points, names, strict=True)], names.index)
        return ~names.str.startswith("cvar/") | values.isin(requested)

    def _place(self, table: pd.DataFrame) -> pd.DataFrame:
        """Add the values of the axes, and sort by point."""
        placed = self.points[["point", *self.axes]].merge(table, on="point")
        return placed.sort_values("point", kind="stable", ignore_index=True)
