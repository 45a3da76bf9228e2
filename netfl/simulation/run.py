"""Runs: a scenario staged and played into a run directory, which is whole at the end, or can go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netfl.errors import Fault, MachineError, NetflError, ScenarioError
from netfl.learning.workers.ray_cluster import Cluster
from netfl.network.files import local_path
from netfl.results.locking import locked
from netfl.results.manifest import Manifest, summarise
from netfl.results.run_reader import Run, open_run
from netfl.results.run_writer import RunWriter, create_run_directory, write_json, write_text
from netfl.results.statistics import RoundStatistics, cost_to_target, learning_summary
from netfl.results.tracking.tracker import MetricTracker, open_trackers
from netfl.scenario.scenario import Scenario, load
from netfl.simulation.learners import open_learner, open_session
from netfl.simulation.learning_session import LearnerProtocol, LearningSession
from netfl.simulation.loop import run_rounds
from netfl.simulation.observers import NullObserver, RunObserver
from netfl.simulation.setup import RunSetup, prepare_run, warnings

AT_THE_END = ("summary.json", "figures.parquet", "spent.parquet", "report.html", "overview.png")
"""What is made of a run that has ended, and is out of date once it goes on."""


def run(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    workers: int = 1,
    cluster: Cluster | None = None,
    watch: RunObserver | None = None,
) -> Run:
    """Run *scenario*: network and learners.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        device: ``auto``, ``cpu`` or ``cuda``.
        workers: processes that share out the learners and replicas among them; with 1 all learn in this one.
        cluster: where the workers are, in place of this machine.
        watch: who looks on.

    Raises:
        ScenarioError: the scenario or the folder cannot be used.
        ModelError: a model failed; the run directory holds what was done before.
        MachineError: the machine would not.
    """
    watch = watch or NullObserver()
    with create_run_directory(_folder(scenario, out)) as folder:
        staged = prepare_run(scenario, pulse=watch.within)
        with open_learner(staged, device, workers, cluster, learning=bool(scenario.learners)) as learner:
            return perform_run(staged, learner, folder, watch)


def trace(scenario: Scenario, out: str | Path | None = None, *, watch: RunObserver | None = None) -> Run:
    """Run the access of *scenario* alone: rounds, deliveries and events, no learning and no torch.

    There is no such thing for an access that listens to the learners; a replay of its run listens to nobody.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        watch: who looks on.

    Raises:
        NetflError: as `run`.
    """
    watch = watch or NullObserver()
    with create_run_directory(_folder(scenario, out)) as folder:
        return perform_run(prepare_run(scenario, learning=False, pulse=watch.within), None, folder, watch)


def resume(
    folder: str | Path,
    *,
    device: str = "auto",
    workers: int = 1,
    cluster: Cluster | None = None,
    watch: RunObserver | None = None,
) -> Run:
    """Go on with a run that was stopped or crashed; its tables become those of a run that never stopped.

    The network runs again from its seed, which is cheap, and is held against what the checkpoint saw; learning goes
    on from there, with any number of workers, here or on a cluster.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: the checkpoint is not whole, or the network no longer gives the same rounds.
    """
    found, watch = _unfinished(folder), watch or NullObserver()
    with locked(found.folder):
        found = _unfinished(folder)  # another process may have come and gone
        learning, first = found.manifest["learning"], found.manifest.get("first", 0)
        staged = prepare_run(load(found.folder / "scenario.yaml"), learning=learning, first=first, pulse=watch.within)
        with open_learner(staged, device, workers, cluster, learning=learning) as learner:
            return perform_run(staged, learner, found.folder, watch)


def _unfinished(folder: str | Path) -> Run:
    """The run in *folder*, if it can go on.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: its manifest is damaged.
    """
    found = open_run(folder)
    if not {"status", "learning"} <= found.manifest.keys():
        raise MachineError(f"{found.folder / 'manifest.json'} is damaged: it does not say how the run stands")
    if found.manifest["status"] == "done":
        raise ScenarioError([Fault("", f"the run in {folder} is finished", None, "there is nothing to resume")])
    return found


def perform_run(
    staged: RunSetup, learner: LearnerProtocol | None, folder: Path, watch: RunObserver, again: str = ""
) -> Run:
    """Play all rounds into *folder*; the run as it then is.

    Args:
        staged: what is run.
        learner: who learns; ``None`` for a trace.
        folder: the run directory, which the caller holds.
        watch: who looks on.
        again: the command that goes on with the run after a failure of the machine; by default ``netfl resume``.
    """
    scenario, first = staged.scenario, staged.replicas.start
    told = [*warnings(scenario)]
    manifest = Manifest(folder, scenario, learning=learner is not None, first=first, warnings=told)
    again = again or f"netfl resume {folder}"
    lessons = open_session(staged, learner, folder, again)
    try:
        for old in (*folder.glob("*.part"), *(folder / name for name in AT_THE_END)):
            old.unlink(missing_ok=True)
        write_text(folder / "scenario.yaml", scenario.to_yaml())
        manifest.write("running")
        lessons.begin()
        manifest.rounds_kept = lessons.kept
        with open_trackers(scenario.track, folder, scenario.plain(), lessons.lanes, again) as follower:
            size = len(staged.replicas)
            writer = RunWriter(folder, size, scenario.keeping, lessons.lanes, first, follower.metrics)
            watch.opened(folder, scenario)
            _play(staged, lessons, writer, manifest, watch, follower)
    except NetflError as error:
        manifest.fail(str(error))
        raise
    except OSError as error:
        manifest.fail(f"the machine would not: {error}")
        problem = f"cannot go on writing {folder}: {error.strerror or error}; when that is mended, go on with"
        raise MachineError(f"{problem}: {again}") from error
    except BaseException as error:
        manifest.fail(f"{type(error).__name__}: {error}")
        raise
    return open_run(folder)


def _play(
    staged: RunSetup,
    lessons: LearningSession,
    writer: RunWriter,
    manifest: Manifest,
    watch: RunObserver,
    follower: MetricTracker,
) -> None:
    """Play all rounds, and close the run; what is there of it is kept whatever happens."""
    try:
        tallies = run_rounds(staged, lessons, writer, manifest, watch)
        _close(staged, lessons, writer, manifest, tallies, follower)
    except OSError:
        writer.abandon()
        raise
    except BaseException:
        _keep(lessons, writer, manifest)
        raise


def _close(
    staged: RunSetup,
    lessons: LearningSession,
    writer: RunWriter,
    manifest: Manifest,
    tallies: Sequence[RoundStatistics],
    follower: MetricTracker,
) -> None:
    """Write what stands at the end, and finish or keep the run."""
    if manifest.rounds_done == staged.scenario.steps:
        for name, table in lessons.plane(staged.dataset).items():
            writer.frame(name, table)
        writer.close()
        figures = _figures(staged, lessons, writer, tallies)
        writer.figures(figures)
        writer.places("spent", [recorder.spendings for recorder in writer.recorders])
        summary = summarise(staged.scenario, figures)
        write_json(writer.folder / "summary.json", summary)
        if not staged.replicas.start:  # the summary of an extension is told when its replicas are in
            follower.summary(summary)
        follower.close("done")
        lessons.close()
        manifest.finish()
        lessons.finish()
    else:
        lessons.save(manifest.rounds_done)
        _keep(lessons, writer, manifest)
        follower.close("interrupted")
        manifest.write("interrupted")


def _figures(
    staged: RunSetup, lessons: LearningSession, writer: RunWriter, tallies: Sequence[RoundStatistics]
) -> list[dict[str, float]]:
    """What each replica came to: in its rounds, by what its access tells, and in learning."""
    evaluation, timed = staged.scenario.evaluation, staged.scenario.duration is not None
    learnt = learning_summary(lessons.lanes, lessons.reports, evaluation.choose)
    named = dict(zip(staged.replicas, tallies, strict=True))
    costs = cost_to_target(lessons.lanes, lessons.reports, named, evaluation.targets)
    return [
        (tally.spanned() if timed else tally.figures(recorder.counts))
        | recorder.told
        | learnt.get(replica, {})
        | costs.get(replica, {})
        for replica, tally, recorder in zip(staged.replicas, tallies, writer.recorders, strict=True)
    ]


def _keep(lessons: LearningSession, writer: RunWriter, manifest: Manifest) -> None:
    """Finish the tables of a run that stops early, unless those of an earlier stop reach farther."""
    if manifest.rounds_done < lessons.kept:
        manifest.rounds_done = lessons.kept
        writer.abandon()
    else:
        writer.close()


def _folder(scenario: Scenario, out: str | Path | None) -> Path:
    """The run directory: *out*, or the next free one below ``runs``."""
    if out is not None:
        return local_path(out, "--out")
    number = 1
    while (folder := Path("runs") / f"{scenario.name}-{number:03d}").exists():
        number += 1
    return folder
