"""A team: workers, processes with one thread each, that share out the lanes of a run among them.

Each has a `BatchedLearner` for its part.  Rounds are sent without waiting for an answer unless one is due, so that
workers
learn beside the network and beside each other; what they say does not depend on how many they are, but for the last
bits of floating-point sums, since a batch of other lanes may be multiplied in another order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.errors import MachineError, ModelError
from netfl.learning.workers.process import processes
from netfl.learning.workers.sharding import LaneShard, merge, shard_lanes, split
from netfl.types import Divergence, LearnerReport, Round


class Worker(Protocol):
    """A learner somewhere else."""

    def send(self, message: object) -> None:
        """Have it do something: the name of what, and the arguments."""

    def receive(self) -> Any:
        """What came of the first thing sent that was not yet asked for; what it failed with is raised."""


Hire = Callable[[Sequence[Mapping[str, Any]]], AbstractContextManager[Sequence[Worker]]]
"""Gets a worker for each part of a run, whose learner is made of what is said of that part."""
_AHEAD = 16
"""Rounds that may be on their way to workers."""


class ParallelLearner:
    """Learners in several processes; does what a `netfl.learning.learner.BatchedLearner` of all lanes does.

    Args:
        workers: how many, at most; there are no more of them than lanes.
        said: what a learner of all lanes would be made with.
        hire: gets workers, each for its part of what is said; by default processes of this machine.
    """

    def __init__(self, workers: int, said: Mapping[str, Any], hire: Hire = processes) -> None:
        names, self._replicas, first = [*said["learners"]], len(said["datasets"]), said["first"]
        self.lanes = tuple((name, first + replica) for name in names for replica in range(self._replicas))
        self.diverged: tuple[Divergence, ...] = ()
        self._parts = shard_lanes(len(names), self._replicas, workers)
        self._said = [_for(part, said) for part in self._parts]
        self._every, self._rounds = said["evaluate"].every, said["rounds"]
        voice = said["follows"] or (names[0] if len(names) == 1 else None)
        self._heeded = [voice in one["learners"] for one in self._said]
        self._flying: deque[float] = deque()
        self._hire = hire
        self._workers: Sequence[Worker] = ()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Have the workers, for as long as this lasts."""
        with self._hire(self._said) as workers:
            self._workers = workers
            yield

    def start(self) -> LearnerReport:
        """The evaluation of version 0."""
        return self._report(0, self._all("start"), 0.0)

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        """Send *rounds* out; the report on them where it is due, or else an empty one.

        Raises:
            ModelError: as a learner does, for these rounds or some before them.
            MachineError: a worker is gone.
        """
        index, asked = rounds[0].index, any(one.asks for one in rounds)
        if asked and not any(self._heeded):
            raise ValueError("an access asks the learners, and does not say which of them")
        for worker, part, heeded in zip(self._workers, self._parts, self._heeded, strict=True):
            own = [rounds[place] for place in part.replicas]
            worker.send(("step", own if heeded else [replace(one, asks={}) if one.asks else one for one in own]))
        self._flying.append(max(one.closed_s for one in rounds))
        due = asked or index % self._every == 0 or index == self._rounds
        report = self._land(0 if due else _AHEAD)
        return report if due else LearnerReport(index, diverged=report.diverged)

    def state(self) -> dict[str, Any]:
        """As `Learner.state`, of all lanes."""
        return merge(self._all("state"), self._parts, self._replicas)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from *state*, whatever number of workers it is from.

        Raises:
            MachineError: it is the state of other lanes or of another model.
        """
        if [tuple(lane) for lane in state["lanes"]] != [*self.lanes]:
            raise MachineError("the kept state is that of other learners, or of another model")
        self._all("restore", lambda part: (split(state, part, self._replicas),))
        self.diverged = tuple(one for own in self._all("diverged") for one in own)

    def version(self, lane: int) -> NDArray[np.float64]:
        """The current θ and, last, t of a lane."""
        return np.asarray(self._ask(lane, "version"))

    def predict(self, lane: int, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """The labels that a lane's current model gives to examples *x*."""
        return np.asarray(self._ask(lane, "predict", x))

    def _ask(self, lane: int, name: str, *arguments: Any) -> Any:
        """What the worker of *lane* answers, once all have caught up."""
        self._land(0)
        for worker, part in zip(self._workers, self._parts, strict=True):
            own = part.lanes(self._replicas)
            if lane in own:
                worker.send((name, own.index(lane), *arguments))
                return worker.receive()
        raise ValueError(f"there is no lane {lane}")

    def _all(self, name: str, arguments: Callable[[LaneShard], tuple[Any, ...]] = lambda _: ()) -> list[Any]:
        """What all workers answer, once they have caught up."""
        self._land(0)
        for worker, part in zip(self._workers, self._parts, strict=True):
            worker.send((name, *arguments(part)))
        return [worker.receive() for worker in self._workers]

    def _land(self, flying: int) -> LearnerReport:
        """Take answers until no more than *flying* rounds are on their way: the last, with all that is new."""
        report, fresh = LearnerReport(0), list[Divergence]()
        while len(self._flying) > flying:
            time_s, answers = self._flying.popleft(), [worker.receive() for worker in self._workers]
            report = self._report(answers[0].round, answers, time_s)
            fresh += report.diverged
        return replace(report, diverged=tuple(fresh))

    def _report(self, index: int, reports: Sequence[LearnerReport], time_s: float) -> LearnerReport:
        """The reports of all workers on one round, as one.

        Raises:
            ModelError: no lane is left.
        """
        fresh = tuple(one for report in reports for one in report.diverged)
        self.diverged += fresh
        if fresh and len(self.diverged) == len(self.lanes):
            one = min(fresh, key=lambda lost: self.lanes.index((lost.learner, lost.replica)))
            raise ModelError(f"{one.learner}, replica {one.replica}", one.problem, user=one.user, time_s=time_s)
        metrics = {name: np.full(len(self.lanes), np.nan) for name in _names([one.metrics for one in reports])}
        for part, report in zip(self._parts, reports, strict=True):
            lanes = part.lanes(self._replicas)
            for name, values in report.metrics.items():
                metrics[name][lanes] = values
        return LearnerReport(index, metrics, self._answers(reports), fresh)

    def _answers(self, reports: Sequence[LearnerReport]) -> tuple[Mapping[str, NDArray[np.float64]], ...]:
        """What the accesses of all replicas asked; none where nobody did."""
        asked = any(report.answers for report in reports)
        own = zip(self._parts, self._heeded, reports, strict=True)
        none: Mapping[str, NDArray[np.float64]] = {}
        parts = [report.answers or (none,) * len(part.replicas) for part, heeded, report in own if asked and heeded]
        return tuple(one for part in parts for one in part)


def _for(part: LaneShard, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the learner of *part* is made with, where that of all lanes would be made with *said*."""
    names, there = [*said["learners"]], slice(part.replicas.start, part.replicas.stop)
    own = {names[number]: said["learners"][names[number]] for number in part.learners}
    return {
        **said,
        **{name: said[name][there] for name in ("datasets", "splits", "validation", "streams")},
        "learners": own,
        "first": said["first"] + there.start,
        "follows": said["follows"] if said["follows"] in own else None,
        "team": tuple(said["learners"].values()),
    }


def _names(metrics: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of all *metrics*, each behind the one behind which it stands in its own."""
    names: list[str] = []
    for one in metrics:
        at = 0
        for name in one if [*one] != names else ():
            if name in names:
                at = names.index(name)
            else:
                names.insert(at, name)
            at += 1
    return names
