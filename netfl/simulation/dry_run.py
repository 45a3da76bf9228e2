"""A dry run: run the first rounds of a scenario, to find errors that only show then, and to measure the processor time.

The time is extrapolated linearly to all rounds, local steps and test examples; see docs/running.md.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from netfl.access import OpenAccess
from netfl.errors import Fault, ModelError, NetflError, ScenarioError, model_errors
from netfl.learning.evaluation_sets import thin_tests
from netfl.learning.spec import LearnerSpec
from netfl.network.radio.collision_repeats import RepeatedCollisions
from netfl.results.formatting import clock, counted, format_progress
from netfl.results.run_writer import RunWriter
from netfl.scenario.scenario import Scenario
from netfl.simulation import memory
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.learners import open_learner
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.run import run_rounds
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import LearnerReport, Round, RoundBatch, RoundProgress, RunObserver, RunProgress

if TYPE_CHECKING:
    from netfl.simulation.learning_session import Learner

LIMIT_S = 10.0
"""Processor time after which an open round is cut."""
SAMPLE_S = 1.0
"""Processor time of rounds, learning included, that is enough to extrapolate from."""
_MAX_ROUNDS = 100
"""Rounds that are enough, even if they take less time."""
_MAX_TESTED = 500
"""Test examples that are enough."""
_MIN_STEPS = 2
"""Local steps of the first measurement; a single step may be computed in another way."""
_REPEATED = 5
"""Rounds that are repeated with more local steps."""
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
        rounds: number of complete rounds of each replica.
        cut: progress of the round that was cut; ``None`` without one.
        delivers: whether any update was delivered.
        training: a sentence about how models are trained; empty for the usual way.
        synchronised: towers whose users stay synchronised, and how often these collide again.
    """

    seconds: float
    memory: float = 0.0
    rounds: int = 0
    cut: RoundProgress | None = None
    delivers: bool = True
    training: str = ""
    synchronised: Mapping[str, RepeatedCollisions] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.cut is not None:
            time = f"at least {clock(self.seconds)} of processor time"
        else:
            bounds = f"{clock(self.seconds / _RANGE)} to {clock(self.seconds * _RANGE)}"
            rounds = counted(self.rounds, "round")
            spent = clock(self.seconds) if self.seconds >= 1.0 else "under 1 s"
            time = f"{spent} of processor time ({bounds}, extrapolated from {rounds})"
        return f"{time} after the start of Python, {memory.format_memory(self.memory)} of memory"

    def warnings(self) -> Iterator[str]:
        """Yield warnings about a long round, missing memory, rounds without deliveries, and synchronised users."""
        if self.cut is not None:
            state = format_progress(self.cut)
            yield f"long: round {self.cut.round} did not end within {LIMIT_S:g} s; its state: {state}"
        free = memory.available()
        if free is not None and self.memory > free:
            needed = memory.format_memory(self.memory)
            yield f"large: the run needs about {needed} of memory, but {memory.format_memory(free)} are available"
        if self.rounds and not self.delivers:
            yield (
                f"silent: the first {counted(self.rounds, 'round')} delivered no update; after a run, netfl ram DIR "
                "--explain names the causes"
            )
        for tower, repeated in self.synchronised.items():
            yield (
                f"synchronised attempts: of the users of {tower} that collide, {repeated.share:.0%} overlap with each "
                f"other again at their next attempts, where chance would give {repeated.chance:.0%}; they may collide "
                "for ever; let the MAC wait for a random time that is long against a frame, or let users begin at "
                "different times (compute.spread, compute.jitter, traffic that is not synchronous)"
            )


class _CutError(NetflError):
    """A round took longer than `LIMIT_S`."""


class _Stopwatch(RunObserver):
    """Observer that measures the rounds of the network, and stops the dry run when they are enough.

    Attributes:
        last: the last progress of an open round.
        rounds: the rounds of all replicas.
        network_s: processor time of each round without learning.
        max_deliveries: largest number of deliveries in a round of a replica.
        learning_s: processor time of each round's learning.
        evaluation_s: processor time of an evaluation.
        accesses: the accesses of all replicas.
    """

    def __init__(self) -> None:
        self.last: RoundProgress | None = None
        self.rounds: list[Sequence[Round]] = []
        self.network_s: list[float] = []
        self.max_deliveries = 0
        self.learning_s: list[float] = []
        self.evaluation_s = 0.0
        self.started_s = time.process_time()
        self.accesses: list[OpenAccess] = []

    @property
    def synchronised(self) -> dict[str, RepeatedCollisions]:
        """Towers whose users stay synchronised in any replica."""
        towers: dict[str, RepeatedCollisions] = {}
        for access in self.accesses:
            if access.network is not None:
                towers |= access.network.synchronised_cells()
        return towers

    @property
    def elapsed_s(self) -> float:
        return time.process_time() - self.started_s

    def on_progress(self, progress: RoundProgress) -> None:
        self.last = progress
        if self.elapsed_s > LIMIT_S:
            raise _CutError

    def on_round(self, progress: RunProgress) -> None:
        elapsed_s = self.elapsed_s
        network_s = elapsed_s - sum(self.network_s) - sum(self.learning_s)
        batches = [batch for batch in progress.results if isinstance(batch, RoundBatch)]
        if batches:
            self.network_s = [network_s / progress.round] * progress.round
            self.max_deliveries = max(int(batch.delivered.max()) for batch in batches)
        else:
            self.network_s.append(network_s)
            rounds = [each for each in progress.results if isinstance(each, Round)]
            self.rounds.append(rounds)
            self.max_deliveries = max(self.max_deliveries, *(len(each.deliveries) for each in rounds))
        self.stop = bool(batches) or elapsed_s > SAMPLE_S or len(self.rounds) >= _MAX_ROUNDS


class _TimedSession(LearningSession):
    """Learning whose steps and evaluations are measured."""

    def __init__(self, learner: Learner | None, folder: Path, stopwatch: _Stopwatch) -> None:
        super().__init__(learner, CheckpointStore(folder))
        self._stopwatch = stopwatch

    def start(self) -> LearnerReport:
        with model_errors("learning", 0.0):
            if self.learner is not None:
                self.learner.start()  # the first evaluation takes longer
            started_s = time.process_time()
            report = super().start()
        self._stopwatch.started_s = time.process_time()
        self._stopwatch.evaluation_s = self._stopwatch.started_s - started_s
        return report

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        started_s = time.process_time()
        report = super().step(rounds)
        if self.learner is not None:
            self._stopwatch.learning_s.append(time.process_time() - started_s)
        return report


def run_dry(scenario: Scenario) -> DryRun:
    """Prepare *scenario*, and run its first rounds in every replica.

    Raises:
        NetflError: any error of a run that shows in its first rounds, or the run would not end in a year.
    """
    stopwatch = _Stopwatch()
    try:
        dry_run = _measure(scenario, stopwatch)
    except _CutError:
        assert stopwatch.last is not None
        last, duration_s = stopwatch.last, scenario.duration
        share = last.round / scenario.steps if duration_s is None else min(1.0, last.time_s / duration_s)
        dry_run = DryRun(stopwatch.elapsed_s / max(share, 1e-9), memory.estimate_memory(scenario), cut=last)
        dry_run = replace(dry_run, synchronised=stopwatch.synchronised)
    if dry_run.seconds > ENDLESS_S:
        key = "rounds" if scenario.duration is None else "duration"
        remedy = "make it shorter, or use fewer users or replicas"
        fault = Fault(key, f"the run would take more than a year: {dry_run}", getattr(scenario, key), remedy)
        raise ScenarioError(scenario.located([fault]))
    return dry_run


def _measure(scenario: Scenario, stopwatch: _Stopwatch) -> DryRun:
    setup, steps = prepare_run(scenario, pulse=stopwatch.on_progress), scenario.steps
    seconds = stopwatch.elapsed_s
    with tempfile.TemporaryDirectory() as folder, _fast_learner(setup, _MIN_STEPS) as learner:
        training = "" if learner is None else learner.training_method
        _check_batches(scenario, learner)
        session = _TimedSession(learner, Path(folder), stopwatch)
        writer = RunWriter(Path(folder), scenario, setup.replicas, session.lanes)
        try:
            observers = [writer, stopwatch]
            run_rounds(setup.with_recorders(writer.recorders), session, observers, stopwatch.accesses.append)
        except ModelError:
            if not stopwatch.network_s:
                raise  # an error of a later round is left to the run
        finally:
            writer.abandon()
    seconds += _extrapolate(stopwatch.network_s, steps)
    if stopwatch.learning_s:
        seconds += _extrapolate(stopwatch.learning_s, steps) * _stretch(setup, stopwatch)
        seconds += (2 + steps // scenario.evaluation.every) * _test_stride(setup) * stopwatch.evaluation_s
    needed = memory.estimate_memory(scenario, stopwatch.max_deliveries)
    return DryRun(
        seconds,
        needed,
        rounds=len(stopwatch.network_s),
        delivers=stopwatch.max_deliveries > 0,
        training=training,
        synchronised=stopwatch.synchronised,
    )


def _check_batches(scenario: Scenario, learner: Learner | None) -> None:
    """Check the mini-batches of all steps, of which the learner of the dry run makes only some."""
    from netfl.learning.learner import BatchedLearner

    if isinstance(learner, BatchedLearner):
        with locate_faults(scenario, ""):
            learner.check_batches(scenario.learners)


@contextmanager
def _fast_learner(setup: RunSetup, steps: int) -> Iterator[Learner | None]:
    """Build the learners, if there are any, with at most so many local *steps* and few test examples."""
    scenario, data = setup.scenario, setup.dataset
    if data is not None:
        data = thin_tests(data, _test_stride(setup))
    learners = {
        name: spec if needed <= steps else spec.model_copy(update={"local_steps": steps, "local_epochs": None})
        for (name, spec), needed in zip(scenario.learners.items(), _steps(setup), strict=True)
    }
    evaluation = scenario.evaluation.model_copy(update={"every": scenario.steps + 1})
    scenario = scenario.model_copy(update={"learners": learners, "evaluate": evaluation})
    with open_learner(replace(setup, scenario=scenario, dataset=data), "auto", learning=bool(learners)) as learner:
        yield learner


def _test_stride(setup: RunSetup) -> int:
    """Return the number of test examples for each one that is tested."""
    return 1 if setup.dataset is None else max(1, len(setup.dataset.test_y) // _MAX_TESTED)


def _steps(setup: RunSetup) -> list[int]:
    """Return the local steps of each learner for one update, by a user with the mean number of examples."""
    held = 1.0 if setup.dataset is None else len(setup.dataset.train_y) / setup.scenario.users

    def local_steps(learner: LearnerSpec) -> int:
        batch = held if learner.batch_size == "full" else float(learner.batch_size)
        return learner.local_steps or (learner.local_epochs or 1) * max(1, math.ceil(held / batch))

    return [local_steps(spec) for spec in setup.scenario.learners.values()]


def _stretch(setup: RunSetup, stopwatch: _Stopwatch) -> float:
    """Return the factor by which learning with all local steps takes longer than with `_MIN_STEPS`.

    The first rounds are repeated with as many steps as take `SAMPLE_S`; the time grows linearly from there.
    """
    needed, few_s = _steps(setup), _total(stopwatch.learning_s[:_REPEATED])
    more = min(max(needed), max(4 * _MIN_STEPS, int(_MIN_STEPS * SAMPLE_S / max(few_s, 1e-9))))
    few, many = (sum(min(each, steps) for each in needed) for steps in (_MIN_STEPS, more))
    if many == few:
        return 1.0
    more_s = []
    with _fast_learner(setup, more) as learner, model_errors("learning", 0.0):
        assert learner is not None
        for rounds in stopwatch.rounds[:_REPEATED]:
            started_s = time.process_time()
            learner.step(rounds)
            more_s.append(time.process_time() - started_s)
    slope_s = max(0.0, _total(more_s) - few_s) / (many - few)
    return 1.0 + slope_s * (sum(needed) - few) / max(few_s, 1e-9)


def _total(seconds: Sequence[float]) -> float:
    """Return the processor time of rounds without the first one, which prepares what the others use."""
    return sum(seconds[1:] or seconds)


def _extrapolate(seconds: Sequence[float], rounds: int) -> float:
    """Return the processor time of all *rounds*."""
    return seconds[0] + _total(seconds) / max(1, len(seconds) - 1) * (rounds - 1)
