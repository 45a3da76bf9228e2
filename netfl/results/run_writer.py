"""Writer of run directories; `netfl.results.run_reader` reads them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import absolute_path, open_parquet, with_format
from netfl.results.atomic_write import atomic_write, sync_directory
from netfl.results.locking import locked
from netfl.results.statistics import RoundStatistics, cost_to_target, learning_summary, summary
from netfl.results.tables import CHUNK, GROWING, SCHEMAS, EventRecorder, TableWriter, dictionary_column
from netfl.scenario.scenario import Scenario
from netfl.types import LearnerReport, Round, RoundBatch, RunObserver, RunProgress, RunStart

FLUSH_EVERY_S = 5.0
"""Wall-clock seconds between writes of gathered rows, which limit the loss in a crash."""

_UNBEGUN = frozenset({".lock", "scenario.yaml", "scenario.yaml.part", "manifest.json.part"})
"""Files of a run directory in which no run has begun yet."""


@contextmanager
def create_run_directory(folder: Path) -> Iterator[Path]:
    """Make a run directory, and lock it for writing.

    The directory is removed again if the run fails before its manifest is written, or if the scenario cannot be run.

    Raises:
        ScenarioError: it exists and is not empty.
        MachineError: it cannot be made.
    """
    try:
        existed = folder.exists()
        before = _names(folder) if existed else frozenset()
        if not (before <= {".lock"} or ".lock" in before <= _UNBEGUN):
            raise _taken(folder)
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in new:
            sync_directory(path.parent)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MachineError(f"cannot write a run into {folder}: {error.strerror or error}") from error
    with locked(folder):
        if not _names(folder) <= before | {".lock"}:  # another process has written into it since
            raise _taken(folder)
        try:
            yield folder
        except BaseException as error:
            if isinstance(error, ScenarioError) or not (folder / "manifest.json").exists():
                for file in folder.iterdir():
                    shutil.rmtree(file) if file.is_dir() else file.unlink()
                if not existed:
                    folder.rmdir()
            raise


def _names(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset({folder.name})


def _taken(folder: Path) -> ScenarioError:
    problem = f"{folder} is there already, and not empty"
    return ScenarioError([Fault("--out", problem, None, "name another folder, or remove it")])


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write *content* as JSON atomically."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def append_replicas(table: Path, more: Path, first: int) -> None:
    """Append the rows of *more* to *table* atomically, in place of its replicas from *first* on.

    The call can be repeated: rows that an earlier call has appended are replaced.
    """
    with open_parquet(table) as file:
        schema = file.schema_arrow
    with atomic_write(table) as part, pq.ParquetWriter(absolute_path(part), schema) as writer:
        for path in (table, more):
            with open_parquet(path) as file:
                for batch in file.iter_batches(CHUNK):
                    rows = pa.Table.from_batches([batch]).cast(schema)
                    writer.write_table(rows if path == more else rows.filter(pc.less(rows["replica"], first)))


def summarize_run(scenario: Scenario, values: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the summary of a finished run: its length, and its metrics over replicas.

    Args:
        scenario: the scenario of the run.
        values: the metrics of each replica; see `netfl.results.statistics.summary`.
    """
    length: dict[str, Any] = {"rounds": scenario.rounds}
    if scenario.duration is not None:
        length = {"duration_s": scenario.duration}
        length |= {"warmup_s": scenario.warmup} if scenario.warmup else {}
    return {**length, "replicas": len(values), **summary(values)}


class RunWriter(RunObserver):
    """Writer of the tables and the summary of one run.

    Args:
        folder: the run directory.
        scenario: the scenario of the run.
        replicas: the replicas of the run.
        lanes: learner and replica of each lane, in the order of a report's arrays.
    """

    def __init__(self, folder: Path, scenario: Scenario, replicas: range, lanes: Sequence[tuple[str, int]]) -> None:
        self.folder, self._scenario, self._replicas, self._lanes = folder, scenario, replicas, tuple(lanes)
        names = [name for name in GROWING if name != "metrics" or lanes]
        self._tables = {name: TableWriter(folder, name, SCHEMAS[name]) for name in names}
        events = self._tables["events"]
        self.recorders = [EventRecorder(events, replica, scenario.keeping) for replica in replicas]
        self._statistics = [RoundStatistics(scenario.users) for _ in replicas]
        self._evaluations: list[LearnerReport] = []
        self._round = self._checkpoint_round = 0
        self._flushed_at = monotonic()

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write a whole table at once."""
        with atomic_write(self.folder / f"{name}.parquet") as part:
            pq.write_table(with_format(pa.Table.from_pandas(table, preserve_index=False)), absolute_path(part))

    def write_replicas(self, name: str, columns: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Write a table such as ``users`` from its columns in each replica; nothing if there are none."""
        if any(columns):
            pairs = zip(self._replicas, columns, strict=True)
            frames = [pd.DataFrame({"replica": replica, **table}) for replica, table in pairs]
            self.write_table(name, pd.concat(frames, ignore_index=True))

    def on_start(self, start: RunStart) -> None:
        """Take over the round of the checkpoint."""
        self._checkpoint_round = start.checkpoint_round or 0

    def on_round(self, progress: RunProgress) -> None:
        """Add rounds and deliveries of each replica."""
        self._flush_if_due()
        self._round = progress.round
        if isinstance(progress.results[0], RoundBatch):
            batches = cast("Sequence[RoundBatch]", progress.results)
            self._add_batches(batches)
            for statistics, batch in zip(self._statistics, batches, strict=True):
                statistics.extend(batch)
        else:
            rounds = cast("Sequence[Round]", progress.results)
            self._add_rounds(rounds)
            for statistics, each in zip(self._statistics, rounds, strict=True):
                statistics.add(each)

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Add the metrics of an evaluation, of each lane those that it has."""
        self._evaluations.append(report)
        learners, replicas = zip(*self._lanes, strict=True)
        numbers = np.array(replicas, np.int32)
        names = [name.partition("/") for name in report.metrics]
        count, lanes = len(names), len(self._lanes)
        values = np.concatenate([np.asarray(of_lanes, float) for of_lanes in report.metrics.values()])
        self._tables["metrics"].append(
            [
                dictionary_column(learners * count),
                np.tile(numbers, count),
                np.full(lanes * count, report.round),
                np.tile(np.asarray(closed_s, float)[numbers - self._replicas.start], count),
                dictionary_column([metric for metric, _, _ in names], np.full(count, lanes)),
                dictionary_column([group for _, _, group in names], np.full(count, lanes)),
                values,
            ],
            ~np.isnan(values),
        )

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
        self._write_figures(values)
        self.write_replicas("spent", [recorder.spendings for recorder in self.recorders])
        write_json(self.folder / "summary.json", summarize_run(self._scenario, values))

    def abandon(self) -> None:
        """Remove the unfinished tables."""
        for table in self._tables.values():
            table.abandon()

    def _replica_values(self) -> list[dict[str, float]]:
        evaluation, has_rounds = self._scenario.evaluation, self._scenario.duration is None
        learned = learning_summary(self._lanes, self._evaluations, evaluation.choose)
        by_replica = dict(zip(self._replicas, self._statistics, strict=True))
        costs = cost_to_target(self._lanes, self._evaluations, by_replica, evaluation.targets)
        return [
            (statistics.figures(recorder.counts) if has_rounds else statistics.spanned())
            | recorder.values
            | learned.get(replica, {})
            | costs.get(replica, {})
            for (replica, statistics), recorder in zip(by_replica.items(), self.recorders, strict=True)
        ]

    def _write_figures(self, values: Sequence[Mapping[str, float]]) -> None:
        pairs = zip(self._replicas, values, strict=True)
        rows = [(replica, name, value) for replica, summary in pairs for name, value in summary.items()]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS["figures"], strict=True)]
        with atomic_write(self.folder / "figures.parquet") as part:
            pq.write_table(with_format(pa.Table.from_arrays(arrays, schema=SCHEMAS["figures"])), absolute_path(part))

    def _flush_if_due(self) -> None:
        if monotonic() - self._flushed_at < FLUSH_EVERY_S:
            return
        for recorder in self.recorders:
            recorder.flush()
        for name in sorted(self._tables, key=lambda name: name == "rounds"):
            self._tables[name].flush()
        self._flushed_at = monotonic()

    def _add_rounds(self, rounds: Sequence[Round]) -> None:
        self._tables["rounds"].extend(
            [
                (
                    replica,
                    each.index,
                    each.opened_s,
                    each.closed_s,
                    len(each.deliveries),
                    each.oldest,
                    each.uplink_bits,
                    each.downlink_bits,
                    np.nan if each.energy_j is None else each.energy_j,
                )
                for replica, each in zip(self._replicas, rounds, strict=True)
            ]
        )
        self._tables["deliveries"].extend(
            [
                (replica, each.index, d.user, d.base, d.sent_s, d.arrived_s, d.attempts)
                for replica, each in zip(self._replicas, rounds, strict=True)
                for d in each.deliveries
            ]
        )

    def _add_batches(self, batches: Sequence[RoundBatch]) -> None:
        rounds, deliveries = [batch.of_rounds for batch in batches], [batch.of_deliveries for batch in batches]
        for name, tables in (("rounds", rounds), ("deliveries", deliveries)):
            replica = np.repeat(np.array(self._replicas), [len(table[0]) for table in tables])
            columns = [replica, *(np.concatenate(column) for column in zip(*tables, strict=True))]
            order = np.argsort(columns[1], kind="stable")
            self._tables[name].append([column[order] for column in columns])

    def _publish(self) -> None:
        for recorder in self.recorders:
            recorder.flush()
        for table in self._tables.values():
            table.finish()
        for table in self._tables.values():
            table.publish()
