"""A dry run: the first rounds of a scenario, played to find what only shows then, and to measure what a run takes.

The network is played as it stands, for about `SAMPLE_S` of processor time, and one round at least.  Learners learn from
these rounds by fewer local steps, and test on fewer examples, where there are many; then they learn from some of the
rounds by more steps.  Time is extrapolated linearly: to all steps, examples and rounds.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from netfl.errors import ModelError, NetflError
from netfl.learning.spec import LearnerSpec
from netfl.registry import kind_of
from netfl.results.run_writer import RunWriter
from netfl.scenario.scenario import Scenario
from netfl.simulation.cost_estimate import DryRun
from netfl.simulation.learners import open_learner
from netfl.simulation.learning_session import LearnerProtocol
from netfl.simulation.loop import blamed, next_rounds
from netfl.simulation.observers import format_progress
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import Round, RoundProgress

LIMIT_S = 10.0
"""Processor time after which a round is cut."""
SAMPLE_S = 1.0
"""Processor time of rounds, and of learning from them, that is enough to extrapolate from."""
_ENOUGH = 100
"""Rounds that are enough, however little time they take."""
_TESTED = 500
"""Test examples that are enough."""
_FEWEST = 2
"""Local steps that learners begin with; a single one may be computed in another way."""
_START_S = (1.5, 3.5)
"""Processor time of a run before its scenario is staged, without learners and with them: Python, and torch, start."""


class _CutError(NetflError):
    """The rehearsal has taken too long."""


class _Stopwatch:
    """Processor time; ends the rehearsal where a round takes too long.

    Attributes:
        last: how far the last round was that was heard of.
    """

    def __init__(self) -> None:
        self.last: RoundProgress | None = None
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._began_s = time.process_time()

    def hear(self, pulse: RoundProgress) -> None:
        """A round goes on."""
        self.last = pulse
        if self.elapsed_s > LIMIT_S:
            raise _CutError

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.process_time() - self._began_s


@dataclass
class _Sample:
    """The rounds that were played, and what they took.

    Args:
        rounds: of all replicas each.
        network_s: processor time of each in the network, tables included.
        learning_s: the same of the learners.
        counts: deliveries of each in each replica.
        look_s: processor time of an evaluation.
    """

    rounds: list[Sequence[Round]] = field(default_factory=list)
    network_s: list[float] = field(default_factory=list)
    learning_s: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    look_s: float = 0.0


def run_dry(scenario: Scenario) -> DryRun:
    """Stage *scenario*, play its first rounds in every replica, and learn from them.

    Raises:
        NetflError: what a run ends with, as far as that shows in its first rounds.
    """
    watch, steps = _Stopwatch(), scenario.steps
    start_s = _START_S[bool(scenario.learners)]
    try:
        staged = prepare_run(scenario, pulse=watch.hear)
        start_s += watch.elapsed_s
        with tempfile.TemporaryDirectory() as folder, _learning(staged, _FEWEST) as learner:
            sample = _play(staged, learner, Path(folder), watch)
    except _CutError:
        assert watch.last is not None
        return DryRun(start_s + watch.elapsed_s / watch.last.round * steps, cut=watch.last)
    seconds = start_s + _extrapolated(sample.network_s, steps)
    if sample.learning_s:
        looks = 2 + steps // scenario.evaluation.every
        seconds += _extrapolated(sample.learning_s, steps) * _stretch(staged, sample) + looks * sample.look_s
    return DryRun(seconds, len(sample.network_s), float(np.mean(sample.counts)), int(max(sample.counts)))


def warning(played: DryRun) -> str:
    """Return the warning of a dry run in which a round was cut."""
    assert played.cut is not None
    return f"long: round {played.cut.round} was not over after {LIMIT_S:g} s; it stood at {format_progress(played.cut)}"


def _play(staged: RunSetup, learner: LearnerProtocol | None, folder: Path, watch: _Stopwatch) -> _Sample:
    """Play the first rounds into tables in *folder*, and let *learner* learn from them."""
    scenario, access = staged.scenario, staged.scenario.access
    sample, reply = _Sample(), None
    if learner is not None:
        with blamed("learning", 0.0):
            sample.look_s = min(_timed(learner.start) for _ in range(2)) * _untested(staged)
    writer = RunWriter(folder, len(staged.replicas), scenario.keeping, (), staged.replicas.start)
    settings = [replace(one, recorder=own) for one, own in zip(staged.settings, writer.recorders, strict=True)]
    generators = [access.rounds(setting) for setting in settings]
    blocks = [own for one in settings if (own := access.round_batches(one))] if learner is None else []
    watch.restart()

    def play_block() -> None:
        """Play many rounds of each replica at once, as a run does if it can."""
        with locate_faults(scenario, "access"), blamed(kind_of(type(access)), 0.0):
            played = [next(one) for one in blocks]
        writer.blocks(played)
        sample.counts += [count for one in played for count in one.delivered.tolist()]

    def play() -> None:
        """Play a round of each replica."""
        before = sample.rounds[-1] if sample.rounds else ()
        sample.rounds.append(next_rounds(scenario, generators, reply, before))
        writer.rounds(sample.rounds[-1])
        sample.counts += [len(one.deliveries) for one in sample.rounds[-1]]

    try:
        if blocks:
            taken_s = _timed(play_block)
            rounds = len(sample.counts) // len(blocks)
            sample.network_s = [taken_s / rounds] * rounds
        while not blocks and len(sample.rounds) < min(scenario.steps, _ENOUGH):
            sample.network_s.append(_timed(play))
            if learner is not None:
                began_s = watch.elapsed_s
                with blamed("learning", sample.rounds[-1][0].closed_s):
                    reply = learner.step(sample.rounds[-1])
                sample.learning_s.append(watch.elapsed_s - began_s)
            if watch.elapsed_s > SAMPLE_S:
                break
    except ModelError:
        if not sample.rounds:
            raise  # a later round, or training that diverges, is for the run to report
    finally:
        for generator in generators:
            generator.close()
        writer.abandon()
    return sample


@contextmanager
def _learning(staged: RunSetup, steps: int) -> Iterator[LearnerProtocol | None]:
    """The learners of *staged*, at work by so many local steps at most, and on few test examples; if there are any."""
    scenario, data = staged.scenario, staged.dataset
    if data is not None:
        tested = slice(None, None, _untested(staged))
        owners = None if data.test_user is None else data.test_user[tested]
        data = replace(data, test_x=data.test_x[tested], test_y=data.test_y[tested], test_user=owners)
    learners = {
        name: one if needed <= steps else one.model_copy(update={"local_steps": steps, "local_epochs": None})
        for (name, one), needed in zip(scenario.learners.items(), _steps(staged), strict=True)
    }
    seldom = scenario.evaluation.model_copy(update={"every": scenario.steps + 1})
    shorter = scenario.model_copy(update={"learners": learners, "evaluate": seldom})
    with open_learner(replace(staged, scenario=shorter, dataset=data), "auto", learning=bool(learners)) as learner:
        yield learner


def _untested(staged: RunSetup) -> int:
    """By how much there are more test examples than are tested on."""
    return 1 if staged.dataset is None else max(1, len(staged.dataset.test_y) // _TESTED)


def _steps(staged: RunSetup) -> list[int]:
    """Local steps of an update of each learner, by a user that holds as much as the mean."""
    held = 1.0 if staged.dataset is None else len(staged.dataset.train_y) / staged.scenario.users

    def of(learner: LearnerSpec) -> int:
        """Those of one."""
        batch = held if learner.batch_size == "full" else float(learner.batch_size)
        return learner.local_steps or (learner.local_epochs or 1) * max(1, math.ceil(held / batch))

    return [of(one) for one in staged.scenario.learners.values()]


def _stretch(staged: RunSetup, sample: _Sample) -> float:
    """By how much longer learning takes by all local steps than by the fewest."""
    needed, steps = _steps(staged), _FEWEST
    count = int(np.clip(np.searchsorted(np.cumsum(sample.learning_s), SAMPLE_S / 4) + 1, 2, 10))
    own_s = sample.learning_s[:count]
    rounds = sample.rounds[: len(own_s)]
    points = [(sum(min(one, steps) for one in needed), sum(own_s[1:] or own_s))]
    while steps < max(needed) and points[-1][1] < SAMPLE_S / 2:
        steps = min(4 * steps, max(needed))
        try:
            with _learning(staged, steps) as learner, blamed("learning", 0.0):
                assert learner is not None
                own_s = [_timed(partial(learner.step, one)) for one in rounds]
        except ModelError:  # training of more steps that diverges is for the run to report
            break
        points.append((sum(min(one, steps) for one in needed), sum(own_s[1:] or own_s)))
    (_, least_s), (most, most_s) = points[0], points[-1]
    slope_s = most_s / most if len(points) == 1 else max(0.0, most_s - points[-2][1]) / (most - points[-2][0])
    return (most_s + slope_s * (sum(needed) - most)) / max(least_s, 1e-9)


def _extrapolated(taken_s: Sequence[float], rounds: int) -> float:
    """Processor time of all *rounds*, of which the first prepares what the others use."""
    first_s, *others_s = taken_s
    return first_s + float(np.mean(others_s or first_s)) * (rounds - 1)


def _timed(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    began_s = time.process_time()
    call()
    return time.process_time() - began_s
