"""Run directories: written by a `Writer` while a run goes on, read by `open_run` at any time after."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.tables import SCHEMAS, EventRecorder, Table, words
from netfl.types import Report, Round


def create(folder: Path) -> Path:
    """Make *folder* for a new run.

    Raises:
        ScenarioError: it exists and is not empty.
        MachineError: it cannot be made.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ScenarioError(
                [Fault("--out", "there is something there already", str(folder), "name another folder, or remove it")]
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise MachineError(f"cannot write a run into {folder}: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a small file beside its place and move it there, so that it is whole or absent."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)  # noqa: PTH105 - the one call that replaces on every system


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write *content* as JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


class Writer:
    """The tables of one run, growing.

    Args:
        folder: the run directory, made by `create`.
        replicas: the number of replicas.
        lanes: learner and replica of each lane, in the order of a report's arrays.
        kinds: the kinds of events to store.
    """

    def __init__(self, folder: Path, replicas: int, kinds: frozenset[str], lanes: Sequence[tuple[str, int]]) -> None:
        self.folder, self._lanes = folder, tuple(lanes)
        tables = [name for name in SCHEMAS if name != "metrics" or lanes]
        self._tables = {name: Table(folder, name, SCHEMAS[name]) for name in tables}
        self.recorders = [EventRecorder(self._tables["events"], replica, kinds) for replica in range(replicas)]

    def places(self, name: str, tables: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Write the users or the nodes table: for each replica, its columns; nothing where there are none."""
        if any(tables):
            frames = [pd.DataFrame({"replica": replica, **table}) for replica, table in enumerate(tables)]
            self.frame(name, pd.concat(frames, ignore_index=True))

    def frame(self, name: str, table: pd.DataFrame) -> None:
        """Write a whole table at once."""
        part = self.folder / f"{name}.parquet.part"
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), part)
        part.replace(self.folder / f"{name}.parquet")

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Add one round of each replica, with its deliveries."""
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
                )
                for replica, one in enumerate(rounds)
            ]
        )
        self._tables["deliveries"].extend(
            [
                (replica, one.index, each.user, each.base, each.sent_s, each.arrived_s, each.attempts)
                for replica, one in enumerate(rounds)
                for each in one.deliveries
            ]
        )

    def metrics(self, report: Report, closed_s: Sequence[float]) -> None:
        """Add a report's figures; *closed_s* is the simulated time of each replica."""
        if not report.metrics:
            return
        learners, replicas = zip(*self._lanes, strict=True)
        at = np.array(replicas, np.int32)
        split = [name.partition("/") for name in report.metrics]
        count, lanes = len(split), len(self._lanes)
        self._tables["metrics"].append(
            [
                words(learners * count),
                np.tile(at, count),
                np.full(lanes * count, report.round),
                np.tile(np.asarray(closed_s, float)[at], count),
                words([metric for metric, _, _ in split], np.full(count, lanes)),
                words([group for _, _, group in split], np.full(count, lanes)),
                np.concatenate([np.asarray(values, float) for values in report.metrics.values()]),
            ]
        )

    def close(self) -> None:
        """Finish all tables."""
        for recorder in self.recorders:
            recorder.flush()
        for table in self._tables.values():
            table.close()

    def abandon(self) -> None:
        """Let go after a failure; nothing half-written takes a table's name."""
        for table in self._tables.values():
            table.abandon()


@dataclass(frozen=True)
class Run:
    """A run directory; its tables are pandas DataFrames, read when first asked for.

    Args:
        folder: the run directory.
    """

    folder: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Status, seed, versions, machine and timings."""
        return self._json("manifest.json")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures that the run printed at its end; empty until then."""
        return self._json("summary.json")

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario as resolved, as plain YAML says it."""
        from ruamel.yaml import YAML  # noqa: PLC0415 - only where it is asked for

        path = self.folder / "scenario.yaml"
        return dict(YAML(typ="safe", pure=True).load(path)) if path.exists() else {}

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per replica and round."""
        return self.table("rounds")

    @cached_property
    def deliveries(self) -> pd.DataFrame:
        """One row per update that reached the server and counted."""
        return self.table("deliveries")

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per recorded thing that happened, in order of time within a replica."""
        table = self.table("events")
        return table.sort_values(["replica", "time_s"], kind="stable", ignore_index=True)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per figure."""
        return self.table("metrics")

    @cached_property
    def users(self) -> pd.DataFrame:
        """One row per replica and user."""
        return self.table("users")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """One row per replica and tower, router or server: its name, role and position."""
        return self.table("nodes")

    @cached_property
    def regions(self) -> pd.DataFrame:
        """For data in the plane: the label that each learner predicts on a grid."""
        return self.table("regions")

    @cached_property
    def points(self) -> pd.DataFrame:
        """For data in the plane: the test points."""
        return self.table("points")

    def table(self, name: str) -> pd.DataFrame:
        """A table by name; empty, with its columns, while it is not finished or where the run has none."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return SCHEMAS[name].empty_table().to_pandas() if name in SCHEMAS else pd.DataFrame()
        try:
            table: pd.DataFrame = pq.ParquetFile(path).read().to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error
        return table

    def _json(self, name: str) -> dict[str, Any]:
        """A JSON file of the directory, empty where there is none."""
        path = self.folder / name
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
        except (OSError, ValueError, TypeError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error


def open_run(folder: str | Path) -> Run:
    """The run in *folder*, finished or not.

    Raises:
        ScenarioError: there is no run.
    """
    path = Path(folder)
    if not (path / "manifest.json").exists():
        raise ScenarioError(
            [Fault("", "no run directory: there is no manifest.json", str(path), "name a folder that netfl wrote")]
        )
    return Run(path)
