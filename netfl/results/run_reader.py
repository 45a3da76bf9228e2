"""Reader of run directories: tables as pandas DataFrames, also during the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from netfl import files
from netfl.core.columns import REPLICA, USER
from netfl.core.formats import check_folder_format
from netfl.core.remedies import argument, call
from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.files import is_file_name, is_present, local_path, unreadable_file
from netfl.learning.blocks import OTHERS
from netfl.results.aggregates import with_nodes
from netfl.results.comparison import comparison_state
from netfl.results.formatting import clock, learner_metrics, metric_cell, metric_head
from netfl.results.locking import is_locked, refuse_special_files
from netfl.results.metrics import Metric, reported_metrics, with_reported
from netfl.results.model_snapshots import VERSIONS, ModelSnapshots
from netfl.results.run_schema import DTYPES, OTHER_TABLES, check_document, check_numbering, read_table
from netfl.results.statistics import FINAL, LAST_TENTH, final_name, interval
from netfl.results.tables import SCHEMAS, order_learners, read_stream, stream_of
from netfl.scenario.html_card import html_card
from netfl.scenario.path_errors import MANIFEST, wrong_path
from netfl.types import KINDS

PASSES = "tuning"
"""Folder of the passes of the tuning of a run, and of the runs of replicas that are tuned by themselves."""
EXTENSION = "extension"
"""Folder in a run directory for the replicas that extend the run."""

MERGED = "merged"
"""Folder in a run directory for the files of an extended run that replace those before it."""


def check_table(name: str) -> None:
    """Check that runs have a table *name*.

    Raises:
        ScenarioError: there is none; the remedy names the nearest.
    """
    tables = [*SCHEMAS, *OTHER_TABLES]
    if name not in tables:
        raise ScenarioError([Fault("", "no such table", name, suggest(name, tables))])


@dataclass(frozen=True)
class Run:
    """A run directory, whose tables are pandas DataFrames that are read at first use.

    Args:
        folder: the run directory.
        without: names of files that are treated as missing.
        unfinished: whether unfinished tables are read too, as far as they were written.
    """

    folder: Path
    without: frozenset[str] = frozenset()
    unfinished: bool = False

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Status, seed, versions, machine and timings.

        Raises:
            MachineError: the file is damaged.
            ScenarioError: a newer netfl wrote it, or an older one whose folders this one does not read.
        """
        manifest = self._json("manifest.json")
        if manifest:
            check_folder_format(manifest.get("format"), self.folder / "manifest.json")
        return manifest

    def fact(self, key: str) -> Any:
        """Return an entry of the manifest that every run has.

        Raises:
            MachineError: it is missing.
        """
        if key not in self.manifest:
            raise unreadable_file(self.folder / "manifest.json", ValueError(f"it has no '{key}'"))
        return self.manifest[key]

    @property
    def status(self) -> str:
        """``running``, ``done``, ``interrupted``, ``failed``, or ``crashed``: marked as running, without a process."""
        status = str(self.manifest.get("status", "unknown"))
        if status == "running" and not is_locked(self.folder):
            return "crashed"
        return status

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Metrics over replicas; empty until the end of the run."""
        return self._json("summary.json")

    @property
    def warnings(self) -> list[str]:
        """Warnings about the scenario, given once as `netfl.NetflWarning`."""
        return [*self.manifest.get("warnings", ())]

    @property
    def diverged(self) -> list[str]:
        """Lanes whose training diverged, in words."""
        lines = []
        for lane in self.manifest.get("diverged", []):
            user = "" if lane["user"] is None else f", user {lane['user']}"
            lines.append(f"{lane['learner']}, replica {lane['replica']}{user}: {lane['problem']}")
        return lines

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """Resolved scenario as plain data."""
        from netfl.scenario import yaml_document

        path = self.path_of("scenario.yaml")
        if not self._has(path.name):
            return {}
        try:
            content = yaml_document.parse(files.read_text(path), str(path))
        except (OSError, ValueError, TypeError, ScenarioError) as error:
            raise unreadable_file(path, error) from error
        return check_document(path, content)

    @property
    def rare_classes(self) -> tuple[int, ...]:
        """Labels of the rare classes: those that the evaluation names, or that few users hold by the partition."""
        evaluate = self.scenario.get("evaluate")
        if isinstance(evaluate, dict) and evaluate.get("rare_classes") is not None:
            return tuple(int(label) for label in evaluate["rare_classes"])
        partition = self.scenario.get("partition")
        if not isinstance(partition, dict):
            return ()
        labels: Iterable[Any] = ()
        if partition.get("kind") == "rare_classes":
            labels = partition["classes"] or ()
        elif partition.get("kind") == "blocks":
            labels = [label for block in partition["blocks"].values() for label in block.get("classes") or ()]
        return tuple(int(label) for label in labels)

    def required_section(self, section: str) -> Any:
        """Return a required section of the scenario.

        Raises:
            MachineError: it is missing.
        """
        if section not in self.scenario:
            raise MachineError(
                f"{self.folder / 'scenario.yaml'} has no section '{section}'; restore the file of this run"
            )
        return self.scenario[section]

    @property
    def duration_s(self) -> float | None:
        """Simulated time of a run of traffic; ``None`` for a run with rounds."""
        duration = None
        if self.manifest:
            duration = self.manifest.get("duration_s")
        else:  # it is lost: a network without rounds carries traffic
            access = self.scenario.get("access") or {}
            if access.get("kind") == "network" and not access.get("round"):
                duration = self.scenario.get("duration")
        return None if duration is None else float(duration)

    @property
    def stop_s(self) -> float | None:
        """Simulated time that ends a run with rounds, as its scenario states it; ``None`` if only their number does."""
        duration = self.scenario.get("duration", self.manifest.get("stop_s"))
        if duration is None or self.duration_s is not None:  # a run of traffic has no rounds
            return None
        return float(duration)

    @property
    def recorded_kinds(self) -> Sequence[str]:
        """Kinds of the events that the scenario records."""
        record = self.scenario.get("record", "all")
        kinds: str | Sequence[str] = record.get("events", "all") if isinstance(record, dict) else record
        if kinds == "all":
            return KINDS
        if kinds == "none":
            return ()
        return kinds

    @property
    def choices(self) -> dict[str, dict[str, Any]]:
        """Choices among learners in the scenario, by name."""
        return dict((self.scenario.get("evaluate") or {}).get("choose") or {})

    @property
    def test_sets(self) -> tuple[str, ...]:
        """Names of the test sets besides that of the data."""
        evaluate = self.scenario.get("evaluate") or {}
        return tuple(evaluate.get("sets") or {})

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks that the partition names, and that of the users in none; empty without blocks."""
        partition = self.scenario.get("partition") or {}
        if partition.get("kind") != "blocks":
            return ()
        return (*partition["blocks"], OTHERS)

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners and of the choices among them; of a run of a Flower app, of its strategies."""
        strategies = self.manifest.get("learners")  # of a Flower app
        learners = strategies or self.scenario.get("learners") or {}
        return (*learners, *self.choices)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per replica and round."""
        return self.table("rounds")

    def rounds_of(self, replica: int) -> pd.DataFrame:
        """Return the rounds of one replica, in order.

        Raises:
            ScenarioError: there are none.
        """
        selected = self.rounds[self.rounds["replica"] == replica].sort_values("round")
        if len(selected):
            return selected
        recorded = sorted(self.rounds["replica"].unique().tolist())
        if recorded:
            remedy = f"recorded replicas: {recorded}"
            raise ScenarioError([Fault(argument("replica"), "no such replica is recorded", replica, remedy)])
        problem = f"{self.folder} has no rounds yet: it is {self.status}"
        raise ScenarioError([Fault("", problem, None, f"finish it with: {call('resume', self.folder)}")])

    @cached_property
    def deliveries(self) -> pd.DataFrame:
        """One row per update that was delivered.

        Where other nodes than the server merge, it has ``node``, which an update reached, 0 for the server, and
        ``base_round``, the time of its base there (`netfl.types.VersionRef`).  Where users can change their towers, it
        has ``tower``, the name of the tower that received the update.
        """
        table = self.table("deliveries")
        if table.empty:
            return table
        towers = self.table("delivery_towers")
        if not towers.empty:
            table = table.merge(towers, on=["replica", "round", "user", "base", "arrived_s"], how="left")
        if self.table("merges").empty:
            return table
        return with_nodes(table, self.table("merged_updates"), self.table("merges"))

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per recorded event, in order of time within a replica."""
        table = self.table("events")
        return table.sort_values(["replica", "time_s"], kind="stable", ignore_index=True)

    @cached_property
    def attempts(self) -> pd.DataFrame:
        """One row per recorded attempt over the air, in order of the start within a replica."""
        table = self.table("attempts")
        return table.sort_values(["replica", "start_s"], kind="stable", ignore_index=True)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per evaluated value; ``learner`` is empty for values of the network.

        Its attribute ``attrs["comparison"]`` is the state of the comparison, and ``attrs["reported"]`` the declarations
        of metrics that plug-ins report.
        """
        table = self.table("metrics")
        with suppress(MachineError, ScenarioError):  # a scenario or a manifest that is damaged
            table.attrs["comparison"] = self.comparison
            table.attrs["reported"] = self.reported_entries
        return table

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """One row per learner and candidate of its tuning, by settings and rising ``lr``; none without tuning."""
        return self.table("candidates")

    @property
    def comparison(self) -> str:
        """State of the comparison of the learners, such as ``equal settings``; empty for fewer than two."""
        return comparison_state(self.scenario, self.manifest)

    @property
    def effective_steps(self) -> dict[str, float | list[float | None] | None]:
        """Largest weight times ``lr`` of each learner; ``None`` if its weights have no bound; empty in older runs.

        With ``tuning.per: replica`` it is a list, with the value of each replica.
        """
        return dict(self.manifest.get("steps") or {})

    @cached_property
    def final_metrics(self) -> pd.DataFrame:
        """One row per replica and final metric; none until the end of the run."""
        return self.table("final_metrics")

    @cached_property
    def users(self) -> pd.DataFrame:
        """One row per replica and user."""
        return self.table("users")

    @cached_property
    def energy(self) -> pd.DataFrame:
        """One row per replica and user: what it spent, where the access counts energy; none until the end."""
        return self.table("energy")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per replica and tower, router or server: its name, role and position."""
        return self.table("nodes")

    @cached_property
    def regions(self) -> pd.DataFrame:
        """Labels that each learner predicts on a grid, for two-dimensional data."""
        return self.table("regions")

    @cached_property
    def points(self) -> pd.DataFrame:
        """Test points, for two-dimensional data."""
        return self.table("points")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table by name; empty, with its columns, while it is unfinished or where the run has none.

        Raises:
            ScenarioError: no run has a table of this name.
            MachineError: the file is damaged, or its columns are not those of the table.
        """
        check_table(name)
        path = self.file_of(name)
        if path == stream_of(self.folder, name):
            rows = read_stream(path)
        elif self._has(path.name):
            rows = read_table(path)
            limits = {REPLICA.name: self.manifest.get("replicas"), USER.name: self.manifest.get("users")}
            stated = {column: limit for column, limit in limits.items() if limit is not None}
            check_numbering(path, rows, stated)
        elif name in SCHEMAS:
            rows = SCHEMAS[name].empty_table()
        else:
            columns = OTHER_TABLES[name]
            return pd.DataFrame({column: pd.Series(dtype=DTYPES[kind]) for column, kind in columns.items()})
        table: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
        return order_learners(table, self.learners)

    def path_of(self, name: str) -> Path:
        """Return a file of the run by its name; of an extended run whose files are being replaced, the new one."""
        merged = self.folder / MERGED / name
        if is_present(merged):
            return merged
        return self.folder / name

    @property
    def tables(self) -> list[str]:
        """Names of the tables that have files."""
        paths = [*self.folder.glob("*.parquet"), *(self.folder / MERGED).glob("*.parquet")]
        return sorted({path.stem for path in paths})

    def file_of(self, name: str) -> Path:
        """Return the file that a table is read from."""
        stream = stream_of(self.folder, name)
        if self._growing and self._has(stream.name):
            return stream
        return self.path_of(f"{name}.parquet")

    @cached_property
    def _growing(self) -> bool:
        """Return whether the streams of an unfinished run cover more rounds than the tables of an earlier stop.

        All growing tables are then read from streams, as only these fit together.
        """
        stream = stream_of(self.folder, "rounds")
        whole = self.folder / "rounds.parquet"
        if not self.unfinished or not self._has(stream.name):
            return False
        if not self._has(whole.name):
            return True
        with suppress(MachineError):
            return len(read_stream(stream)) > len(read_table(whole))
        return False

    def versions(self, learner: str, replica: int = 0) -> ModelSnapshots:
        """Return the recorded versions of a learner's model, by round; 0 is the start.

        Raises:
            ScenarioError: the run has not recorded them, or is not finished.
            MachineError: the file is damaged.
        """
        name = f"{learner}-{replica}.safetensors"
        path = self.folder / VERSIONS / name
        if is_file_name(name):
            path = self.path_of(f"{VERSIONS}/{name}")
        if not is_file_name(name) or not is_present(path):
            problem = f"{path} does not exist"
            raise ScenarioError([Fault("", problem, None, "finish a run with record: {versions: true}")])
        return ModelSnapshots(path)

    def final_metrics_of(self, replicas: Iterable[int]) -> list[dict[str, float]]:
        """Return the final metrics of each of *replicas*, by name."""
        names = self.final_metrics["metric"].astype(str)
        values = self.final_metrics["value"]
        of_replicas = []
        for replica in replicas:
            is_of_replica = self.final_metrics["replica"] == replica
            of_replicas.append(dict(zip(names[is_of_replica], values[is_of_replica].tolist(), strict=True)))
        return of_replicas

    @cached_property
    def reported(self) -> tuple[Metric, ...]:
        """Metrics that plug-ins of the run report, as they declare them."""
        return reported_metrics(self.reported_entries)

    @property
    def reported_entries(self) -> list[dict[str, Any]]:
        """Declarations of `reported`, as in the manifest."""
        return [*self.manifest.get("reported", ())]

    @property
    def learner_cells(self) -> dict[str, list[str]]:
        """Final values of the learners as cells of a table, by metric; empty until the end of the run."""
        values = {name: interval(rows) for name, rows in self.final_metrics.groupby("metric", observed=True)["value"]}
        replicas = self.summary.get("replicas", 1)
        cells = {}
        with with_reported(self.reported):
            shown = learner_metrics(self.test_sets, self.blocks)
        for metric in shown:
            names = [f"{name}.{final_name(metric, is_choice=name in self.choices)}" for name in self.learners]
            if not any(name in values for name in names):
                continue
            column = []
            for name in names:
                final = values.get(name, interval([]))
                if metric == "t" and not (final.mean or final.half > 0):  # always 0 for learners without a threshold
                    final = interval([])
                column.append(metric_cell(metric, final.mean, final.half, final.replicas, replicas))
            cells[metric] = column
        return cells

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {
            "status": self.status,
            "replicas": self.summary.get("replicas"),
            "rounds": self.summary.get("rounds"),
        }
        if "simulated_s" in self.summary:
            facts["simulated"] = clock(self.summary["simulated_s"])
        facts["delivered"] = self.summary.get("outcome.delivered")
        with with_reported(self.reported):
            cells = {metric_head(metric): column for metric, column in self.learner_cells.items()}
        table = None
        if cells:
            facts["values"] = f"{FINAL[LAST_TENTH]}; accuracies in %"
            table = pd.DataFrame({"learner": self.learners, **cells})
        report = self.folder / "report.html"
        if is_present(report):
            facts["report"] = report
        return html_card(f"Run {self.folder}", facts, table)

    def _has(self, name: str) -> bool:
        """Return whether the run has a file; its folder exists, so that a path through a file is damage.

        Raises:
            MachineError: the system does not tell.
        """
        if name in self.without:
            return False
        path = self.path_of(name)
        try:
            path.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable_file(path, error) from error
        return True

    def _json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file; empty where there is none."""
        path = self.path_of(name)
        if not self._has(name):
            return {}
        try:
            content = json.loads(files.read_text(path))
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable_file(path, error) from error
        return check_document(path, content)


def open_run(folder: str | Path) -> Run:
    """Open the run in *folder*, finished or not.

    Raises:
        ScenarioError: there is no run, a netfl of another format wrote it, or the folder contains links, which may
            lead to files of somebody else, or special files such as named pipes.
        MachineError: the folder cannot be read.
    """
    path = local_path(folder, "folder")
    fault = None
    try:
        if not (path / MANIFEST).is_file():
            fault = wrong_path(path, "run")
    except OSError as error:
        raise unreadable_file(path, error) from error
    if fault is not None:
        raise ScenarioError([fault])
    refuse_special_files(path)
    with suppress(MachineError):  # a report states what is lost with a damaged manifest
        _ = Run(path).manifest
    return Run(path)
