"""Runs of a scenario into a run directory: start reading here.

`run`, `trace` and `resume` prepare the scenario (`netfl.simulation.setup`), build its learners
(`netfl.simulation.learners`), and call `perform_run`, which opens the observers and starts the main loop
(`netfl.simulation.loop`).  The loop drives one `netfl.simulation.simulation.Simulation` for each replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.learning.workers.ray_cluster import Cluster
from netfl.network.files import local_path
from netfl.results.locking import locked
from netfl.results.manifest import Manifest
from netfl.results.run_reader import Run, open_run
from netfl.results.run_writer import RunWriter, create_run_directory, write_text
from netfl.results.tracking.tracker import open_trackers
from netfl.scenario.scenario import Scenario, load
from netfl.simulation.learners import open_learner, open_session
from netfl.simulation.learning_session import LearnerProtocol, decision_regions
from netfl.simulation.loop import run_rounds
from netfl.simulation.setup import RunSetup, prepare_run, warnings
from netfl.types import RunObserver, RunStart

FINAL_FILES = ("summary.json", "figures.parquet", "spent.parquet", "report.html", "overview.png")
"""Files made from a finished run, which are out of date once it continues."""


def run(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    workers: int = 1,
    cluster: Cluster | None = None,
    watch: RunObserver | None = None,
) -> Run:
    """Run *scenario*: its network and its learners.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        device: ``auto``, ``cpu`` or ``cuda``.
        workers: number of processes that share the learners and replicas; with 1 all learn in this process.
        cluster: where the workers run; by default on this machine.
        watch: an observer of the run, which may stop it.

    Raises:
        ScenarioError: the scenario or the folder cannot be used.
        ModelError: a model failed; the run directory holds the rounds before.
        MachineError: the machine failed.
    """
    watch = watch or RunObserver()
    with create_run_directory(_folder(scenario, out)) as folder:
        setup = prepare_run(scenario, pulse=watch.on_progress)
        with open_learner(setup, device, workers, cluster, learning=bool(scenario.learners)) as learner:
            return perform_run(setup, learner, folder, watch)


def trace(scenario: Scenario, out: str | Path | None = None, *, watch: RunObserver | None = None) -> Run:
    """Run the access of *scenario* alone: rounds, deliveries and events, without learning and without torch.

    An access that needs the reports of learners cannot be traced; a replay of its run can.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        watch: an observer of the run, which may stop it.

    Raises:
        NetflError: as `run`.
    """
    watch = watch or RunObserver()
    with create_run_directory(_folder(scenario, out)) as folder:
        return perform_run(prepare_run(scenario, learning=False, pulse=watch.on_progress), None, folder, watch)


def resume(
    folder: str | Path,
    *,
    device: str = "auto",
    workers: int = 1,
    cluster: Cluster | None = None,
    watch: RunObserver | None = None,
) -> Run:
    """Continue a run that was stopped or crashed; its tables become those of a run that was never stopped.

    The network is simulated again from its seed, which is cheap, and its rounds are compared with those that the
    checkpoint was written after.  Learning continues from there, with any number of workers, here or on a cluster.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: the checkpoint is damaged, or the network no longer gives the same rounds.
    """
    stopped, watch = _unfinished_run(folder), watch or RunObserver()
    with locked(stopped.folder):
        stopped = _unfinished_run(folder)  # another process may have finished it
        scenario, learning = load(stopped.folder / "scenario.yaml"), stopped.manifest["learning"]
        replicas = range(stopped.manifest.get("first", 0), scenario.replicas)
        setup = prepare_run(scenario, learning=learning, replicas=replicas, pulse=watch.on_progress)
        with open_learner(setup, device, workers, cluster, learning=learning) as learner:
            return perform_run(setup, learner, stopped.folder, watch)


def perform_run(
    setup: RunSetup,
    learner: LearnerProtocol | None,
    folder: Path,
    watch: RunObserver,
    command: str = "",
) -> Run:
    """Run all rounds into *folder*, and return the run.

    Args:
        setup: the prepared run.
        learner: the learners; ``None`` for a trace.
        folder: the run directory, which the caller has locked.
        watch: an observer of the run, which may stop it.
        command: the command that continues the run after a failure of the machine; by default ``netfl resume``.
    """
    scenario, command = setup.scenario, command or f"netfl resume {folder}"
    first, learning = setup.replicas.start, learner is not None
    manifest = Manifest(folder, scenario, learning=learning, first=first, warnings=[*warnings(scenario)])
    session, snapshots, checkpoints = open_session(setup, learner, folder, command)
    observers: list[RunObserver] = [manifest]
    try:
        for path in (*folder.glob("*.part"), *(folder / name for name in FINAL_FILES)):
            path.unlink(missing_ok=True)
        write_text(folder / "scenario.yaml", scenario.to_yaml())
        manifest.write("running")
        trackers = open_trackers(scenario.track, folder, scenario.plain(), session.lanes, command)
        observers = [trackers, manifest]
        writer = RunWriter(folder, scenario, setup.replicas, session.lanes)
        observers = [snapshots, writer, trackers, manifest, checkpoints, watch]
        start = RunStart(
            folder, scenario.name, scenario.steps, scenario.duration, session.lanes, session.checkpoint_round
        )
        for observer in observers:
            observer.on_start(start)
        writer.write_replicas("users", [setup.users(replica) for replica in setup.replicas])
        writer.write_replicas("nodes", [setup.nodes(replica) for replica in setup.replicas])
        is_done = run_rounds(setup.with_recorders(writer.recorders), session, observers)
        for name, table in (decision_regions(learner, setup.dataset) if is_done else {}).items():
            writer.write_table(name, table)
        for observer in observers:
            observer.on_end("done" if is_done else "interrupted")
    except BaseException as error:
        failure = _end_failed(observers, error)
        if isinstance(failure, OSError):
            problem = f"cannot go on writing {folder}: {failure.strerror or failure}; when that is mended, go on with"
            raise MachineError(f"{problem}: {command}") from failure
        raise
    return open_run(folder)


def _end_failed(observers: Sequence[RunObserver], error: BaseException) -> BaseException:
    """End all observers of a failed run, and return the error that counts: one of the disk, if that fails now."""
    for observer in observers:
        try:
            with suppress(MachineError):  # the first error counts
                observer.on_end("failed", error)
        except OSError as failure:
            error = failure
    return error


def _unfinished_run(folder: str | Path) -> Run:
    """Return the run in *folder*, if it can continue.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: its manifest is damaged.
    """
    stopped = open_run(folder)
    if not {"status", "learning"} <= stopped.manifest.keys():
        raise MachineError(f"{stopped.folder / 'manifest.json'} is damaged: it does not say how the run stands")
    if stopped.manifest["status"] == "done":
        raise ScenarioError([Fault("", f"the run in {folder} is finished", None, "there is nothing to resume")])
    return stopped


def _folder(scenario: Scenario, out: str | Path | None) -> Path:
    """Return the run directory: *out*, or the next free one below ``runs``."""
    if out is not None:
        return local_path(out, "--out")
    number = 1
    while (folder := Path("runs") / f"{scenario.name}-{number:03d}").exists():
        number += 1
    return folder
