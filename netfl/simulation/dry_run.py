"""A dry run: run the first rounds of a scenario, to find errors that only show then, and to measure the processor time.

The time is extrapolated linearly to all rounds, replicas, local steps and test examples, and so are the sizes of the
files; see docs/running.md.
"""

from __future__ import annotations

import gc
import math
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

from netfl.access import OpenAccess
from netfl.access._open_network import OpenNetwork
from netfl.core.remedies import call
from netfl.errors import Fault, ModelError, NetflError, ScenarioError, model_errors
from netfl.learning.evaluation_sets import thin_tests
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import MAX_WIDENINGS, TuningSpec
from netfl.network.radio.collision_repeats import RepeatedCollisions
from netfl.network.simulator import NetworkSimulator
from netfl.results.digests import run_digests
from netfl.results.formatting import clock, counted, format_disk, format_progress, user_names
from netfl.results.run_writer import FLUSH_EVERY_S, RunWriter
from netfl.results.tables import STREAM_BYTES
from netfl.scenario.scenario import Scenario
from netfl.simulation import memory
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.learners import open_learner
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.run import run_rounds
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.simulation.tuning import lowest_pass, smallest_steps
from netfl.types import (
    SMALLER_STEP,
    Divergence,
    LearnerReport,
    Round,
    RoundBatch,
    RoundProgress,
    RunObserver,
    RunProgress,
    Users,
)

if TYPE_CHECKING:
    from netfl.simulation.learning_session import Learner

LIMIT_S = 10.0
"""Processor time after which the set-up of the network or an open round is cut."""
_AGAIN_S = 1.0
"""Processor time after the limit at which a dry run is cut that went on."""
_SOON_S = 0.001
"""Processor time after which the timer expires again if the interrupted function must not raise."""
SAMPLE_S = 1.0
"""Processor time of rounds, learning included, that is enough to extrapolate from."""
_MAX_ROUNDS = 1000
"""Rounds that are enough, even if they take less time."""
_MAX_BATCHES = 10
"""Batches of rounds that are enough."""
_MAX_REPLICAS = 8
"""Replicas that are enough, unless they are short."""
_MAX_USERS = 10_000
"""Users of all replicas together that are enough for short replicas."""
_MAX_TESTED = 500
"""Test examples that are enough."""
_MAX_RANKED = 100
"""Rounds that are enough to rank the users by their deliveries, where the partition asks for that."""
_MIN_STEPS = 2
"""Local steps of the first measurement; a single step may be computed in another way."""
_REPEATED = 5
"""Smallest number of rounds that are repeated with more local steps."""
_RESOLUTION_S = 0.01
"""Resolution of the clock of processor time on systems that count ticks: shorter times may be measured as 0."""
ENDLESS_S = 365.25 * 86400.0
"""Processor time from which a run is refused."""
_RANGE = 2.0
"""Factor by which an extrapolated time may be wrong (docs/running.md)."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """Result of a dry run.

    Args:
        seconds: processor time of the whole run, extrapolated; a lower bound if a round was cut.
        memory: estimated bytes of memory.
        disk: estimated bytes of the files at the end of the run, when rows are in tables and in streams.
        rounds: number of complete rounds of each replica.
        expected: number of rounds of the whole run, extrapolated if only its duration is known; 0 if a round was cut.
        cut: progress of the round that was cut, which is round 0 in the set-up; ``None`` without one.
        delivers: whether any update was delivered, or the network carries traffic alone.
        in_vain: trainings in vain for each delivery, where learners compute them; else 0.
        training: a sentence about how models are trained; empty for the usual way.
        tuning: a sentence about what the tuning costs, which is part of the time; empty without tuning.
        synchronised: towers whose users stay synchronised, and how often these collide again.
        left_out: users that the allocation left out of each round of each replica.
        never_first: users that a fixed order of the MAC lets deliver no update in any replica.
        diverged: the step sizes of learners whose training diverged, in any replica.
    """

    seconds: float
    memory: float = 0.0
    disk: float = 0.0
    rounds: int = 0
    expected: float = 0.0
    cut: RoundProgress | None = None
    delivers: bool = True
    in_vain: float = 0.0
    training: str = ""
    tuning: str = ""
    synchronised: Mapping[str, RepeatedCollisions] = field(default_factory=dict)
    left_out: Sequence[int] = ()
    never_first: Sequence[int] = ()
    diverged: Sequence[Fault] = ()

    def __str__(self) -> str:
        if self.cut is not None:
            estimate = f"at least {clock(self.seconds)} of processor time"
        else:
            spent = "under 1 s"
            if self.seconds >= 1.0:
                spent = clock(self.seconds)
            bounds = f"{clock(self.seconds / _RANGE)} to {clock(self.seconds * _RANGE)}"
            rounds = counted(self.rounds, "round")
            estimate = f"{spent} of processor time ({bounds}, extrapolated from {rounds})"
        needed = f"{memory.format_memory(self.memory)} of memory"
        if self.cut is None:
            needed += f", {format_disk(self.disk)} of disk"
        return f"{estimate} after the start of Python, {needed}"

    @property
    def is_set_up(self) -> bool:
        """True if the network was set up within the limit of time."""
        return self.cut is None or self.cut.round > 0

    def shortages(self) -> Iterator[tuple[float, str]]:
        """Yield what the machine lacks: the share of the need that is available, and the problem in words."""
        free = memory.available()
        if free is not None and self.memory > free:
            problem = (
                f"about {memory.format_memory(self.memory)} of memory, but {memory.format_memory(free)} are available"
            )
            yield free / self.memory, problem
        free = shutil.disk_usage(Path.cwd()).free
        if self.disk > free:
            problem = f"about {format_disk(self.disk)} of disk, but {format_disk(free)} are available in this folder"
            yield free / self.disk, problem

    def warnings(self) -> Iterator[str]:
        """Yield warnings about a long round, missing memory, silence, synchronised users, and lost learners."""
        if self.cut is not None and self.is_set_up:
            state = format_progress(self.cut)
            yield f"long: round {self.cut.round} did not end within {LIMIT_S:g} s; its state: {state}"
        elif self.cut is not None:
            yield f"long: the network was not set up within {LIMIT_S:g} s"
        for _, problem in self.shortages():
            yield f"large: the run needs {problem}"
        if self.rounds and not self.delivers:
            yield (
                f"silent: {counted(self.rounds, 'round')} of the dry run delivered no update; after a run, "
                f"{call('ram', 'DIR', explain=True)} names the causes"
            )
        for tower, repeated in self.synchronised.items():
            yield (
                f"synchronised attempts: of the users of {tower} that collide, {repeated.share:.0%} overlap with each "
                f"other again at their next attempts, where chance would give {repeated.chance:.0%}; they may collide "
                "for ever; let the MAC wait for a random time that is long against a frame, or let users begin at "
                "different times (compute.spread, compute.jitter, traffic that is not synchronous)"
            )
        if self.left_out:
            yield (
                f"left out: in the dry run {user_names(self.left_out)} had no share of the band in any round "
                "(access.allocation), and so no updates; set a later deadline or a larger budget of the allocation, "
                "more bandwidth or power, faster processors or smaller updates"
            )
        if self.never_first:
            yield (
                f"fixed order: in the dry run {user_names(self.never_first)} delivered no update, though others that "
                "train no faster did: access.mac serves users in a fixed order, and rounds close before the turn of "
                "some; let rounds wait for all users (access.round: {kind: available}, without a deadline or with a "
                "later one), or take a MAC without a fixed order"
            )
        for fault in self.diverged:
            yield f"diverged: {fault}"


class _CutError(NetflError):
    """The set-up of the network or a round took longer than `LIMIT_S`."""


class _TimeLimit:
    """Limit of the processor time of a network, without learning.

    The time is checked at each report of progress.  A timer also checks it in the main thread of a POSIX system,
    whatever the network does: the set-up of a large topology, or outages up to a distant time, report no progress.
    """

    def __init__(self) -> None:
        self._since_s = time.process_time()
        self._has_timer = hasattr(signal, "setitimer") and current_thread() is main_thread()

    def check(self) -> None:
        """Raise `_CutError` if the time is over."""
        if time.process_time() - self._since_s > LIMIT_S:
            raise _CutError

    @contextmanager
    def running(self) -> Iterator[None]:
        """Limit the time of what happens inside."""
        self._since_s = time.process_time()
        if not self._has_timer:
            yield
            return
        former_handler = signal.signal(signal.SIGPROF, lambda _, frame: self._expire(frame))
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, former_handler)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of what happens inside."""
        paused_s = time.process_time()
        left_s = 0.0
        if self._has_timer:
            left_s, _ = signal.setitimer(signal.ITIMER_PROF, 0.0)
        yield
        self._since_s += time.process_time() - paused_s
        if left_s:
            signal.setitimer(signal.ITIMER_PROF, left_s)

    def _expire(self, frame: FrameType | None) -> None:
        if _drops_errors(frame):
            signal.setitimer(signal.ITIMER_PROF, _SOON_S)
            return
        signal.setitimer(signal.ITIMER_PROF, _AGAIN_S)  # code outside Python may drop the error too
        raise _CutError


def _drops_errors(frame: FrameType | None) -> bool:
    """True in a finalizer, or a callback of weak references or the garbage collector: Python drops their errors."""
    callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
            return True
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


class _Stopwatch(RunObserver):
    """Observer that measures the rounds of the network, and stops the dry run when they are enough.

    Attributes:
        limit: limit of the time of the network.
        last: the last progress of an open round; of round 0 in the set-up.
        rounds: the rounds of all replicas; ``None`` in one that has ended.
        network_s: processor time of each round without learning.
        batches: number of batches of rounds.
        time_s: simulated time of the rounds, in the first replica.
        deliveries: deliveries in all rounds of all replicas.
        max_deliveries: largest number of deliveries in a round of a replica.
        in_vain: trainings in vain before all deliveries.
        learning_s: processor time of each round's learning.
        evaluation_s: processor time of an evaluation.
        started_s: processor time at which the rounds began.
        networks: the simulators of the replicas that simulate a network.
    """

    def __init__(self) -> None:
        self.limit = _TimeLimit()
        self.last = RoundProgress(0, 0.0, 0, 0)
        self.rounds: list[Sequence[Round | None]] = []
        self.network_s: list[float] = []
        self.batches = 0
        self.time_s = 0.0
        self.deliveries = 0
        self.max_deliveries = 0
        self.in_vain = 0
        self.learning_s: list[float] = []
        self.evaluation_s = 0.0
        self.started_s = time.process_time()
        self.networks: list[NetworkSimulator] = []

    @property
    def synchronised(self) -> dict[str, RepeatedCollisions]:
        """Towers whose users stay synchronised in any replica."""
        towers: dict[str, RepeatedCollisions] = {}
        for network in self.networks:
            towers |= network.synchronised_cells()
        return towers

    @property
    def left_out(self) -> list[int]:
        """Users that the allocation left out of each round of each replica."""
        return _in_all(network.always_left_out for network in self.networks)

    @property
    def never_first(self) -> list[int]:
        """Users that a fixed order of the MAC lets deliver no update in any replica."""
        return _in_all(network.never_first for network in self.networks)

    @property
    def elapsed_s(self) -> float:
        return time.process_time() - self.started_s

    def on_progress(self, progress: RoundProgress) -> None:
        self.last = progress
        self.limit.check()

    def on_open(self, access: OpenAccess) -> None:
        """Add the network of a replica, whose first round begins."""
        if isinstance(access, OpenNetwork):
            self.networks.append(access.network)
        self.last = RoundProgress(1, 0.0, 0, 0)

    def on_round(self, progress: RunProgress) -> None:
        self.last = RoundProgress(progress.round + 1, progress.time_s, self.last.attempts, 0)
        elapsed_s = self.elapsed_s
        self.time_s = progress.time_s
        network_s = elapsed_s - sum(self.network_s) - sum(self.learning_s)
        batches = [batch for batch in progress.results if isinstance(batch, RoundBatch)]
        if batches:
            rounds_in_batch = progress.round - len(self.network_s)
            self.network_s += [network_s / rounds_in_batch] * rounds_in_batch
            self.batches += 1
            self.deliveries += sum(int(batch.delivered.sum()) for batch in batches)
            self.max_deliveries = max(self.max_deliveries, *(int(batch.delivered.max()) for batch in batches))
            self.stop = elapsed_s > SAMPLE_S or self.batches >= _MAX_BATCHES
            return
        self.network_s.append(network_s)
        self.rounds.append([each if isinstance(each, Round) else None for each in progress.results])
        rounds = [each for each in progress.results if isinstance(each, Round)]
        self.deliveries += sum(len(each.all_deliveries()) for each in rounds)
        self.in_vain += sum(len(delivery.lost_bases) for each in rounds for delivery in each.deliveries)
        self.max_deliveries = max(self.max_deliveries, *(len(each.all_deliveries()) for each in rounds))
        self.stop = elapsed_s > SAMPLE_S or len(self.rounds) >= _MAX_ROUNDS


class _TimedSession(LearningSession):
    """Learning whose steps and evaluations are measured."""

    def __init__(self, learner: Learner | None, folder: Path, stopwatch: _Stopwatch) -> None:
        super().__init__(learner, CheckpointStore(folder))
        self._stopwatch = stopwatch

    def start(self) -> LearnerReport:
        with model_errors("learning", 0.0), self._stopwatch.limit.paused():
            if self.learner is not None:
                self.learner.start()  # the first evaluation takes longer
            started_s = time.process_time()
            report = super().start()
        self._stopwatch.started_s = time.process_time()
        self._stopwatch.evaluation_s = self._stopwatch.started_s - started_s
        return report

    def step(self, rounds: Sequence[Round | None]) -> LearnerReport:
        if self.learner is None:
            return super().step(rounds)
        started_s = time.process_time()
        with self._stopwatch.limit.paused():
            report = super().step(rounds)
        self._stopwatch.learning_s.append(time.process_time() - started_s)
        return report


def _in_all(users_of_replicas: Iterable[Users]) -> list[int]:
    """Return the users that are in each replica; none without replicas."""
    replicas = [set(users.tolist()) for users in users_of_replicas]
    return sorted(set.intersection(*replicas)) if replicas else []


def run_dry(scenario: Scenario) -> DryRun:
    """Prepare *scenario*, and run its first rounds in every replica.

    Raises:
        NetflError: any error of a run that shows in its first rounds, or the run would not end in a year, or half of
            what it needs does not fit into the memory or on the disk of this machine.
    """
    if scenario.tuning is not None:
        return _run_dry_with_tuning(scenario, scenario.tuning)
    return _run_dry(scenario)


def _run_dry(scenario: Scenario, circumstance: str = "") -> DryRun:
    """Return the result of a dry run of a scenario without tuning; *circumstance* begins problems of step sizes."""
    stopwatch = _Stopwatch()
    try:
        dry_run = _measure(scenario, stopwatch, circumstance)
    except _CutError:
        dry_run = _cut_run(scenario, stopwatch)
    problem = ""
    for share, shortage in dry_run.shortages():
        if share < 1 / _RANGE:
            problem = f"the run would need {shortage}"
    if dry_run.seconds > ENDLESS_S:
        problem = f"the run would take more than a year: {dry_run}"
    if problem:
        remedy = "make it shorter, or use fewer users or replicas"
        if scenario.rounds is None:
            fault = Fault("duration", problem, scenario.duration, remedy)
        else:
            fault = Fault("rounds", problem, scenario.rounds, remedy)
        raise ScenarioError(scenario.located([fault]))
    return dry_run


def _run_dry_with_tuning(scenario: Scenario, tuning: TuningSpec) -> DryRun:
    """Return the result of a dry run of the first pass of tuning and of the run itself, one after the other.

    Both have the smallest step sizes that tuning may try: larger ones may diverge, and lose.
    """
    of_run = _run_dry(
        scenario.model_copy(update={"tuning": None, "learners": smallest_steps(scenario)}),
        "with the smallest lr that the tuning may try, ",
    )
    candidates = lowest_pass(scenario)
    of_pass = run_dry(candidates)
    replicas = counted(tuning.replicas, "validation replica")
    tuned_alone = scenario.replicas if tuning.per == "replica" else 1
    passes_s = tuned_alone * of_pass.seconds
    most_s = (1 + MAX_WIDENINGS) * passes_s
    each = " for each replica of the run" if tuning.per == "replica" else ""
    sentence = (
        f"{len(candidates.learners)} candidates in {replicas}{each} take {clock(passes_s)} of it; where a best one is "
        f"at an edge, a further pass takes as long, at most {clock(most_s)} in all"
    )
    return replace(
        of_run,
        seconds=passes_s + of_run.seconds,
        memory=max(of_pass.memory, of_run.memory),
        disk=tuned_alone * of_pass.disk + of_run.disk,
        cut=of_run.cut or of_pass.cut,
        delivers=of_pass.delivers and of_run.delivers,
        tuning=sentence,
    )


def _cut_run(scenario: Scenario, stopwatch: _Stopwatch) -> DryRun:
    """Return the result of a dry run whose last round was cut: the whole run takes at least 1 / share times as long."""
    last = stopwatch.last
    share = 0.0
    if scenario.has_rounds:
        share = last.round / scenario.steps
    if scenario.duration is not None:
        share = max(share, min(1.0, last.time_s / scenario.duration))
    seconds = stopwatch.elapsed_s
    if share:  # else nothing is known of the rounds
        seconds /= max(share, 1e-9)
    needed = memory.estimate_memory(scenario)
    return DryRun(
        seconds,
        needed,
        cut=last,
        synchronised=stopwatch.synchronised,
        left_out=stopwatch.left_out,
        never_first=stopwatch.never_first,
    )


def _measure(scenario: Scenario, stopwatch: _Stopwatch, circumstance: str) -> DryRun:
    """Run the first rounds, and extrapolate preparation, network, learning and evaluations to the whole run."""
    # many short replicas show what each of them costs beside its rounds
    short_replicas = min(_MAX_ROUNDS // scenario.steps, _MAX_USERS // scenario.users)
    replicas = min(scenario.replicas, max(_MAX_REPLICAS, short_replicas))
    limit = stopwatch.limit
    ranking_s = 0.0

    @contextmanager
    def ranking() -> Iterator[None]:
        nonlocal ranking_s
        started_s = time.process_time()
        with limit.running():
            yield
        ranking_s = time.process_time() - started_s

    setup = prepare_run(
        scenario,
        replicas=range(replicas),
        pulse=stopwatch.on_progress,
        limit=ranking,
        most_ranked=_MAX_RANKED,
    )
    seconds = stopwatch.elapsed_s
    if scenario.partition is not None and scenario.partition.ranking_source == "prerun":
        seconds += (max(1.0, scenario.steps / _MAX_RANKED) - 1.0) * ranking_s
    with tempfile.TemporaryDirectory() as folder, _fast_learner(setup, _MIN_STEPS) as learner:
        training = ""
        if learner is not None:
            training = learner.training_method
        _check_batches(scenario, learner)
        session = _TimedSession(learner, Path(folder), stopwatch)
        empty = _end_run(RunWriter(Path(folder), scenario, setup.replicas, session.lanes), "interrupted")
        writer = RunWriter(Path(folder), scenario, setup.replicas, session.lanes)
        started_s = time.process_time()
        with limit.running():
            writer.write_replicas("users", [setup.users(replica) for replica in setup.replicas])
            writer.write_replicas("nodes", [setup.nodes(replica) for replica in setup.replicas])
        seconds += time.process_time() - started_s
        stopwatch.started_s = time.process_time()
        _run_first_rounds(setup, session, writer, stopwatch, circumstance)
        files = _end_run(writer, "done")
    rounds = len(stopwatch.network_s)
    expected = _expected_rounds(scenario, stopwatch)
    lengthening = expected / rounds
    round_s = _extrapolate(stopwatch.network_s, expected)
    diverged = session.diverged
    if stopwatch.learning_s:
        longer_s, diverged_later = _longer_s(setup, stopwatch)
        diverged = [*diverged, *diverged_later]
        round_s += _extrapolate(stopwatch.learning_s, expected) + expected * longer_s
        evaluations = 2 + expected // scenario.evaluation.every  # also of version 0 and of the last round
        seconds += evaluations * _test_stride(setup) * stopwatch.evaluation_s
    seconds += round_s + max(0.0, files.seconds - empty.seconds) * lengthening
    share = scenario.replicas / replicas

    # each replica begins new streams every few seconds
    flushes = round_s * share // FLUSH_EVERY_S
    disk = empty.size + (files.size - empty.size) * lengthening * share
    disk += flushes * files.streams * STREAM_BYTES * share
    mean_deliveries = stopwatch.deliveries / (rounds * replicas)
    needed = memory.estimate_memory(scenario, stopwatch.max_deliveries, mean_deliveries, expected)
    needed += memory.recording_bytes(files.rows * lengthening * share, files.rows / rounds * share)
    return DryRun(
        seconds * share,
        needed,
        disk,
        rounds=rounds,
        expected=expected,
        delivers=stopwatch.max_deliveries > 0 or scenario.traffic_s is not None,
        in_vain=stopwatch.in_vain / max(stopwatch.deliveries, 1),
        training=training,
        synchronised=stopwatch.synchronised,
        left_out=stopwatch.left_out,
        never_first=stopwatch.never_first,
        diverged=_locate_divergence(scenario, diverged, circumstance),
    )


def _run_first_rounds(
    setup: RunSetup, session: LearningSession, writer: RunWriter, stopwatch: _Stopwatch, circumstance: str
) -> None:
    """Run rounds until they are enough; an error of a later round than the first ends them, and is left to the run."""
    try:
        observers = [writer, stopwatch]
        with stopwatch.limit.running():
            run_rounds(setup.with_recorders(writer.recorders), session, observers, stopwatch.on_open)
    except NetflError as error:
        if isinstance(error, ModelError) and stopwatch.network_s:
            return
        writer.abandon()
        if session.diverged:
            raise ScenarioError(_locate_divergence(setup.scenario, session.diverged, circumstance)) from error
        raise


def _locate_divergence(scenario: Scenario, diverged: Iterable[Divergence], circumstance: str) -> list[Fault]:
    """Return the step size of each learner whose training has *diverged*, with the first of its replicas."""
    faults: dict[str, Fault] = {}
    for lane in diverged:
        concerned = f"replica {lane.replica}"
        if lane.user is not None:
            concerned = f"{concerned}, user {lane.user}"
        problem = f"{circumstance}{concerned}: {lane.problem.removesuffix(f'; {SMALLER_STEP}')}"
        step = scenario.learners[lane.learner].lr
        faults.setdefault(lane.learner, Fault(f"learners.{lane.learner}.lr", problem, step, SMALLER_STEP))
    return scenario.located([*faults.values()])


def _expected_rounds(scenario: Scenario, stopwatch: _Stopwatch) -> float:
    """Return the number of rounds of the run; where only its duration is known, by the pace of the first rounds."""
    if scenario.stop_s is None:
        return scenario.steps
    rounds = len(stopwatch.network_s)
    return min(scenario.steps, max(rounds, rounds * scenario.stop_s / stopwatch.time_s))


@dataclass(frozen=True, slots=True)
class _RunFiles:
    """Files of a run that has ended.

    Args:
        seconds: processor time of the end of the run.
        size: bytes of the tables, and of their streams.
        streams: number of tables that have rows, in all replicas.
        rows: number of recorded events and attempts.
    """

    seconds: float
    size: int
    streams: int
    rows: int


def _end_run(writer: RunWriter, status: str) -> _RunFiles:
    """End a run as *writer* and the manifest do, and remove its files."""
    started_s = time.process_time()
    writer.on_end(status)
    run_digests(writer.folder)
    seconds = time.process_time() - started_s
    size = sum(table.stream_bytes for table in writer.tables.values())
    paths = [*writer.folder.glob("*.parquet"), *writer.folder.glob("summary.json")]
    size += sum(path.stat().st_size for path in paths)
    for path in paths:
        path.unlink()
    streams = sum(len(table.places) for table in writer.tables.values())
    rows = sum(table.rows for name, table in writer.tables.items() if name in {"events", "attempts"})
    return _RunFiles(seconds, size, streams, rows)


def _check_batches(scenario: Scenario, learner: Learner | None) -> None:
    """Check the mini-batches of all steps, of which the learner of the dry run makes only some."""
    if learner is None:  # PyTorch is not needed
        return
    from netfl.learning.learner import BatchedLearner

    if isinstance(learner, BatchedLearner):
        with locate_faults(scenario, ""):
            learner.check_batches(scenario.learners)


@contextmanager
def _fast_learner(setup: RunSetup, steps: int) -> Iterator[Learner | None]:
    """Build the learners, if there are any, with at most so many local *steps* and few test examples."""
    scenario = setup.scenario
    stride = _test_stride(setup)
    thinned = {id(dataset): thin_tests(dataset, stride) for dataset in setup.datasets}  # replicas may share one
    datasets = [thinned[id(dataset)] for dataset in setup.datasets]
    learners = {}
    for (name, spec), needed in zip(scenario.learners.items(), _steps(setup), strict=True):
        learners[name] = spec
        if needed > steps:
            learners[name] = spec.model_copy(update={"local_steps": steps, "local_epochs": None})
    evaluation = scenario.evaluation.model_copy(update={"every": scenario.steps + 1})
    scenario = scenario.model_copy(update={"learners": learners, "evaluate": evaluation})
    with open_learner(replace(setup, scenario=scenario, datasets=datasets), "auto", learning=bool(learners)) as learner:
        yield learner


def _test_stride(setup: RunSetup) -> int:
    """Return the number of test examples for each one that is tested."""
    if setup.dataset is None:
        return 1
    return max(1, len(setup.dataset.test_y) // _MAX_TESTED)


def _steps(setup: RunSetup) -> list[int]:
    """Return the local steps of each learner for one update, by a user with the mean number of examples."""
    examples = 1.0
    if setup.dataset is not None:
        examples = len(setup.dataset.train_y) / setup.scenario.users
    return [_local_steps(learner, examples) for learner in setup.scenario.learners.values()]


def _local_steps(learner: LearnerSpec, examples: float) -> int:
    """Return the local steps of a learner for one update, by a user with so many *examples*."""
    if learner.local_steps is not None:
        return learner.local_steps
    batches = 1
    if learner.batch_size != "full":
        batches = max(1, math.ceil(examples / learner.batch_size))
    return (learner.local_epochs or 1) * batches


def _longer_s(setup: RunSetup, stopwatch: _Stopwatch) -> tuple[float, Sequence[Divergence]]:
    """Return the processor time by which learning in a round takes longer with all local steps than with `_MIN_STEPS`.

    Also returned are the lanes that diverge with more local steps; where these are all, no further round is repeated.

    The first rounds are repeated with as many steps as take `SAMPLE_S`; the time grows linearly from there.  With the
    times t of few and of more local steps s of all learners, it is ``(t_more - t_few) (s_all - s_few) / (s_more -
    s_few)``, divided by the number of these rounds.
    """
    needed = _steps(setup)
    repeated = _repeated_rounds(stopwatch.learning_s)
    few_s = _total(stopwatch.learning_s[:repeated])
    affordable = int(_MIN_STEPS * SAMPLE_S / max(few_s, _RESOLUTION_S))
    limit = min(max(needed), max(4 * _MIN_STEPS, affordable))
    few_steps = _limited_sum(needed, _MIN_STEPS)
    more_steps = _limited_sum(needed, limit)
    if more_steps == few_steps:
        return 0.0, ()
    round_s = []
    with _fast_learner(setup, limit) as learner, model_errors("learning", 0.0):
        assert learner is not None
        for rounds in stopwatch.rounds[:repeated]:
            started_s = time.process_time()
            try:
                learner.step(rounds)
            except ModelError:
                if not learner.diverged:
                    raise
                break
            finally:
                round_s.append(time.process_time() - started_s)
        diverged = learner.diverged
    more_s = _total(round_s)
    few_s = _total(stopwatch.learning_s[: len(round_s)])
    longer_s = max(0.0, more_s - few_s) * (sum(needed) - few_steps) / (more_steps - few_steps)
    return longer_s / max(1, len(round_s) - 1), diverged


def _repeated_rounds(learning_s: Sequence[float]) -> int:
    """Return the number of first rounds whose learning, without the first one, takes measurable time; at most all.

    >>> _repeated_rounds([0.1] * 50), _repeated_rounds([0.0, 0.01] * 50), _repeated_rounds([0.0] * 50)
    (5, 20, 50)
    """
    sums_s = np.cumsum([0.0, *learning_s[1:]])
    return min(len(learning_s), max(_REPEATED, int(np.searchsorted(sums_s, 10 * _RESOLUTION_S - 1e-9)) + 1))


def _limited_sum(steps: Sequence[int], limit: int) -> int:
    """Return the local steps of all learners, each of which makes at most *limit*."""
    return sum(min(count, limit) for count in steps)


def _total(seconds: Sequence[float]) -> float:
    """Return the processor time of rounds without the first one, which prepares what the others use."""
    return sum(seconds[1:] or seconds)


def _extrapolate(seconds: Sequence[float], rounds: float) -> float:
    """Return the processor time of all *rounds*: that of the first, and the mean of the others for each further one."""
    mean_s = _total(seconds) / max(1, len(seconds) - 1)
    return seconds[0] + mean_s * (rounds - 1)
