"""Sweeps: a scenario at many points, run by processes of this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from warnings import warn

from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, NetflWarning, ScenarioError, cannot_write
from netfl.files import local_path
from netfl.results.atomic_write import write_text
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions
from netfl.results.metrics import with_reported
from netfl.results.run_reader import Run, open_run
from netfl.scenario.path_errors import SWEEP, TASKS, is_sweep
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.scenario.sweep_axes import SearchSpec
from netfl.simulation.setup import locate_faults
from netfl.sweeps.display import sweep_display
from netfl.sweeps.engine import Engine, LocalEngine
from netfl.sweeps.index import SweepIndex
from netfl.sweeps.observer import SweepObserver
from netfl.sweeps.plan import Point, Task, points_of, task_folder, tasks_of
from netfl.sweeps.results import Sweep
from netfl.sweeps.search import Search
from netfl.sweeps.task import TaskUpdate

__all__ = ["Engine", "LocalEngine", "Sweep", "SweepObserver", "TaskUpdate", "open_sweep", "sweep"]


def sweep(
    scenario: ScenarioSource,
    out: str | Path | None = None,
    *,
    engine: Engine | None = None,
    learning: bool = True,
    observer: SweepObserver | None = None,
    progress: bool = True,
) -> Sweep:
    """Run *scenario* at all points of its ``sweep``, in all replicas, and skip what *out* already has.

    Args:
        scenario: a scenario with a sweep, or any other input of `netfl.load`.
        out: folder of the sweep, new or existing; by default ``runs/<name>-sweep``.
        engine: engine that runs the tasks; by default one process of this machine for each core.
        learning: with learners, or the accesses alone.
        observer: an observer of the sweep, which may stop it.
        progress: show the progress on a terminal or in a notebook; an observer replaces it.

    The `Run.warnings` of all points are given once each as `netfl.NetflWarning`, when the first of them is done.

    Returns:
        The sweep; its ``tasks`` list failed tasks with their errors.

    Raises:
        ScenarioError: a point has errors, the folder is no sweep, or another process uses it.
        MachineError: the folder cannot be read or written.
    """
    scenario = as_scenario(scenario)
    if engine is not None and not callable(getattr(engine, "run", None)):
        problem = f"not an engine but {type(engine).__name__}"
        raise ScenarioError(
            [Fault("engine", problem, None, "give one of netfl.sweeps, such as LocalEngine(workers=2)")]
        )
    learning = learning and bool(scenario.learners)
    points = points_of(scenario, learning=learning)
    if scenario.sweep is None:
        raise ValueError("a scenario without a sweep has no points")
    folder = Path("runs") / f"{scenario.name}-sweep"
    if out is not None:
        folder = local_path(out, argument("out"))
    _make_folder(folder)
    with (
        note_continuation(),
        locked(folder),
        locate_faults(scenario, ""),
        sweep_display(observer, progress=progress) as display,
    ):
        try:
            # a plan has all its tasks now; a search chooses them one after the other
            index = _open_index(folder)
            search = None
            tasks: list[Task] = []
            if isinstance(scenario.sweep, SearchSpec):
                search = _open_search(scenario, scenario.sweep, index, display, learning=learning)
            else:
                index.plan(scenario, points, scenario.sweep.names)
                tasks = tasks_of(points, index.finished_cells().find, scenario.sweep.lanes)
                index.tasks |= {task.key: task for task in tasks}

            # the folder shows the plan before the first task starts
            index.write()
            (folder / TASKS).mkdir(exist_ok=True)
            write_text(folder / "scenario.yaml", scenario.to_yaml(sweep=True))
            finished = index.done()
            warn_of_versions(folder, *(open_run(task_folder(folder, task)).manifest for task in finished))
            if search is None:
                display.on_plan(folder, len(points), tasks, _count_done(points, index, finished))

            given_warnings: set[str] = set()

            def report(update: TaskUpdate) -> bool:
                if update.error:
                    index.errors[update.task] = update.error
                display.on_update(update)
                if update.ended and not update.error:
                    _give_new_warnings(index.run(update.task), given_warnings)
                return search is not None and search.on_update(update)

            try:
                if search is not None:
                    (engine or LocalEngine()).run(search.tasks(), folder, report, lambda: display.stop)
                elif tasks:
                    (engine or LocalEngine()).run(tasks, folder, report, lambda: display.stop)
            finally:
                index.write()
        except OSError as error:
            problem = f"cannot write {folder}: {error.strerror or error}"
            raise MachineError(f"{problem}; fix this, then repeat the command to continue") from error
    return Sweep(index)


def _give_new_warnings(run: Run | None, given: set[str]) -> None:
    """Give those warnings about the scenario of a *run* that are not *given* yet, and add them."""
    if run is None:
        return
    for text in run.warnings:
        point, _, problem = text.partition(": ")
        if "=" not in point:  # no axis values of its point stand before it
            problem = text
        if problem not in given:
            given.add(problem)
            warn(text, NetflWarning, stacklevel=2)


@contextmanager
def note_continuation() -> Iterator[None]:
    """Add how to continue the sweep to an interruption."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note("repeat the command to continue")
        raise


def _make_folder(folder: Path) -> None:
    """Make the folder of a sweep if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [file.name for file in folder.iterdir() if file.name != ".lock"]
    except FileExistsError:
        raise ScenarioError([Fault(argument("out"), f"{folder} is a file", None, "give a folder")]) from None
    except OSError as error:
        raise cannot_write(error, folder) from error
    if names and SWEEP not in names:
        problem = f"{folder} already exists and is not the folder of a sweep"
        raise ScenarioError([Fault(argument("out"), problem, None, "use another folder, or remove it")])


def _open_index(folder: Path) -> SweepIndex:
    """Return the index of a sweep's folder; an empty one for a new sweep."""
    if is_sweep(folder):
        return SweepIndex.read(folder)
    return SweepIndex(folder=folder, replicas=1, points=[], tasks={}, errors={})


def _count_done(points: Sequence[Point], index: SweepIndex, finished: Sequence[str]) -> int:
    """Return how many of the *finished* tasks have a lane of these *points*: others are of an earlier plan."""
    lanes = {lane for point in points for lane in point.lanes.values()}
    return sum(not lanes.isdisjoint(index.tasks[task].lanes) for task in finished)


def _open_search(
    scenario: Scenario, spec: SearchSpec, index: SweepIndex, observer: SweepObserver, *, learning: bool
) -> Search:
    """Return the search of *scenario*, new or continued, and report its trials to *observer*."""

    def observe(number: int, tasks: Sequence[Task]) -> None:
        with with_reported(search.reported):
            observer.on_trial(number, search.entries[number], index.points[number], tasks)

    search = Search(scenario, spec, index, observe, learning=learning)
    assert index.search is not None
    observer.on_search(index.folder, index.search)
    return search


def open_sweep(folder: str | Path) -> Sweep:
    """Open the sweep in *folder*, complete or not.

    Raises:
        ScenarioError: the folder is no sweep.
        MachineError: its index is damaged.
    """
    return Sweep(SweepIndex.read(local_path(folder, "folder")))
