"""Sweeps: a scenario at many points, run by processes of this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import local_path
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions
from netfl.results.run_reader import SWEEP, TASKS, is_sweep
from netfl.scenario.scenario import Scenario
from netfl.sweeps.engine import Engine
from netfl.sweeps.index import SweepIndex
from netfl.sweeps.local_engine import LocalEngine
from netfl.sweeps.plan import Task, points_of, tasks_of
from netfl.sweeps.results import Sweep
from netfl.sweeps.task import TaskUpdate

_UNBEGUN = frozenset({TASKS, "scenario.yaml", "scenario.yaml.part", f"{SWEEP}.part"})
"""Names of files that a sweep writes before its index."""

__all__ = ["Engine", "LocalEngine", "Sweep", "SweepObserver", "TaskUpdate", "open_sweep", "sweep"]


class SweepObserver(Protocol):
    """Interface of objects that follow a sweep and may stop it."""

    @property
    def stop(self) -> bool:
        """``True`` ends each task after its current round, with a checkpoint."""

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Receive the number of points, the tasks to do, and the number of tasks that are done already."""

    def on_update(self, update: TaskUpdate) -> None:
        """Receive the progress or the end of a task."""


class NullSweepObserver:
    """Observer that does nothing."""

    stop = False

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Do nothing."""

    def on_update(self, update: TaskUpdate) -> None:
        """Do nothing."""


def sweep(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    engine: Engine | None = None,
    learning: bool = True,
    observer: SweepObserver | None = None,
) -> Sweep:
    """Run *scenario* at all points of its ``sweep``, in all replicas, and skip what *out* already has.

    Args:
        scenario: from `netfl.load`, with a sweep.
        out: folder of the sweep, new or existing; by default ``runs/<name>-sweep``.
        engine: engine that runs the tasks; by default one process of this machine for each core.
        learning: with learners, or the accesses alone.
        observer: an observer of the sweep, which may stop it.

    Returns:
        The sweep; its ``tasks`` list failed tasks with their errors.

    Raises:
        ScenarioError: a point has errors, the folder is no sweep, or another process uses it.
        MachineError: the folder cannot be read or written.
    """
    points = points_of(scenario, learning=learning and bool(scenario.learners))
    if scenario.sweep is None:
        raise ValueError("a scenario without a sweep has no points")
    folder = Path("runs") / f"{scenario.name}-sweep" if out is None else local_path(out, "--out")
    observer = observer or NullSweepObserver()
    _make_folder(folder)
    with locked(folder):
        try:
            index = SweepIndex.read(folder) if is_sweep(folder) else SweepIndex(folder)
            index.begin(scenario.to_yaml(sweep=True))
            index.plan(scenario, points, scenario.sweep.names)
            tasks = tasks_of(points, index.find_tasks(), scenario.sweep.lanes)
            index.add(tasks)
            index.write()
            wanted = {lane for point in points for lane in point.lanes.values()}
            warn_of_versions(folder, *index.manifests())
            done = sum(bool(wanted & {*index.tasks[task]["lanes"]}) for task in index.done())
            observer.on_plan(folder, len(points), tasks, done)

            def report(update: TaskUpdate) -> None:
                if update.error:
                    index.errors[update.task] = update.error
                observer.on_update(update)

            try:
                if tasks:
                    (engine or LocalEngine()).run(tasks, folder, report, lambda: observer.stop)
            finally:
                index.write()
        except OSError as error:
            problem = f"cannot go on writing {folder}: {error.strerror or error}"
            raise MachineError(f"{problem}; when that is mended, the same command goes on") from error
    return Sweep(index)


def open_sweep(folder: str | Path) -> Sweep:
    """Open the sweep in *folder*, complete or not.

    Raises:
        ScenarioError: the folder is no sweep.
        MachineError: its index is damaged.
    """
    return Sweep(SweepIndex.read(local_path(folder)))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [file.name for file in folder.iterdir() if file.name != ".lock"]
    except FileExistsError:
        problem = f"{folder} is a file"
        raise ScenarioError([Fault("--out", problem, None, "name a folder")]) from None
    except OSError as error:
        raise MachineError(f"cannot write a sweep into {folder}: {error.strerror or error}") from error
    if SWEEP not in names and not _UNBEGUN.issuperset(names):
        problem = f"{folder} is there already, and no folder of a sweep"
        raise ScenarioError([Fault("--out", problem, None, "name another folder, or remove it")])
