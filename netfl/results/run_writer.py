"""Writer of run directories; `netfl.results.run_reader` reads them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.files import is_present
from netfl.files.parquet import open_parquet
from netfl.results.atomic_write import atomic_write, write_json
from netfl.results.locking import locked
from netfl.results.payload import billing_of
from netfl.results.run_schema import read_rows
from netfl.results.statistics import RoundStatistics, cost_to_target, learning_summary, summary
from netfl.results.tables import (
    GROWING,
    SCHEMAS,
    TABLES,
    EventRecorder,
    MemoryTable,
    TableWriter,
    access_metric_columns,
    delivery_tower_columns,
    erasure_columns,
    link_columns,
    lost_training_columns,
    merge_columns,
    merged_model_columns,
    merged_update_columns,
    metric_columns,
    not_summed_columns,
    write_parquet,
)
from netfl.scenario.scenario import Scenario
from netfl.types import LearnerReport, Round, RoundBatch, RunObserver, RunProgress, RunStart

FLUSH_EVERY_S = 5.0
"""Wall-clock seconds between writes of gathered rows, which limit the loss in a crash."""

_AT_ONCE = 256
"""Number of rounds that are added to the tables at once, which takes less time than one by one."""


_BEFORE_MANIFEST = frozenset({".lock", "scenario.yaml", "scenario.yaml.part", "manifest.json.part"})
"""Files in the folder of a run that was killed before it had a manifest."""


@contextmanager
def create_run_directory(folder: Path) -> Iterator[Path]:
    """Make a run directory, and lock it for writing.

    A folder is used if it is empty, or if a run was killed in it before its first manifest.  The directory is removed
    again if the run fails before its manifest is written, or if the scenario cannot be run.

    Raises:
        ScenarioError: it exists and is not empty.
        MachineError: it cannot be made.
    """
    try:
        existed = folder.exists()
        if existed and not (folder.is_dir() and _is_unused(folder)):
            problem = "already exists and is not empty" if folder.is_dir() else "is a file"
            remedy = "use another folder, or give none for a new one"
            raise ScenarioError([Fault(argument("out"), f"{folder} {problem}", None, remedy)])
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot write a run into {folder}: {error.strerror or error}"
        raise MachineError(f"{problem}; name another folder with {argument('out')}") from error
    with locked(folder):
        try:
            yield folder
        except BaseException as error:
            if isinstance(error, ScenarioError) or _has_no_manifest(folder):
                with suppress(OSError):  # the first error counts
                    _clear(folder)
                    if not existed:
                        folder.rmdir()
            raise


def _has_no_manifest(folder: Path) -> bool:
    """Return whether the manifest of a run is missing; not whether it is out of reach, as the run may be complete."""
    try:
        return not is_present(folder / "manifest.json")
    except MachineError:
        return False


def _clear(folder: Path) -> None:
    """Remove all that a run has written into its folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_unused(folder: Path) -> bool:
    """Return whether a folder is empty, or was locked for a run that has written no manifest."""
    names = {path.name for path in folder.iterdir()}
    return not names or (".lock" in names and names <= _BEFORE_MANIFEST)


def _slice(arrays: Sequence[NDArray[Any]], begin: int, end: int) -> NDArray[Any]:
    """Return the entries from *begin* to *end* of *arrays* one after the other, without joining all of them."""
    parts = []
    for array in arrays:
        parts.append(array[max(begin, 0) : max(end, 0)])
        begin -= len(array)
        end -= len(array)
    return np.concatenate(parts)


def append_replicas(table: Path, more: Path, first: int, out: Path) -> None:
    """Write the rows of *table*, with those of *more* in place of its replicas from *first* on, to *out*.

    Rows of an earlier version of netfl get the defaults of columns that were added since.
    """
    with open_parquet(more) as file:
        schema = file.schema_arrow
    defaults = {column.name: column.default for column in TABLES.get(table.stem, ())}

    def complete_rows(path: Path) -> Iterator[pa.Table]:
        for batch in read_rows(path):
            rows = pa.Table.from_batches([batch])
            for name in schema.names:
                if name not in rows.column_names:
                    added = pa.array([defaults.get(name)] * len(rows), schema.field(name).type)
                    rows = rows.append_column(name, added)
            yield rows.select(schema.names).cast(schema)

    earlier = (rows.filter(pc.less(rows["replica"], first)) for rows in complete_rows(table))
    write_parquet(out, schema, chain(earlier, complete_rows(more)))


def summarize_run(scenario: Scenario, values: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the summary of a finished run: its length, and the metrics of its replicas over all replicas."""
    length: dict[str, Any]
    if not scenario.has_rounds:
        length = {"duration_s": scenario.traffic_s}
        if scenario.warmup:
            length["warmup_s"] = scenario.warmup
    elif scenario.stop_s is not None:  # the number of rounds is a metric of each replica
        length = {"stop_s": scenario.stop_s}
    else:
        length = {"rounds": scenario.rounds}
    return {**length, "replicas": len(values), **summary(values)}


_TABLES_OF_ROUNDS = {
    "merges": merge_columns,
    "merged_models": merged_model_columns,
    "merged_updates": merged_update_columns,
    "erasures": erasure_columns,
    "delivery_towers": delivery_tower_columns,
    "lost_trainings": lost_training_columns,
    "not_summed": not_summed_columns,
    "links": link_columns,
}
"""Functions that make the columns of tables which only some runs have from the rounds of a replica."""


class RunWriter(RunObserver):
    """Writer of the tables and the summary of one run.

    Args:
        folder: the run directory.
        scenario: the scenario of the run.
        replicas: the replicas of the run.
        lanes: learner and replica of each lane, in the order of a report's arrays.

    Attributes:
        scenario: the scenario, of which a run that ends early has fewer rounds.
        tables: the tables that grow.
    """

    def __init__(self, folder: Path, scenario: Scenario, replicas: range, lanes: Sequence[tuple[str, int]]) -> None:
        self.folder = folder
        self.scenario = scenario
        self._replicas = replicas
        self._lanes = tuple(lanes)
        keeping = scenario.keeping
        merges = scenario.access.merging_nodes(scenario.users) > 0
        optional = {
            "metrics": bool(lanes) or bool(scenario.access.reporting_parts),
            "attempts": keeping.attempts,
            "merges": merges,
            "merged_models": merges,
            "merged_updates": merges,
            "erasures": scenario.access.info.can_erase,
            "delivery_towers": scenario.access.info.has_roaming,
            "lost_trainings": scenario.reports_lost,
            "not_summed": scenario.reports_not_summed,
            "links": keeping.links,
        }
        names = [name for name in GROWING if optional.get(name, True)]
        self.tables = {name: TableWriter(folder, name, SCHEMAS[name]) for name in names}
        events = self.tables["events"]
        attempts = self.tables.get("attempts")
        info = scenario.access.info
        self.recorders = [EventRecorder(events, replica, keeping, attempts, info.metrics) for replica in replicas]
        self._statistics = [
            RoundStatistics(scenario.users, has_delays=info.has_delays, has_costs=bool(lanes)) for _ in replicas
        ]
        self._waiting: list[Sequence[Round | None]] = []
        self._evaluations: list[LearnerReport] = []
        self._round = 0
        self._checkpoint_round = 0
        self._flushed_at = monotonic()

    def write_table(self, name: str, table: pd.DataFrame | pa.Table) -> None:
        """Write a whole table at once."""
        rows = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
        with atomic_write(self.folder / f"{name}.parquet") as part:
            write_parquet(part, rows.schema, [rows])

    def write_replicas(self, name: str, columns: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Write a table such as ``users`` from its columns in each replica; nothing if there are none."""
        if not any(columns):
            return
        by_replica = zip(self._replicas, columns, strict=True)
        frames = [pd.DataFrame({"replica": replica, **of_replica}) for replica, of_replica in by_replica]
        self.write_table(name, pd.concat(frames, ignore_index=True))

    def _add_to_users(self, columns: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Add columns that are known at the end, of each replica, to the table ``users``."""
        if not any(columns):
            return
        path = self.folder / "users.parquet"
        with open_parquet(path) as file:
            schema = file.schema_arrow
        added = {name: [of_replica[name] for of_replica in columns] for name in columns[0]}
        for name, values in added.items():
            schema = schema.append(pa.field(name, pa.from_numpy_dtype(values[0].dtype)))

        def complete_rows() -> Iterator[pa.Table]:
            begin = 0
            for batch in read_rows(path):  # a piece at a time, as there may be a million users
                rows = pa.Table.from_batches([batch])
                for name, values in added.items():
                    rows = rows.append_column(name, pa.array(_slice(values, begin, begin + len(batch))))
                begin += len(batch)
                yield rows.cast(schema)

        with atomic_write(path) as part:
            write_parquet(part, schema, complete_rows())

    def on_start(self, start: RunStart) -> None:
        self._checkpoint_round = start.checkpoint_round or 0

    def on_round(self, progress: RunProgress) -> None:
        if monotonic() - self._flushed_at >= FLUSH_EVERY_S or any(table.is_full for table in self.tables.values()):
            self._flush()
        self._round = progress.round
        for recorder in self.recorders:
            recorder.closed = progress.round
        if isinstance(progress.results[0], RoundBatch):
            self._add_batches(cast("Sequence[RoundBatch]", progress.results))
            return
        self._waiting.append(cast("Sequence[Round | None]", progress.results))
        if len(self._waiting) >= _AT_ONCE:
            self._add_waiting()

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Add the metrics of an evaluation, of each lane those that it has, and those that the access reports."""
        if report.metrics:
            self._evaluations.append(report)
        times_s = np.asarray(closed_s, float)
        if report.metrics:
            places = np.array([replica for _, replica in self._lanes]) - self._replicas.start
            columns, kept = metric_columns(report, self._lanes, times_s[places])
            self.tables["metrics"].append(columns, kept, self._round)
        if report.of_access:
            columns = access_metric_columns(report, self._replicas, times_s)
            self.tables["metrics"].append(columns, closed=self._round)

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Publish all tables, and the summary of a finished run.

        Nothing is published after an error of the disk, or where the tables of an earlier stop cover more rounds.
        """
        if status != "done":
            if isinstance(error, OSError) or self._round < self._checkpoint_round:
                self.abandon()
            else:
                self._publish()
            return
        self._publish()
        values = self._replica_values()
        rows = []
        for replica, of_replica in zip(self._replicas, values, strict=True):
            rows += [(replica, name, value) for name, value in of_replica.items()]
        table = MemoryTable("final_metrics")
        table.append([*zip(*rows, strict=True)])
        self.write_table("final_metrics", table.read())
        self.write_replicas("energy", [recorder.by_user.get("energy", {}) for recorder in self.recorders])
        self._add_to_users([recorder.by_user.get("users", {}) for recorder in self.recorders])
        write_json(self.folder / "summary.json", summarize_run(self.scenario, values))

    def abandon(self) -> None:
        """Remove the unfinished tables."""
        for table in self.tables.values():
            table.abandon()

    def _replica_values(self) -> list[dict[str, float]]:
        """Return the metrics of each replica: of its rounds, of its access and of its learners; later ones count."""
        evaluation = self.scenario.evaluation
        by_replica = dict(zip(self._replicas, self._statistics, strict=True))
        last_rounds = {replica: statistics.rounds for replica, statistics in by_replica.items()}
        learned = learning_summary(self._lanes, self._evaluations, evaluation.choose, last_rounds)
        costs = cost_to_target(self._lanes, self._evaluations, by_replica, evaluation.targets)
        billing = billing_of(self.scenario) if self._lanes else None
        all_values = []
        for replica, recorder in zip(self._replicas, self.recorders, strict=True):
            values = self._round_values(by_replica[replica], recorder)
            values |= recorder.values
            values |= recorder.reported.all_means()
            values |= learned.get(replica, {})
            values |= costs.get(replica, {})
            if billing is not None:
                values |= billing.metrics
            all_values.append(values)
        return all_values

    def _round_values(self, statistics: RoundStatistics, recorder: EventRecorder) -> dict[str, float]:
        """Return the metrics of a replica by its rounds; a run of traffic has a time alone."""
        values = {}
        if self.scenario.stop_s is not None:  # the time decides the number of rounds
            values["rounds"] = float(statistics.rounds)
        if self.scenario.has_rounds:
            values |= statistics.final_metrics(recorder.counts, self.scenario.access.info.outcomes)
        else:
            values["simulated_s"] = statistics.simulated_s
        if "erasures" in self.tables:
            values["parts_lost_share"] = statistics.parts_lost_share
        return values

    def _flush(self) -> None:
        self._add_waiting()
        for recorder in self.recorders:
            recorder.flush()
        for name in sorted(self.tables, key=lambda name: name == "rounds"):  # last, when all else of them is written
            self.tables[name].flush()
        self._flushed_at = monotonic()

    def _add_waiting(self) -> None:
        """Add the rounds that wait to the tables."""
        if not self._waiting:
            return
        of_replicas = [  # a replica that has ended has none
            [round_ for round_ in results if round_ is not None] for results in zip(*self._waiting, strict=True)
        ]
        self._add_batches([RoundBatch.of(rounds) if rounds else None for rounds in of_replicas])
        for name, to_columns in _TABLES_OF_ROUNDS.items():
            if name not in self.tables:
                continue
            for replica, rounds in zip(self._replicas, of_replicas, strict=True):
                self.tables[name].append(to_columns(replica, rounds))
        if "erasures" in self.tables:
            for statistics, rounds in zip(self._statistics, of_replicas, strict=True):
                statistics.count_lost_parts(rounds)
        self._waiting = []

    def _add_batches(self, batches: Sequence[RoundBatch | None]) -> None:
        """Add a batch of each replica; ``None`` for one that has ended."""
        for replica, statistics, batch in zip(self._replicas, self._statistics, batches, strict=True):
            if batch is None:
                continue
            statistics.extend(batch)
            for name, columns in batch.tables.items():
                numbers = np.full(len(columns["round"]), replica)
                self.tables[name].append([numbers, *columns.values()])

    def _publish(self) -> None:
        self._add_waiting()
        for recorder in self.recorders:
            recorder.flush()
        for table in self.tables.values():
            table.finish()
        for table in self.tables.values():
            table.publish()
