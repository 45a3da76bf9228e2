"""Reader of run directories: tables as pandas DataFrames, also while the run is going on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network import files
from netfl.network.files import local_path, read_frame
from netfl.results.locking import is_locked
from netfl.results.model_snapshots import VERSIONS, ModelSnapshots
from netfl.results.tables import SCHEMAS, read_stream, stream_of
from netfl.types import check_format

EXTENSION = "extension"
"""Folder in a run directory for the replicas that extend the run."""

SWEEP = "sweep.json"
"""File that marks the folder of a sweep."""

TASKS = "tasks"
"""Folder of a sweep that holds the run directories."""


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
            ScenarioError: a newer netfl wrote it.
        """
        manifest = self._json("manifest.json")
        check_format(manifest.get("format"), str(self.folder / "manifest.json"))
        return manifest

    @property
    def status(self) -> str:
        """``running``, ``done``, ``interrupted``, ``failed``, or ``crashed``: marked as running, without a process."""
        status = str(self.manifest.get("status", "unknown"))
        return "crashed" if status == "running" and not is_locked(self.folder) else status

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Metrics over replicas; empty until the end of the run, and while an extension replaces it."""
        summary = self._json("summary.json")
        is_changing = (self.folder / EXTENSION).exists() and summary.get("replicas") != self.manifest.get("replicas")
        return {} if is_changing else summary

    @property
    def diverged(self) -> list[str]:
        """Lanes whose training diverged, in words."""
        lines = []
        try:
            for lane in self.manifest.get("diverged", []):
                user = "" if lane["user"] is None else f", user {lane['user']}"
                lines.append(f"{lane['learner']}, replica {lane['replica']}{user}: {lane['problem']}")
        except (TypeError, KeyError) as error:
            raise MachineError(f"{self.folder / 'manifest.json'} cannot be read: diverged: {error}") from error
        return lines

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """Resolved scenario as plain data."""
        from netfl.scenario import yaml_document

        path = self.folder / "scenario.yaml"
        try:
            if not self._has(path.name):
                return {}
            return dict(yaml_document.parse(files.read_text(path), str(path), lines=False))
        except (OSError, ValueError, TypeError, ScenarioError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error

    def said(self, section: str) -> Any:
        """Return a required section of the scenario.

        Raises:
            MachineError: it is missing.
        """
        if section not in self.scenario:
            raise MachineError(f"{self.folder / 'scenario.yaml'} says nothing of '{section}': is it the run's own?")
        return self.scenario[section]

    @property
    def choices(self) -> dict[str, dict[str, Any]]:
        """Choices among learners in the scenario, by name."""
        evaluate = self.scenario.get("evaluate")
        return dict(_mapping(_mapping(evaluate).get("choose")))

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners and of the choices among them."""
        return tuple(str(name) for part in (self.scenario.get("learners"), self.choices) for name in _mapping(part))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per replica and round."""
        return self.table("rounds")

    @cached_property
    def deliveries(self) -> pd.DataFrame:
        """One row per update that was delivered."""
        return self.table("deliveries")

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per recorded event, in order of time within a replica."""
        table = self.table("events")
        return table.sort_values(["replica", "time_s"], kind="stable", ignore_index=True)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per evaluated value."""
        return self.table("metrics")

    @cached_property
    def figures(self) -> pd.DataFrame:
        """One row per replica and final metric; none until the end of the run."""
        return self.table("figures")

    @cached_property
    def users(self) -> pd.DataFrame:
        """One row per replica and user."""
        return self.table("users")

    @cached_property
    def spent(self) -> pd.DataFrame:
        """One row per replica and user: what it spent, where the access counts energy; none until the end."""
        return self.table("spent")

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

        The replicas of an extension appear when all of them are complete.
        """
        path = self.file_of(name)
        if path == stream_of(self.folder, name):
            rows: pd.DataFrame = read_stream(path).to_pandas()
            return rows
        if not self._has(path.name):
            return SCHEMAS[name].empty_table().to_pandas() if name in SCHEMAS else pd.DataFrame()
        table = read_frame(path)
        if "replica" in table and (self.folder / EXTENSION).exists():
            table = table[table["replica"] < self.manifest.get("replicas", math.inf)]
        return table

    def file_of(self, name: str) -> Path:
        """Return the file that a table is read from."""
        stream = stream_of(self.folder, name)
        return stream if self._growing and self._has(stream.name) else self.folder / f"{name}.parquet"

    @cached_property
    def _growing(self) -> bool:
        """Return whether the streams of an unfinished run cover more rounds than the tables of an earlier stop.

        All growing tables are then read from streams, as only these fit together.
        """
        stream, whole = stream_of(self.folder, "rounds"), self.folder / "rounds.parquet"
        if not self.unfinished or not self._has(stream.name):
            return False
        if not self._has(whole.name):
            return True
        with suppress(MachineError):
            return len(read_stream(stream)) > len(read_frame(whole))
        return False

    def versions(self, learner: str, replica: int = 0) -> ModelSnapshots:
        """Return the recorded versions of a learner's model, by round; 0 is the start.

        Raises:
            ScenarioError: the run has not recorded them, or is not finished.
            MachineError: the file is damaged.
        """
        path = self.folder / VERSIONS / f"{learner}-{replica}.safetensors"
        if not path.exists():
            problem = f"there is no {path}"
            raise ScenarioError([Fault("", problem, None, "finish a run that has record: {versions: true}")])
        return ModelSnapshots(path)

    def figures_of(self, replicas: Iterable[int]) -> list[dict[str, float]]:
        """Return the final metrics of each of *replicas*, by name."""
        names, values = self.figures["figure"].astype(str), self.figures["value"]
        masks = [self.figures["replica"] == replica for replica in replicas]
        return [dict(zip(names[rows], values[rows].tolist(), strict=True)) for rows in masks]

    def _has(self, name: str) -> bool:
        return name not in self.without and (self.folder / name).exists()

    def _json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file; empty where there is none."""
        path = self.folder / name
        try:
            return dict(json.loads(files.read_text(path))) if self._has(name) else {}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error


def open_run(folder: str | Path) -> Run:
    """Open the run in *folder*, finished or not.

    Raises:
        ScenarioError: there is no run.
    """
    path, problem, remedy = local_path(folder), "", "name a folder that netfl wrote"
    try:
        if not (path / "manifest.json").is_file():
            problem = "there is no manifest.json in it"
            if is_sweep(path):
                problem, remedy = "it is that of a sweep", _sweep_remedy(path)
    except OSError as error:
        problem = str(error.strerror or error)
    if problem:
        raise ScenarioError([Fault("", f"{path} is no run directory: {problem}", None, remedy)])
    return Run(path)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def is_sweep(folder: Path) -> bool:
    """Return whether *folder* is that of a sweep; False for names that the system refuses."""
    try:
        return (folder / SWEEP).is_file()
    except OSError:
        return False


def _sweep_remedy(folder: Path) -> str:
    """Return the remedy for a sweep's folder given in place of a run's."""
    runs = sorted(path.parent for path in (folder / TASKS).glob("*/manifest.json"))
    whole = "netfl report and netfl.open_sweep take it as a whole, netfl sweep goes on with it"
    return f"name one of its runs, such as {runs[0]}; {whole}" if runs else f"it has no runs yet; {whole}"
