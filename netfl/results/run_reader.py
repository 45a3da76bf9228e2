"""Run directories, read back: tables as pandas DataFrames, at any time."""

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
"""The folder in a run directory in which replicas are run that are to extend it."""

SWEEP = "sweep.json"
"""The file by which the folder of a sweep is known."""

TASKS = "tasks"
"""The folder of a sweep in which each of its runs has one of its own."""


@dataclass(frozen=True)
class Run:
    """A run directory; its tables are pandas DataFrames, read when first asked for.

    Args:
        folder: the run directory.
        without: names of files in it that are taken as missing.
        unfinished: whether tables that never got finished are read, too, as far as they had been written.
    """

    folder: Path
    without: frozenset[str] = frozenset()
    unfinished: bool = False

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Status, seed, versions, machine and timings.

        Raises:
            MachineError: it is damaged.
            ScenarioError: a newer netfl wrote it.
        """
        told = self._json("manifest.json")
        check_format(told.get("format"), str(self.folder / "manifest.json"))
        return told

    @property
    def status(self) -> str:
        """``running``, ``done``, ``interrupted``, ``failed``, or ``crashed``: it says running, but nobody runs it."""
        told = str(self.manifest.get("status", "unknown"))
        return "crashed" if told == "running" and not is_locked(self.folder) else told

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures that the run printed at its end; empty until then, and while it changes from that to another."""
        told = self._json("summary.json")
        changing = (self.folder / EXTENSION).exists() and told.get("replicas") != self.manifest.get("replicas")
        return {} if changing else told

    @property
    def diverged(self) -> list[str]:
        """Each learner whose training diverged in a replica, in words."""
        told = []
        try:
            for one in self.manifest.get("diverged", []):
                user = "" if one["user"] is None else f", user {one['user']}"
                told.append(f"{one['learner']}, replica {one['replica']}{user}: {one['problem']}")
        except (TypeError, KeyError) as error:
            raise MachineError(f"{self.folder / 'manifest.json'} cannot be read: diverged: {error}") from error
        return told

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario as resolved, as plain YAML says it."""
        from netfl.scenario import yaml_document

        path = self.folder / "scenario.yaml"
        try:
            if not self._has(path.name):
                return {}
            return dict(yaml_document.parse(files.read_text(path), str(path), lines=False))
        except (OSError, ValueError, TypeError, ScenarioError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error

    def said(self, section: str) -> Any:
        """A section of the scenario, which a run cannot do without.

        Raises:
            MachineError: it is not there.
        """
        if section not in self.scenario:
            raise MachineError(f"{self.folder / 'scenario.yaml'} says nothing of '{section}': is it the run's own?")
        return self.scenario[section]

    @property
    def choices(self) -> dict[str, dict[str, Any]]:
        """The choices among learners, by name, as the scenario says them."""
        evaluate = self.scenario.get("evaluate")
        return dict(_mapping(_mapping(evaluate).get("choose")))

    @property
    def learners(self) -> tuple[str, ...]:
        """The names under which figures of learning stand: the learners, and the choices among them."""
        return tuple(str(name) for part in (self.scenario.get("learners"), self.choices) for name in _mapping(part))

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
    def figures(self) -> pd.DataFrame:
        """One row per replica and figure that it ended with; none until then."""
        return self.table("figures")

    @cached_property
    def users(self) -> pd.DataFrame:
        """One row per replica and user."""
        return self.table("users")

    @cached_property
    def spent(self) -> pd.DataFrame:
        """One row per replica and user: what it did and spent, where the access counts energy; none until the end."""
        return self.table("spent")

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
        """A table by name; empty, with its columns, while it is not finished or where the run has none.

        Replicas that are being put in, to extend the run, are there once all of them are.
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
        """Whether the streams of an unfinished run reach farther than the tables of an earlier stop, if there are any.

        All growing tables come from the same, as they fit together only so.
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
        """Every version of a learner's model, by round from 0, the start; read when it is asked for.

        Raises:
            ScenarioError: the run has not recorded them, or not to its end.
            MachineError: the file is damaged.
        """
        path = self.folder / VERSIONS / f"{learner}-{replica}.safetensors"
        if not path.exists():
            problem = f"there is no {path}"
            raise ScenarioError([Fault("", problem, None, "finish a run that has record: {versions: true}")])
        return ModelSnapshots(path)

    def figures_of(self, replicas: Iterable[int]) -> list[dict[str, float]]:
        """The figures of each of *replicas*, by name."""
        names, values = self.figures["figure"].astype(str), self.figures["value"]
        own = [self.figures["replica"] == replica for replica in replicas]
        return [dict(zip(names[rows], values[rows].tolist(), strict=True)) for rows in own]

    def _has(self, name: str) -> bool:
        """Whether there is such a file in the directory."""
        return name not in self.without and (self.folder / name).exists()

    def _json(self, name: str) -> dict[str, Any]:
        """A JSON file of the directory, empty where there is none."""
        path = self.folder / name
        try:
            return dict(json.loads(files.read_text(path))) if self._has(name) else {}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error


def open_run(folder: str | Path) -> Run:
    """The run in *folder*, finished or not.

    Raises:
        ScenarioError: there is no run.
    """
    path, problem, remedy = local_path(folder), "", "name a folder that netfl wrote"
    try:
        if not (path / "manifest.json").is_file():
            problem = "there is no manifest.json in it"
            if is_sweep(path):
                problem, remedy = "it is that of a sweep", _of_sweep(path)
    except OSError as error:
        problem = str(error.strerror or error)
    if problem:
        raise ScenarioError([Fault("", f"{path} is no run directory: {problem}", None, remedy)])
    return Run(path)


def _mapping(value: Any) -> dict[str, Any]:
    """*value* where it is a mapping; else an empty one."""
    return value if isinstance(value, dict) else {}


def is_sweep(folder: Path) -> bool:
    """Whether *folder* is that of a sweep; nothing is whose name the system refuses."""
    try:
        return (folder / SWEEP).is_file()
    except OSError:
        return False


def _of_sweep(folder: Path) -> str:
    """What would do in place of a sweep's folder."""
    runs = sorted(path.parent for path in (folder / TASKS).glob("*/manifest.json"))
    whole = "netfl report and netfl.open_sweep take it as a whole, netfl sweep goes on with it"
    return f"name one of its runs, such as {runs[0]}; {whole}" if runs else f"it has no runs yet; {whole}"
