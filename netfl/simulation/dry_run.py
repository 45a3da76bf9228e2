"""A dry run: run the first rounds of a scenario, to find errors that only show then, and to measure the processor time.

The main loop runs for about `SAMPLE_S` of processor time, and for one round at least.  Where learning takes many local
steps or test examples, the learners take fewer, and then repeat some of the rounds with more steps.  The time is
extrapolated linearly to all rounds, steps and examples.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from netfl.errors import ModelError, NetflError
from netfl.learning.spec import LearnerSpec
from netfl.results.run_writer import RunWriter
from netfl.scenario.scenario import Scenario
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.cost_estimate import DryRun
from netfl.simulation.learners import open_learner
from netfl.simulation.learning_session import LearnerProtocol, LearningSession
from netfl.simulation.loop import run_rounds
from netfl.simulation.observers import format_progress
from netfl.simulation.setup import RunSetup, prepare_run
from netfl.simulation.simulation import model_errors
from netfl.types import LearnerReport, Round, RoundBatch, RoundProgress, RunObserver, RunProgress

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
_START_S = (1.5, 3.5)
"""Processor time of starting Python, without learners, and with them (torch)."""


class _CutError(NetflError):
    """A round took longer than `LIMIT_S`."""


class _Stopwatch(RunObserver):
    """Observer that measures the rounds of the network, and stops the dry run when they are enough.

    Attributes:
        last: the last progress of an open round.
        rounds: the rounds of all replicas.
        network_s: processor time of each round without learning.
        counts: deliveries of each round of each replica.
        learning_s: processor time of each round's learning.
        evaluation_s: processor time of an evaluation.
    """

    def __init__(self) -> None:
        self.last: RoundProgress | None = None
        self.rounds: list[Sequence[Round]] = []
        self.network_s: list[float] = []
        self.counts: list[int] = []
        self.learning_s: list[float] = []
        self.evaluation_s = 0.0
        self.restart()

    def restart(self) -> None:
        self._started_s = time.process_time()

    @property
    def elapsed_s(self) -> float:
        return time.process_time() - self._started_s

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
            self.counts = [count for batch in batches for count in batch.delivered.tolist()]
        else:
            self.network_s.append(network_s)
            self.rounds.append([each for each in progress.results if isinstance(each, Round)])
            self.counts += [len(each.deliveries) for each in self.rounds[-1]]
        self.stop = bool(batches) or elapsed_s > SAMPLE_S or len(self.rounds) >= _MAX_ROUNDS


class _TimedSession(LearningSession):
    """Learning whose steps and evaluations are measured."""

    def __init__(self, learner: LearnerProtocol | None, folder: Path, stopwatch: _Stopwatch) -> None:
        super().__init__(learner, CheckpointStore(folder))
        self._stopwatch = stopwatch

    def start(self) -> LearnerReport:
        with model_errors("learning", 0.0):
            if self.learner is not None:
                self._stopwatch.evaluation_s = min(_timed(self.learner.start) for _ in range(2))
            report = super().start()
        self._stopwatch.restart()
        return report

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        started_s = time.process_time()
        report = super().step(rounds)
        if not self.is_trace:
            self._stopwatch.learning_s.append(time.process_time() - started_s)
        return report


def run_dry(scenario: Scenario) -> DryRun:
    """Prepare *scenario*, and run its first rounds in every replica.

    Raises:
        NetflError: any error of a run that shows in its first rounds.
    """
    stopwatch, steps = _Stopwatch(), scenario.steps
    start_s = _START_S[bool(scenario.learners)]
    try:
        setup = prepare_run(scenario, pulse=stopwatch.on_progress)
        start_s += stopwatch.elapsed_s
        with tempfile.TemporaryDirectory() as folder, _fast_learner(setup, _MIN_STEPS) as learner:
            session = _TimedSession(learner, Path(folder), stopwatch)
            writer = RunWriter(Path(folder), scenario, setup.replicas, session.lanes)
            try:
                run_rounds(setup.with_recorders(writer.recorders), session, [writer, stopwatch])
            except ModelError:
                if not stopwatch.network_s:
                    raise  # an error of a later round, or divergence, is left to the run
            finally:
                writer.abandon()
    except _CutError:
        assert stopwatch.last is not None
        return DryRun(start_s + stopwatch.elapsed_s / stopwatch.last.round * steps, cut=stopwatch.last)
    seconds = start_s + _extrapolated(stopwatch.network_s, steps)
    if stopwatch.learning_s:
        stretch = _stretch(setup, stopwatch.rounds, stopwatch.learning_s)
        evaluations = (2 + steps // scenario.evaluation.every) * _test_stride(setup)
        seconds += _extrapolated(stopwatch.learning_s, steps) * stretch + evaluations * stopwatch.evaluation_s
    counts = stopwatch.counts
    return DryRun(seconds, len(stopwatch.network_s), float(np.mean(counts)), int(max(counts)))


def warning(dry_run: DryRun) -> str:
    """Return the warning of a dry run in which a round was cut."""
    assert dry_run.cut is not None
    return (
        f"long: round {dry_run.cut.round} was not over after {LIMIT_S:g} s; it stood at {format_progress(dry_run.cut)}"
    )


@contextmanager
def _fast_learner(setup: RunSetup, steps: int) -> Iterator[LearnerProtocol | None]:
    """Build the learners, if there are any, with at most so many local *steps* and few test examples."""
    scenario, data = setup.scenario, setup.dataset
    if data is not None:
        tested = slice(None, None, _test_stride(setup))
        owners = None if data.test_user is None else data.test_user[tested]
        data = replace(data, test_x=data.test_x[tested], test_y=data.test_y[tested], test_user=owners)
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


def _stretch(setup: RunSetup, rounds: Sequence[Sequence[Round]], learning_s: Sequence[float]) -> float:
    """Return the factor by which learning with all local steps takes longer than with the fewest.

    Some of the rounds are repeated with four times as many steps, until they take long enough or all steps are done.
    """
    needed, steps = _steps(setup), _MIN_STEPS
    count = int(np.clip(np.searchsorted(np.cumsum(learning_s), SAMPLE_S / 4) + 1, 2, 10))
    taken_s = learning_s[:count]
    rounds = rounds[: len(taken_s)]
    points = [(sum(min(each, steps) for each in needed), sum(taken_s[1:] or taken_s))]
    while steps < max(needed) and points[-1][1] < SAMPLE_S / 2:
        steps = min(4 * steps, max(needed))
        try:
            with _fast_learner(setup, steps) as learner, model_errors("learning", 0.0):
                assert learner is not None
                taken_s = [_timed(partial(learner.step, each)) for each in rounds]
        except ModelError:  # divergence with more steps is left to the run
            break
        points.append((sum(min(each, steps) for each in needed), sum(taken_s[1:] or taken_s)))
    (_, first_s), (last, last_s) = points[0], points[-1]
    slope_s = last_s / last if len(points) == 1 else max(0.0, last_s - points[-2][1]) / (last - points[-2][0])
    return (last_s + slope_s * (sum(needed) - last)) / max(first_s, 1e-9)


def _extrapolated(seconds: Sequence[float], rounds: int) -> float:
    """Return the processor time of all *rounds*; the first one prepares what the others use."""
    first_s, *others_s = seconds
    return first_s + float(np.mean(others_s or first_s)) * (rounds - 1)


def _timed(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    started_s = time.process_time()
    call()
    return time.process_time() - started_s
