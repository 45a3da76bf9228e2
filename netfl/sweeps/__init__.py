"""Sweeps: a scenario at many points, each learner in each replica done once, by processes here or on a cluster."""

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
"""What may be in a sweep's folder before it says that it is one."""

__all__ = ["Engine", "LocalEngine", "Sweep", "SweepObserver", "TaskUpdate", "open_sweep", "sweep"]


class SweepObserver(Protocol):
    """Looks on while a sweep goes on, and may ask it to stop."""

    @property
    def stop(self) -> bool:
        """Whether to end after the rounds that are going on, with checkpoints."""

    def planned(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """So many points are wanted, for which these tasks are left, beside so many that are done."""

    def told(self, word: TaskUpdate) -> None:
        """A task has begun, is so far, or has ended."""


class NullSweepObserver:
    """Nobody looks on."""

    stop = False

    def planned(self, folder: Path, points: int, tasks: Sequence[Task], done: int) -> None:
        """Nothing to show."""

    def told(self, word: TaskUpdate) -> None:
        """Nothing to show."""


def sweep(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    engine: Engine | None = None,
    learning: bool = True,
    watch: SweepObserver | None = None,
) -> Sweep:
    """Run *scenario* at all points of its ``sweep``, in all replicas, but for what *out* has already.

    Args:
        scenario: from `netfl.load`, with a sweep.
        out: the sweep's folder, which may be there; by default ``runs/<name>-sweep``.
        engine: who does the tasks; by default processes of this machine, one for each core.
        learning: whether learners run, or the accesses alone.
        watch: who looks on.

    Returns:
        The sweep; tasks that failed are in its ``tasks``, with their errors.

    Raises:
        ScenarioError: with the faults of all points; the folder is something else, or another process is at it.
        MachineError: the machine would not.
    """
    points = points_of(scenario, learning=learning and bool(scenario.learners))
    if scenario.sweep is None:
        raise ValueError("a scenario without a sweep has no points")
    folder = Path("runs") / f"{scenario.name}-sweep" if out is None else local_path(out, "--out")
    looking = watch or NullSweepObserver()
    _make(folder)
    with locked(folder):
        try:
            ledger = SweepIndex.read(folder) if is_sweep(folder) else SweepIndex(folder)
            ledger.begin(scenario.to_yaml(sweep=True))
            ledger.plan(scenario, points, scenario.sweep.names)
            tasks = tasks_of(points, ledger.homes(), scenario.sweep.lanes)
            ledger.add(tasks)
            ledger.write()
            wanted = {lane for point in points for lane in point.lanes.values()}
            warn_of_versions(folder, *ledger.manifests())
            there = sum(bool(wanted & {*ledger.tasks[task]["lanes"]}) for task in ledger.done())
            looking.planned(folder, len(points), tasks, there)

            def heard(word: TaskUpdate) -> None:
                if word.error:
                    ledger.errors[word.task] = word.error
                looking.told(word)

            try:
                if tasks:
                    (engine or LocalEngine()).run(tasks, folder, heard, lambda: looking.stop)
            finally:
                ledger.write()
        except OSError as error:
            problem = f"cannot go on writing {folder}: {error.strerror or error}"
            raise MachineError(f"{problem}; when that is mended, the same command goes on") from error
    return Sweep(ledger)


def open_sweep(folder: str | Path) -> Sweep:
    """The sweep in *folder*, as far as it is.

    Raises:
        ScenarioError: there is none.
        MachineError: it is damaged.
    """
    return Sweep(SweepIndex.read(local_path(folder)))


def _make(folder: Path) -> None:
    """Have the folder, which must be empty or a sweep's.

    Raises:
        ScenarioError: it is something else.
        MachineError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = [file.name for file in folder.iterdir() if file.name != ".lock"]
    except FileExistsError:
        problem = f"{folder} is a file"
        raise ScenarioError([Fault("--out", problem, None, "name a folder")]) from None
    except OSError as error:
        raise MachineError(f"cannot write a sweep into {folder}: {error.strerror or error}") from error
    if SWEEP not in strange and not _UNBEGUN.issuperset(strange):
        problem = f"{folder} is there already, and no folder of a sweep"
        raise ScenarioError([Fault("--out", problem, None, "name another folder, or remove it")])
