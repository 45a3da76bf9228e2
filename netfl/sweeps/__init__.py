"""Sweeps: a scenario at many points, run by processes of this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import local_path
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions
from netfl.results.run_reader import SWEEP, TASKS, is_sweep, open_run
from netfl.results.run_writer import write_text
from netfl.scenario.scenario import ScenarioSource, as_scenario
from netfl.sweeps.engine import Engine, LocalEngine
from netfl.sweeps.index import SweepIndex
from netfl.sweeps.plan import Task, points_of, tasks_of
from netfl.sweeps.results import Sweep
from netfl.sweeps.task import TaskUpdate, task_folder

__all__ = ["Engine", "LocalEngine", "Sweep", "SweepObserver", "TaskUpdate", "open_sweep", "sweep"]


class SweepObserver:
    """Observer of a sweep; derive from it and override what is needed.

    Attributes:
        stop: set it to end each task after its current round, with a checkpoint.
    """

    stop: bool = False

    def on_plan(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Observe the number of points, the tasks to do, and the number of tasks that are done already."""

    def on_update(self, update: TaskUpdate) -> None:
        """Observe the progress or the end of a task."""


def sweep(
    scenario: ScenarioSource,
    out: str | Path | None = None,
    *,
    engine: Engine | None = None,
    learning: bool = True,
    observer: SweepObserver | None = None,
) -> Sweep:
    """Run *scenario* at all points of its ``sweep``, in all replicas, and skip what *out* already has.

    Args:
        scenario: a scenario with a sweep, or any other input of `netfl.load`.
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
    scenario = as_scenario(scenario)
    points = points_of(scenario, learning=learning and bool(scenario.learners))
    if scenario.sweep is None:
        raise ValueError("a scenario without a sweep has no points")
    folder = Path("runs") / f"{scenario.name}-sweep" if out is None else local_path(out, "--out")
    observer = observer or SweepObserver()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [file.name for file in folder.iterdir() if file.name != ".lock"]
    except FileExistsError:
        raise ScenarioError([Fault("--out", f"{folder} is a file", None, "give a folder")]) from None
    except OSError as error:
        raise MachineError(f"cannot write a sweep into {folder}: {error.strerror or error}") from error
    if names and SWEEP not in names:
        problem = f"{folder} already exists and is not the folder of a sweep"
        raise ScenarioError([Fault("--out", problem, None, "use another folder, or remove it")])
    with locked(folder):
        try:
            empty = SweepIndex(folder=folder, replicas=1, points=[], tasks={}, errors={})
            index = SweepIndex.read(folder) if is_sweep(folder) else empty
            index.plan(scenario, points, scenario.sweep.names)
            tasks = tasks_of(points, index.find_tasks(), scenario.sweep.lanes)
            index.tasks |= {task.key: task for task in tasks}
            index.write()
            (folder / TASKS).mkdir(exist_ok=True)
            write_text(folder / "scenario.yaml", scenario.to_yaml(sweep=True))
            wanted = {lane for point in points for lane in point.lanes.values()}
            warn_of_versions(folder, *(open_run(task_folder(folder, task)).manifest for task in index.done()))
            done = sum(bool(wanted & {*index.tasks[task].lanes}) for task in index.done())
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
            problem = f"cannot write {folder}: {error.strerror or error}"
            raise MachineError(f"{problem}; fix this, then repeat the command to continue") from error
    return Sweep(index)


def open_sweep(folder: str | Path) -> Sweep:
    """Open the sweep in *folder*, complete or not.

    Raises:
        ScenarioError: the folder is no sweep.
        MachineError: its index is damaged.
    """
    return Sweep(SweepIndex.read(local_path(folder)))
