"""Run directories: written by a `RunWriter` while a run goes on, read by `open_run` at any time after."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

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
from netfl.results.tables import CHUNK, GROWING, SCHEMAS, EventRecorder, TableWriter, dictionary_column
from netfl.scenario.event_filter import EventFilter
from netfl.types import LearnerReport, Round, RoundBatch

FLUSH_EVERY_S = 5.0
"""Wall-clock seconds after which what is gathered is written, so that a crash costs no more than that."""

_UNBEGUN = frozenset({".lock", "scenario.yaml", "scenario.yaml.part", "manifest.json.part"})
"""What may be in a run directory in which no run has begun yet."""


@contextmanager
def create_run_directory(folder: Path) -> Iterator[Path]:
    """A new run directory, held for writing; gone again if there is nothing in it that a user may want.

    That is so after a failure before the run's manifest is written, and when the scenario cannot be run.  What a run
    left that died before that is as good as nothing.

    Raises:
        ScenarioError: it exists and is not empty.
        MachineError: it cannot be made.
    """
    try:
        existed = folder.exists()
        found = _names(folder) if existed else frozenset()
        if not (found <= {".lock"} or ".lock" in found <= _UNBEGUN):
            raise _taken(folder)
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for one in new:
            sync_directory(one.parent)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MachineError(f"cannot write a run into {folder}: {error.strerror or error}") from error
    with locked(folder):
        if not _names(folder) <= found | {".lock"}:  # another process has come and gone since
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
    """What is in *folder*; a file in its place stands for itself."""
    return frozenset(one.name for one in folder.iterdir()) if folder.is_dir() else frozenset({folder.name})


def _taken(folder: Path) -> ScenarioError:
    """That *folder* is somebody's."""
    problem = f"{folder} is there already, and not empty"
    return ScenarioError([Fault("--out", problem, None, "name another folder, or remove it")])


def write_text(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write *content* as JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def append_replicas(table: Path, more: Path, first: int) -> None:
    """Put the rows of *more* behind those of *table*, whole or not at all; its own replicas from *first* on give way.

    So it can be done again: rows that an earlier call has put there are replaced.
    """
    with open_parquet(table) as file:
        schema = file.schema_arrow
    with atomic_write(table) as part, pq.ParquetWriter(absolute_path(part), schema) as writer:
        for path in (table, more):
            with open_parquet(path) as file:
                for batch in file.iter_batches(CHUNK):
                    rows = pa.Table.from_batches([batch]).cast(schema)
                    writer.write_table(rows if path == more else rows.filter(pc.less(rows["replica"], first)))


class RunWriter:
    """The tables of one run, growing.

    Args:
        folder: the run directory, made by `create`.
        replicas: the number of replicas.
        keeping: which events to store.
        lanes: learner and replica of each lane, in the order of a report's arrays.
        first: the first of the replicas.
        also: told of every report, too.
    """

    def __init__(
        self,
        folder: Path,
        replicas: int,
        keeping: EventFilter,
        lanes: Sequence[tuple[str, int]],
        first: int = 0,
        also: Callable[[LearnerReport, Sequence[float]], None] | None = None,
    ) -> None:
        self._also = also
        self.folder, self._lanes, self._first = folder, tuple(lanes), first
        tables = [name for name in GROWING if name != "metrics" or lanes]
        self._tables = {name: TableWriter(folder, name, SCHEMAS[name]) for name in tables}
        numbers = range(first, first + replicas)
        self.recorders = [EventRecorder(self._tables["events"], replica, keeping) for replica in numbers]
        self._flushed_at = monotonic()

    def places(self, name: str, tables: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Write a table of users or of nodes: for each replica, its columns; nothing where there are none."""
        if any(tables):
            numbered = enumerate(tables, self._first)
            frames = [pd.DataFrame({"replica": replica, **table}) for replica, table in numbered]
            self.frame(name, pd.concat(frames, ignore_index=True))

    def frame(self, name: str, table: pd.DataFrame) -> None:
        """Write a whole table at once."""
        with atomic_write(self.folder / f"{name}.parquet") as part:
            pq.write_table(with_format(pa.Table.from_pandas(table, preserve_index=False)), absolute_path(part))

    def figures(self, figures: Sequence[Mapping[str, float]]) -> None:
        """Write the figures that each replica ended with."""
        lines = [
            (replica, name, value) for replica, own in enumerate(figures, self._first) for name, value in own.items()
        ]
        columns = zip(*lines, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS["figures"], strict=True)]
        with atomic_write(self.folder / "figures.parquet") as part:
            pq.write_table(with_format(pa.Table.from_arrays(arrays, schema=SCHEMAS["figures"])), absolute_path(part))

    def _flush_if_due(self) -> None:
        """Write what all tables have gathered, the rounds last: what belongs to a round is there where it is."""
        if monotonic() - self._flushed_at < FLUSH_EVERY_S:
            return
        for recorder in self.recorders:
            recorder.flush()
        for name in sorted(self._tables, key=lambda name: name == "rounds"):
            self._tables[name].flush()
        self._flushed_at = monotonic()

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Add one round of each replica, with its deliveries."""
        self._flush_if_due()
        self._tables["rounds"].extend(
            [
                (
                    replica,
                    one.index,
                    one.opened_s,
                    one.closed_s,
                    len(one.deliveries),
                    one.oldest,
                    one.uplink_bits,
                    one.downlink_bits,
                    np.nan if one.energy_j is None else one.energy_j,
                )
                for replica, one in enumerate(rounds, self._first)
            ]
        )
        self._tables["deliveries"].extend(
            [
                (replica, one.index, each.user, each.base, each.sent_s, each.arrived_s, each.attempts)
                for replica, one in enumerate(rounds, self._first)
                for each in one.deliveries
            ]
        )

    def blocks(self, blocks: Sequence[RoundBatch]) -> None:
        """Add the same rounds of each replica, with their deliveries, in the order in which `rounds` would."""
        self._flush_if_due()
        rounds, deliveries = [one.of_rounds for one in blocks], [one.of_deliveries for one in blocks]
        for name, told in (("rounds", rounds), ("deliveries", deliveries)):
            replica = np.repeat(np.arange(self._first, self._first + len(told)), [len(own[0]) for own in told])
            columns = [replica, *(np.concatenate(column) for column in zip(*told, strict=True))]
            order = np.argsort(columns[1], kind="stable")
            self._tables[name].append([column[order] for column in columns])

    def metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Add a report's figures, of each lane those that it has; *closed_s* is the simulated time of each replica."""
        if not report.metrics:
            return
        if self._also is not None:
            self._also(report, closed_s)
        learners, replicas = zip(*self._lanes, strict=True)
        at = np.array(replicas, np.int32)
        split = [name.partition("/") for name in report.metrics]
        count, lanes = len(split), len(self._lanes)
        values = np.concatenate([np.asarray(own, float) for own in report.metrics.values()])
        self._tables["metrics"].append(
            [
                dictionary_column(learners * count),
                np.tile(at, count),
                np.full(lanes * count, report.round),
                np.tile(np.asarray(closed_s, float)[at - self._first], count),
                dictionary_column([metric for metric, _, _ in split], np.full(count, lanes)),
                dictionary_column([group for _, _, group in split], np.full(count, lanes)),
                values,
            ],
            ~np.isnan(values),
        )

    def close(self) -> None:
        """Finish all tables; none has its name before all are whole."""
        for recorder in self.recorders:
            recorder.flush()
        for table in self._tables.values():
            table.finish()
        for table in self._tables.values():
            table.publish()

    def abandon(self) -> None:
        """Let go after a failure; nothing half-written takes a table's name."""
        for table in self._tables.values():
            table.abandon()
