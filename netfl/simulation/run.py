"""Runs of a scenario into a run directory, and the main loop: start reading here.

`run`, `trace` and `resume` prepare the scenario (`netfl.simulation.setup`), build its learners
(`netfl.simulation.learners`), and call `perform_run`, which opens the observers and starts the main loop, `run_rounds`.
In each round the loop takes a round from the access of each replica, such as `netfl.access.network`, and passes the
rounds to `netfl.simulation.learning_session`: continue reading in these two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netfl.access import OpenAccess
from netfl.core.remedies import call, function
from netfl.errors import Fault, MachineError, NetflError, ScenarioError, describe_os_error, model_errors
from netfl.files import is_present, local_path
from netfl.learning.devices import check_device
from netfl.results.atomic_write import write_text
from netfl.results.locking import locked
from netfl.results.manifest import Manifest
from netfl.results.reported_means import ReportedMeans
from netfl.results.run_reader import EXTENSION, MERGED, Run, open_run
from netfl.results.run_writer import RunWriter, create_run_directory
from netfl.results.tracking import open_trackers
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario, load
from netfl.simulation.learners import decision_regions, open_learner, open_session
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.memory import check_disk
from netfl.simulation.progress import python_display
from netfl.simulation.replica_runs import join_replicas, replica_folder
from netfl.simulation.setup import RunSetup, access_errors, give_warnings, locate_faults, prepare_run
from netfl.simulation.setup import warnings as scenario_warnings
from netfl.simulation.tuning import TunedRun, tune_learners
from netfl.simulation.workers.ray_cluster import Cluster
from netfl.types import Event, LearnerReport, Recorder, RoundBatch, RunObserver, RunProgress, RunStart

if TYPE_CHECKING:
    from netfl.simulation.learning_session import Learner

FINAL_FILES = ("summary.json", "final_metrics.parquet", "energy.parquet", "report.html", "overview.png")
"""Files made from a finished run, which are out of date once it continues."""


def run(
    scenario: ScenarioSource,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    workers: int | Cluster = 1,
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Run *scenario*: its network and its learners.

    Args:
        scenario: a scenario, or any other input of `netfl.load`, such as a YAML file or a mapping.
        out: the run directory; by default the next free one below ``runs``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: number of processes of this machine that share the learners and replicas, with 1 this process alone;
            or a cluster, on which they run.
        observer: an observer of the run, which may stop it.
        progress: show the progress on a terminal or in a notebook; an observer replaces it.

    Each of the `Run.warnings` is given once as a `netfl.NetflWarning`, whatever *progress* is.

    Raises:
        ScenarioError: the scenario or the folder cannot be used.
        ModelError: a model failed; the run directory holds the rounds before.
        MachineError: the machine failed.
    """
    scenario = as_scenario(scenario)
    check_device(device)
    warnings = give_warnings(scenario)
    folder = next_run_folder(scenario, out)
    with (
        note_continuation(folder),
        create_run_directory(folder),
        python_display(observer, progress=progress) as display,
    ):
        check_disk(scenario, folder)
        return perform_scenario(scenario, folder, display, device=device, workers=workers, warnings=warnings)


def trace(
    scenario: ScenarioSource,
    out: str | Path | None = None,
    *,
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Run the access of *scenario* alone: rounds, deliveries and events, without learning and without torch.

    An access that needs the reports of learners cannot be traced; a replay of its run can.  Arguments and exceptions
    are those of `run`.
    """
    scenario = as_scenario(scenario)
    warnings = give_warnings(scenario)
    folder = next_run_folder(scenario, out)
    with (
        note_continuation(folder),
        create_run_directory(folder),
        python_display(observer, progress=progress) as display,
    ):
        check_disk(scenario, folder)
        setup = prepare_run(scenario, learning=False, pulse=display.on_progress)
        return perform_run(setup, None, folder, display, warnings=warnings)


def resume(
    folder: str | Path,
    *,
    device: str = "auto",
    workers: int | Cluster = 1,
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Continue a run that was stopped or crashed; its tables become those of a run that was never stopped.

    The network is simulated again from its seed, which is cheap, and its rounds are compared with those that the
    checkpoint was written after.  Learning continues from there, with any number of workers.  Other arguments are those
    of `run`.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: the checkpoint is damaged, or the network no longer gives the same rounds.
    """
    check_device(device)
    stopped = open_run(folder)
    with (
        note_continuation(stopped.folder),
        locked(stopped.folder),
        python_display(observer, progress=progress) as display,
    ):
        if stopped.manifest.get("status") == "done":
            raise ScenarioError(
                [Fault("", f"the run in {folder} is finished", None, f"use {function('extend')} to add replicas")]
            )
        check_repeatable(stopped, "continued")
        scenario = load(stopped.folder / "scenario.yaml")
        learning = bool(stopped.fact("learning"))
        replicas = range(stopped.manifest.get("first", 0), scenario.replicas)
        return perform_scenario(
            scenario,
            stopped.folder,
            display,
            device=device,
            workers=workers,
            learning=learning,
            replicas=replicas,
            warnings=stopped.warnings,
        )


def perform_scenario(
    scenario: Scenario,
    folder: Path,
    observer: RunObserver,
    *,
    device: str = "auto",
    workers: int | Cluster = 1,
    learning: bool = True,
    replicas: range | None = None,
    command: str = "",
    warnings: Sequence[str] | None = None,
) -> Run:
    """Tune the learners of *scenario* if it states that, and run all rounds into *folder*, from its start or on.

    Args:
        scenario: the scenario.
        folder: the run directory, which the caller has locked.
        observer: an observer of the run, which may stop it.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: number of processes, or a cluster.
        learning: whether learners run, if there are any.
        replicas: the replicas to run; by default all.
        command: the command that continues the run; by default ``netfl resume``.
        warnings: the warnings about the scenario; by default they are determined.
    """
    if not command:
        command = call("resume", folder)
    if warnings is None:
        warnings = [*scenario_warnings(scenario)]
    performer = RunPerformer(observer, device, workers, command, warnings)
    tuned = TunedRun(scenario, scenario)
    if learning and scenario.tuning is not None:
        if scenario.tuning.per == "replica":
            numbers = range(scenario.replicas) if replicas is None else replicas
            return perform_replicas(scenario, folder, numbers, performer)
        with _recorded_start(scenario, folder, command, warnings):
            found = tune_learners(scenario, folder, performer.run_pass)
        if found is None:
            return _end_interrupted(scenario, folder, command, warnings)
        tuned = found
    return performer.run(tuned, folder, replicas, learning=learning)


@dataclass(frozen=True)
class RunPerformer:
    """Performer of the runs of a scenario: the passes of its tuning, and the run itself, or that of each replica.

    Args:
        observer: an observer of the run, which may stop it.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: number of processes, or a cluster.
        command: the command that continues the run.
        warnings: warnings about the scenario.
    """

    observer: RunObserver
    device: str
    workers: int | Cluster
    command: str
    warnings: Sequence[str]

    def run_pass(self, candidates: Scenario, place: Path) -> Run:
        """Perform a pass of the tuning in *place*, or continue it there, unless it is done."""
        has_begun = is_present(place / "manifest.json")
        if has_begun and open_run(place).status == "done":
            return open_run(place)
        with ExitStack() as resources:
            resources.enter_context(locked(place) if has_begun else create_run_directory(place))
            return perform_scenario(
                candidates,
                place,
                self.observer.pass_observer(),
                device=self.device,
                workers=self.workers,
                command=self.command,
                warnings=self.warnings,
            )

    def run(self, tuned: TunedRun, place: Path, replicas: range | None, *, learning: bool) -> Run:
        """Run *replicas* of a scenario into *place*, which the caller has locked."""
        scenario = tuned.scenario
        setup = prepare_run(scenario, learning=learning, replicas=replicas, pulse=self.observer.on_progress)
        has_learners = learning and bool(scenario.learners)
        with open_learner(setup, self.device, self.workers, learning=has_learners) as learner:
            return perform_run(setup, learner, place, self.observer, self.command, tuned, self.warnings)


def perform_replicas(
    scenario: Scenario, folder: Path, replicas: range, performer: RunPerformer, home: Path | None = None
) -> Run:
    """Tune and run each of *replicas* by itself, and join them in *folder*.

    Args:
        scenario: the scenario, whose tuning is per replica.
        folder: the run directory, which the caller has locked.
        replicas: the replicas.
        performer: performs the passes and the runs.
        home: the directory of the run that *folder* extends; by default *folder*.
    """
    if home is None:
        home = folder
    parts = [replica_folder(home, replica) for replica in replicas]
    with _recorded_start(scenario, folder, performer.command, performer.warnings, replicas.start):
        for replica, part in zip(replicas, parts, strict=True):
            has_begun = is_present(part / "manifest.json")
            if has_begun and open_run(part).status == "done":
                continue
            tuned = tune_learners(scenario, home, performer.run_pass, replica)
            if tuned is None:
                return _end_interrupted(scenario, folder, performer.command, performer.warnings)
            with ExitStack() as resources:
                resources.enter_context(locked(part) if has_begun else create_run_directory(part))
                run = performer.run(tuned, part, range(replica, replica + 1), learning=True)
            if run.status != "done":
                return _end_interrupted(scenario, folder, performer.command, performer.warnings)
        return join_replicas(scenario, folder, parts)


@contextmanager
def _recorded_start(
    scenario: Scenario, folder: Path, command: str, warnings: Sequence[str], first: int = 0
) -> Iterator[None]:
    """Write the scenario and the manifest of a run before its tuning; an error inside ends it as failed."""
    manifest = Manifest(folder, scenario, learning=True, first=first, warnings=warnings)
    try:
        write_text(folder / "scenario.yaml", scenario.to_yaml())
        manifest.write("running")
    except OSError as error:
        remedy = _remedy(folder, command, has_begun=False)
        raise MachineError(f"{_describe_failure(error, folder)}; {remedy}") from error
    try:
        yield
    except BaseException as error:
        manifest.on_end("failed", error)
        raise


def _end_interrupted(scenario: Scenario, folder: Path, command: str, warnings: Sequence[str]) -> Run:
    """Write that the run in *folder* was stopped in its tuning, and return it."""
    first = int(open_run(folder).manifest.get("first", 0))
    try:
        Manifest(folder, scenario, learning=True, first=first, warnings=warnings).on_end("interrupted")
    except OSError as error:
        remedy = _remedy(folder, command, has_begun=True)
        raise MachineError(f"{_describe_failure(error, folder)}; {remedy}") from error
    return open_run(folder)


def check_repeatable(run: Run, action: str) -> None:
    """Refuse to continue a run that a Flower app drives, as netfl does not have the state of the app.

    Raises:
        ScenarioError: it is such a run; *action* is what was asked for.
    """
    app = run.manifest.get("flower")
    if app is not None:
        problem = f"the run in {run.folder} is one of a Flower app, which cannot be {action}"
        remedy = f"start it again with: {call('flower run', 'SCENARIO', app=app['app'])}"
        raise ScenarioError([Fault("", problem, None, remedy)])


def perform_run(
    setup: RunSetup,
    learner: Learner | None,
    folder: Path,
    observer: RunObserver,
    command: str = "",
    tuned: TunedRun | None = None,
    warnings: Sequence[str] = (),
) -> Run:
    """Run all rounds into *folder*, and return the run.

    Args:
        setup: the prepared run.
        learner: the learners; ``None`` for a trace.
        folder: the run directory, which the caller has locked.
        observer: an observer of the run, which may stop it.
        command: the command that continues the run after a failure of the machine; by default ``netfl resume``.
        tuned: the tuning before the run, from which its scenario came; ``None`` without tuning.
        warnings: the warnings about the scenario, for the manifest.
    """
    scenario = setup.scenario
    if not command:
        command = call("resume", folder)
    if tuned is None:
        tuned = TunedRun(scenario, scenario)
    session, snapshots = open_session(setup, learner, folder, command)
    training = gpu = ""
    if learner is not None:
        gpu = learner.gpu
        training = _describe_training(learner, folder, session.checkpoint_round)
    manifest = Manifest(
        folder,
        scenario,
        learning=learner is not None,
        first=setup.replicas.start,
        warnings=warnings,
        training=training,
        gpu=gpu,
        facts=_learning_facts(setup, tuned) if learner is not None else None,
        before_s=tuned.seconds,
    )
    start = RunStart(
        folder=folder,
        name=scenario.name,
        rounds=scenario.planned_rounds,
        duration_s=scenario.traffic_s,
        stop_s=scenario.stop_s,
        lanes=session.lanes,
        checkpoint_round=session.checkpoint_round,
        training=training,
    )
    before: list[RunObserver] = []
    if snapshots is not None:  # its files are complete before the manifest states that the run is done
        before.append(snapshots)
    with (
        note_continuation(folder, command, session),
        recording(setup, manifest, start, before, [session, observer], command, tuned.stated) as record,
    ):
        if tuned.candidates is not None:
            record.writer.write_table("candidates", tuned.candidates)
        is_done = run_rounds(setup.with_recorders(record.writer.recorders), session, record.observers)
        if not is_done:
            record.end("interrupted")
        else:
            for name, table in decision_regions(learner, setup.dataset).items():
                record.writer.write_table(name, table)
            record.end("done")
        return open_run(folder)


def _learning_facts(setup: RunSetup, tuned: TunedRun) -> dict[str, object]:
    """Return the entries of the manifest on the learners: their effective steps, and how they were tuned.

    A run on validation examples states their number.
    """
    facts: dict[str, object] = {"steps": dict(setup.scenario.effective_steps)}
    if setup.scenario.evaluation.on == "validation":
        facts["validation_examples"] = setup.validation_counts
    if tuned.facts:
        facts["tuning"] = dict(tuned.facts)
    return facts


@contextmanager
def note_continuation(folder: Path, command: str = "", session: LearningSession | None = None) -> Iterator[None]:
    """Add the newest checkpoint and the command that continues the run to an interruption, once the run exists.

    Args:
        folder: the run directory.
        command: the command; by default ``netfl resume``.
        session: the learners, which have the checkpoints; ``None`` where they are not known.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if _is_unfinished(folder) and not getattr(error, "__notes__", ()):  # those of a context within
            if session is not None and session.learner is not None:
                newest = session.newest_checkpoint
                error.add_note(
                    f"the newest checkpoint is of round {newest}" if newest else "there is no checkpoint yet"
                )
            error.add_note(f"continue with: {command or call('resume', folder)}")
        raise


def _is_unfinished(folder: Path) -> bool:
    """Return whether *folder* holds a run that can be continued: it or its extension has something left to do."""
    if not is_present(folder / "manifest.json"):
        return False
    run = open_run(folder)
    if "flower" in run.manifest:
        return False
    return run.status != "done" or is_present(folder / EXTENSION) or is_present(folder / MERGED)


def _describe_training(learner: Learner, folder: Path, checkpoint_round: int | None) -> str:
    """Return how models are trained; a run that continues keeps the number of threads, and so the description."""
    method = learner.training_method
    if not method or checkpoint_round is None:  # the usual way, or a run that starts
        return method
    return str(open_run(folder).manifest.get("training") or method)


@dataclass(frozen=True)
class RunRecord:
    """The record of a run that is in progress: its writer, and all observers.

    Args:
        writer: the writer of the tables.
        observers: all observers, in the order in which they observe each round.
    """

    writer: RunWriter
    observers: Sequence[RunObserver]

    def end(self, status: str) -> None:
        """End all observers: the run is ``done`` or ``interrupted``."""
        for each in self.observers:
            each.on_end(status)


@contextmanager
def recording(
    setup: RunSetup,
    manifest: Manifest,
    start: RunStart,
    before: Sequence[RunObserver],
    after: Sequence[RunObserver],
    command: str,
    stated: Scenario | None = None,
) -> Iterator[RunRecord]:
    """Open the record of a run; an error inside ends it as failed.

    Args:
        setup: the prepared run.
        manifest: the manifest of the run.
        start: the facts about the run; the caller has locked its folder.
        before: observers that come before the writer of the tables.
        after: observers that come after the manifest.
        command: the command that continues the run after a failure of the machine.
        stated: the scenario that the folder keeps; by default that of *setup*.

    Raises:
        MachineError: the folder cannot be written.
    """
    scenario = setup.scenario
    if stated is None:
        stated = scenario
    folder = start.folder
    observers: list[RunObserver] = []  # none, until the folder is that of a run
    try:
        outdated = [*folder.glob("*.part"), *(folder / name for name in FINAL_FILES)]
        for path in outdated:
            path.unlink(missing_ok=True)
        write_text(folder / "scenario.yaml", stated.to_yaml())
        manifest.write("running")
        observers = [manifest]
        tracked = scenario.track
        if not start.lanes:  # a trace has no metrics to track
            tracked = ()
        trackers = open_trackers(tracked, folder, scenario.plain(), start.lanes, command)
        observers = [trackers, manifest]
        writer = RunWriter(folder, scenario, setup.replicas, start.lanes)
        observers = [*before, writer, trackers, manifest, *after]
        for each in observers:
            each.on_start(start)
        writer.write_replicas("users", [setup.users(replica) for replica in setup.replicas])
        writer.write_replicas("nodes", [setup.nodes(replica) for replica in setup.replicas])
        yield RunRecord(writer, observers)
    except BaseException as error:
        failure = _end_failed(observers, error)
        if isinstance(failure, OSError):
            remedy = _remedy(folder, command, has_begun=bool(observers))
            raise MachineError(f"{_describe_failure(failure, folder)}; {remedy}") from failure
        raise


def _describe_failure(error: OSError, folder: Path) -> str:
    """Return an error of the system in words: it concerns the run in *folder*, or a file that a model reads."""
    file = error.filename
    if isinstance(file, str | os.PathLike) and folder.absolute() not in Path(file).absolute().parents:
        return f"cannot use {describe_os_error(error, folder)}"
    return f"cannot write {folder}: {error.strerror or error}"


def _remedy(folder: Path, command: str, *, has_begun: bool) -> str:
    """Return how to continue the run in *folder* after an error of the system, by the state that it has on the disk.

    Args:
        folder: the run directory.
        command: the command that continues the run.
        has_begun: whether this process has written the manifest, for a folder that is out of reach now.
    """
    again = "fix this, then repeat the command"
    continued = f"fix this, then continue with: {command}"
    if command != call("resume", folder):  # the extension of a run, or a pass of its tuning: the run exists
        return continued
    try:
        if not is_present(folder / "manifest.json"):
            return again
        is_done = Run(folder).manifest.get("status") == "done"
    except NetflError:
        return continued if has_begun else again
    return f"the run is done; check it with: {call('verify', folder)}" if is_done else continued


def run_rounds(
    setup: RunSetup,
    session: LearningSession,
    observers: Sequence[RunObserver],
    on_open: Callable[[OpenAccess], None] | None = None,
) -> bool:
    """Run all rounds of all replicas, or until an observer stops the run.

    In each round the access of each replica delivers updates to its server, and the learners compute the next version
    of every lane as one batch.  The access receives their report with the broadcast of that version.  A replica whose
    time is over has no further rounds; its lanes keep their models until the others have ended, too.

    Args:
        setup: the prepared run, with the recorders of its replicas.
        session: the learners; without them rounds may be simulated in batches.
        observers: called in their order after each round.
        on_open: called with the access of each replica before the first round.

    Returns:
        Whether all rounds are over.
    """
    scenario = setup.scenario
    outages = OutageTracker(setup.contexts[0].recorder)
    setup = setup.with_recorders([outages, *(context.recorder for context in setup.contexts[1:])])
    setup, reporters = _with_reporters(setup)
    if session.learner is None and scenario.planned_rounds is not None:
        batches = _open_batches(setup)
        if batches:
            return _run_batches(scenario, batches, observers)
    accesses = [setup.open_access(replica) for replica in setup.replicas]
    if on_open is not None:
        for access in accesses:
            on_open(access)
    report = session.start()
    evaluation = report  # the last report with metrics
    _announce(report, [0.0] * len(accesses), observers)
    for index in range(1, scenario.steps + 1):
        if any(observer.stop for observer in observers):
            for access in accesses:
                access.close()
            return False
        with locate_faults(scenario, "access"):
            rounds = [access.next_round(report.to(number)) for number, access in enumerate(accesses)]
        if all(each is None for each in rounds):
            if index == 1:
                fault = Fault("duration", "no round closes by then", scenario.duration, "make it longer")
                raise ScenarioError(scenario.located([fault]))
            break
        with model_errors("learning", max(access.time_s for access in accesses)):
            report = session.step(rounds)
        report = _with_reported(report, reporters, is_trace=session.learner is None)
        if report.metrics:
            evaluation = report
        progress = RunProgress(
            round=index,
            rounds=scenario.planned_rounds,
            time_s=accesses[0].time_s,
            delivered=() if rounds[0] is None else tuple(delivery.user for delivery in rounds[0].all_deliveries()),
            down=outages.down,
            metrics=evaluation.metrics,
            lanes=session.lanes,
            results=rounds,
            diverged=session.diverged,
            stop_s=scenario.stop_s,
        )
        for observer in observers:
            observer.on_round(progress)
        _announce(report, [access.time_s for access in accesses], observers)
    with locate_faults(scenario, "access"):
        for number, access in enumerate(accesses):
            access.finish(report.to(number))
    return True


def _open_batches(setup: RunSetup) -> list[Iterator[RoundBatch]]:
    """Return the batches of rounds of each replica; none where the access gives only single rounds."""
    batches = [setup.scenario.access.round_batches(context) for context in setup.contexts]
    return [batch for batch in batches if batch is not None]


def _run_batches(
    scenario: Scenario, replicas: Sequence[Iterator[RoundBatch]], observers: Sequence[RunObserver]
) -> bool:
    """Run rounds that no learner uses in batches of arrays."""
    index = 0
    batches = zip(*replicas, strict=True)
    while index < scenario.steps and not any(observer.stop for observer in observers):
        with access_errors(scenario, 0.0):
            results = next(batches)
        first = results[0]
        index = int(first.index[-1])
        last_delivered = first.user[len(first.user) - first.delivered[-1] :]
        progress = RunProgress(
            round=index,
            rounds=scenario.planned_rounds,
            time_s=float(first.closed_s[-1]),
            delivered=tuple(last_delivered.tolist()),
            results=results,
            stop_s=scenario.stop_s,
        )
        for observer in observers:
            observer.on_round(progress)
    return index == scenario.steps


def _announce(report: LearnerReport, closed_s: Sequence[float], observers: Sequence[RunObserver]) -> None:
    """Pass an evaluation on to the observers, or what the access reports in a round of a trace."""
    if report.metrics or report.of_access:
        for observer in observers:
            observer.on_metrics(report, closed_s)


def _with_reporters(setup: RunSetup) -> tuple[RunSetup, Sequence[ReportRecorder]]:
    """Return *setup* with recorders that keep what accesses report, and these; none if they report nothing."""
    if not setup.scenario.access.reporting_parts:
        return setup, ()
    reporters = [ReportRecorder(context.recorder) for context in setup.contexts]
    return setup.with_recorders(reporters), reporters


def _with_reported(report: LearnerReport, reporters: Sequence[ReportRecorder], *, is_trace: bool) -> LearnerReport:
    """Return *report*, with what the access of each replica has reported since the last evaluation, if it is one.

    A trace has no evaluations; there each round counts as one.
    """
    if not reporters or not (report.metrics or is_trace):
        return report
    of_replicas = [reporter.means.take() for reporter in reporters]
    names = dict.fromkeys(name for means in of_replicas for name in means)
    of_access = {name: np.array([means.get(name, np.nan) for means in of_replicas]) for name in names}
    return replace(report, of_access=of_access)


class ReportRecorder:
    """Recorder that passes all on, and keeps the means of what the selection and the allocation report.

    Args:
        recorder: receiver of the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.wants = recorder.wants
        self.record = recorder.record
        self.final_metrics = recorder.final_metrics
        self.add_rows = recorder.add_rows
        self.means = ReportedMeans()

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Pass on the values of a decision, and add them to the means."""
        self._recorder.round_metrics(round, values)
        self.means.add(values)


class OutageTracker:
    """Recorder that passes all events on, and keeps track of nodes and users that are down.

    Args:
        recorder: receiver of the events; outages that it does not want are not tracked.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.wants = recorder.wants
        self.final_metrics = recorder.final_metrics
        self.round_metrics = recorder.round_metrics
        self.add_rows = recorder.add_rows
        self._states: dict[int | str, tuple[float, bool]] = {}

    @property
    def down(self) -> tuple[int | str, ...]:
        """Nodes that are down, such as ``tower:0``, then the numbers of users that are down."""
        names = [name for name, (_, is_down) in self._states.items() if is_down]
        nodes = sorted(name for name in names if isinstance(name, str))
        users = sorted(name for name in names if isinstance(name, int))
        return *nodes, *users

    def record(self, event: Event) -> None:
        """Pass on one event or many; those of a round may come in any order of time."""
        self._recorder.record(event)
        if event.kind not in {"down", "up"}:
            return
        times_s, users = np.broadcast_arrays(np.asarray(event.time_s, float), np.asarray(event.user))
        for at_s, number in zip(times_s.ravel().tolist(), users.ravel().tolist(), strict=True):
            name = event.node or number
            newest_s, _ = self._states.get(name, (at_s, False))
            if at_s >= newest_s:
                self._states[name] = (at_s, event.kind == "down")


def _end_failed(observers: Sequence[RunObserver], error: BaseException) -> BaseException:
    """End all observers of a failed run, and return the error that counts: one of the disk, if that fails now."""
    for each in observers:
        try:
            with suppress(MachineError):  # the first error counts
                each.on_end("failed", error)
        except OSError as failure:
            error = failure
    return error


def next_run_folder(scenario: Scenario, out: str | Path | None) -> Path:
    """Return the run directory: *out*, or the next free one below ``runs``."""
    if out is not None:
        return local_path(out, "out")
    folders = (Path("runs") / f"{scenario.name}-{number:03d}" for number in count(1))
    return next(folder for folder in folders if not is_present(folder))
