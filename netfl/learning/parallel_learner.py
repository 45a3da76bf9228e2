"""Learning in several workers with one thread each, which share the lanes of a run.

Each worker has a `netfl.learning.learner.BatchedLearner` for its shard of the lanes.  Rounds are sent without waiting
for an answer unless one is due, so workers learn while the network is simulated.  Results do not depend on the number
of workers, except for the last bits of floating-point sums: a batch of other lanes may be multiplied in another order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError, ModelError
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.sharding import LaneShard, merge_states, shard_lanes, split_state
from netfl.types import Divergence, Floats, Ints, LearnerReport, Round, round_number

_MAX_PENDING = 16
"""Rounds that may be sent before their answers are received."""


class WorkerHandle(Protocol):
    """A learner in another process."""

    def send(self, call: object) -> None:
        """Send a call: the name of a method, and its arguments."""

    def receive(self) -> Any:
        """Return the result of the oldest call without one; an exception of the call is raised here."""


StartWorkers = Callable[[str, Sequence[object]], AbstractContextManager[Sequence[WorkerHandle]]]
"""Function that starts workers which run a module, one for each of the calls, its first."""


class ParallelLearner:
    """A `netfl.learning.learner.BatchedLearner` whose lanes are shared by several workers.

    Args:
        workers: their maximum number; there are no more workers than lanes.
        task: of all lanes.
        start_workers: starts them, as processes of this machine or on a cluster.
    """

    def __init__(self, workers: int, task: LearningTask, start_workers: StartWorkers) -> None:
        self._task = task
        self._start_workers = start_workers
        self._replica_count = len(task.replicas)
        self.lanes = task.lanes
        self.diverged: tuple[Divergence, ...] = ()
        names = [*task.learners]
        self._shards = shard_lanes(len(names), self._replica_count, workers)
        self._tasks = [_shard_task(task, shard) for shard in self._shards]
        feedback_learner = task.feedback_learner
        if not feedback_learner and len(names) == 1:  # the only one answers an access without being named
            feedback_learner = names[0]
        self._has_feedback = [feedback_learner in shard_task.learners for shard_task in self._tasks]
        self._pending_s: deque[float] = deque()  # ends of the rounds without an answer, the oldest first
        self._workers: Sequence[WorkerHandle] = ()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run the workers until the context ends."""
        with self._start_workers(__name__, [("open", task) for task in self._tasks]) as workers:
            self._workers = workers
            yield

    @property
    def training_method(self) -> str:
        """The `BatchedLearner.training_method`, which all running workers have in common."""
        return self._ask_first("training_method")

    @property
    def gpu(self) -> str:
        """The name of the GPU of the first running worker; empty on a CPU."""
        return self._ask_first("gpu")

    def start(self) -> LearnerReport:
        """Evaluate version 0."""
        return self._merge_reports(0, self._call_all("start"), 0.0)

    def step(self, rounds: Sequence[Round | None]) -> LearnerReport:
        """Send *rounds*; return their report if it is due, or else an empty one.

        Raises:
            ModelError: as of `BatchedLearner.step`, for these rounds or earlier ones.
            MachineError: a worker has ended.
        """
        index = round_number(rounds)
        open_rounds = [round_ for round_ in rounds if round_ is not None]
        is_asked = any(round_.queries for round_ in open_rounds)
        if is_asked and not any(self._has_feedback):
            raise ValueError("an access uses the learners' reports, but does not name a learner")
        for worker, shard, has_feedback in zip(self._workers, self._shards, self._has_feedback, strict=True):
            shard_rounds = [rounds[replica] for replica in shard.replicas]
            if not has_feedback:  # another worker answers the access
                shard_rounds = [_without_queries(round_) for round_ in shard_rounds]
            worker.send(("step", shard_rounds))
        self._pending_s.append(max(round_.closed_s for round_ in open_rounds))
        is_due = is_asked or index % self._task.evaluate.every == 0 or index == self._task.rounds
        if is_due:
            return self._receive_reports(0)
        earlier = self._receive_reports(_MAX_PENDING)
        return LearnerReport(index, diverged=earlier.diverged)

    def state(self) -> dict[str, Any]:
        """Return the state of all lanes for `restore`; see `BatchedLearner.state`."""
        return merge_states(self._call_all("state"), self._shards, self._replica_count)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` of any number of workers.

        Raises:
            MachineError: the state belongs to other lanes or to another model.
        """
        if [tuple(lane) for lane in state["lanes"]] != [*self.lanes]:
            raise MachineError("the saved state is of other learners, or of another model")
        self._call_all("restore", lambda shard: (split_state(state, shard, self._replica_count),))
        self.diverged = tuple(lost for diverged in self._call_all("diverged") for lost in diverged)

    def version(self, lane: int) -> Floats:
        """Return the current version of *lane*, ``[parameters + 1]``."""
        return np.asarray(self._call_one(lane, "version"))

    def predict(self, lane: int, x: NDArray[np.float32]) -> Ints:
        """Return the labels that the current model of *lane* predicts for the examples *x*."""
        return np.asarray(self._call_one(lane, "predict", x))

    def _ask_first(self, attribute: str) -> str:
        """Return a text of the first running worker; an empty one if none runs."""
        if not self._workers:
            return ""
        self._receive_reports(0)
        self._workers[0].send((attribute,))
        return str(self._workers[0].receive())

    def _call_one(self, lane: int, name: str, *arguments: Any) -> Any:
        """Call a method of the worker of *lane*, once all pending rounds are received."""
        self._receive_reports(0)
        for worker, shard in zip(self._workers, self._shards, strict=True):
            lanes = shard.lanes(self._replica_count)
            if lane in lanes:
                worker.send((name, lanes.index(lane), *arguments))
                return worker.receive()
        raise ValueError(f"there is no lane {lane}")

    def _call_all(self, name: str, arguments: Callable[[LaneShard], tuple[Any, ...]] = lambda _: ()) -> list[Any]:
        """Call a method of all workers, once all pending rounds are received."""
        self._receive_reports(0)
        for worker, shard in zip(self._workers, self._shards, strict=True):
            worker.send((name, *arguments(shard)))
        return [worker.receive() for worker in self._workers]

    def _receive_reports(self, max_pending: int) -> LearnerReport:
        """Receive answers until at most *max_pending* rounds wait; return the last with all new divergences."""
        report = LearnerReport(0)
        diverged: list[Divergence] = []
        while len(self._pending_s) > max_pending:
            time_s = self._pending_s.popleft()
            shard_reports = [worker.receive() for worker in self._workers]
            report = self._merge_reports(shard_reports[0].round, shard_reports, time_s)
            diverged += report.diverged
        return replace(report, diverged=tuple(diverged))

    def _merge_reports(self, index: int, reports: Sequence[LearnerReport], time_s: float) -> LearnerReport:
        """Merge the reports of all workers on one round, or raise a `ModelError` if all lanes have diverged."""
        new = tuple(divergence for report in reports for divergence in report.diverged)
        self.diverged += new
        if new and len(self.diverged) == len(self.lanes) and not self._task.may_diverge:
            first = min(new, key=lambda divergence: self.lanes.index((divergence.learner, divergence.replica)))
            raise ModelError(f"{first.learner}, replica {first.replica}", first.problem, user=first.user, time_s=time_s)
        names = _merge_names([report.metrics for report in reports])
        metrics = {name: np.full(len(self.lanes), np.nan) for name in names}
        for shard, report in zip(self._shards, reports, strict=True):
            lanes = shard.lanes(self._replica_count)
            for name, values in report.metrics.items():
                metrics[name][lanes] = values
        return LearnerReport(index, metrics, self._merge_answers(reports), new)

    def _merge_answers(self, reports: Sequence[LearnerReport]) -> tuple[Mapping[str, Floats], ...]:
        """Join the answers to the accesses of all replicas; empty if no access asked."""
        if not any(report.answers for report in reports):
            return ()
        nothing: Mapping[str, Floats] = {}
        answers: list[Mapping[str, Floats]] = []
        for shard, has_feedback, report in zip(self._shards, self._has_feedback, reports, strict=True):
            if has_feedback:
                answers += report.answers or [nothing] * len(shard.replicas)
        return tuple(answers)


def _shard_task(task: LearningTask, shard: LaneShard) -> LearningTask:
    names = [*task.learners]
    learners = {names[number]: task.learners[names[number]] for number in shard.learners}
    return replace(
        task,
        learners=learners,
        replicas=task.replicas[shard.replicas.start : shard.replicas.stop],
        feedback_learner=task.feedback_learner if task.feedback_learner in learners else None,
        all_learners=tuple(task.learners.values()),
    )


def _without_queries(round_: Round | None) -> Round | None:
    if round_ is None or not round_.queries:
        return round_
    return replace(round_, queries={})


def _merge_names(metrics: Sequence[Mapping[str, object]]) -> list[str]:
    """Merge the names of all *metrics*; each stays behind its predecessor."""
    names: list[str] = []
    for of_shard in metrics:
        if [*of_shard] == names:
            continue
        position = 0
        for name in of_shard:
            if name in names:
                position = names.index(name)
            else:
                names.insert(position, name)
            position += 1
    return names


def open_worker(send: Callable[[object], None], should_stop: Callable[[], bool]) -> Callable[..., object]:
    """Return the function that a worker executes: open a learner, call one of its methods, or read an attribute."""
    learner: BatchedLearner | None = None
    stack = ExitStack()

    def call(name: str, *arguments: Any) -> object:
        nonlocal learner
        if name == "open":
            learner = BatchedLearner(*arguments)
            stack.enter_context(learner.working())
            return None
        attribute = getattr(learner, name)
        return attribute(*arguments) if callable(attribute) else attribute

    return call
