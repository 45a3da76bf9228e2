"""Workers on a Ray cluster: actors, each with a learner for its part of a run's lanes, on whatever node has room."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from netfl.errors import MachineError
from netfl.learning.learner import BatchedLearner
from netfl.learning.workers.messages import RemoteError, pack_message
from netfl.learning.workers.pool import Hire
from netfl.learning.workers.ray_cluster import Cluster, reason


def ray_workers(cluster: Cluster) -> Hire:
    """Gets workers on *cluster*."""

    @contextmanager
    def hire(said: Sequence[Mapping[str, Any]]) -> Iterator[list[_Worker]]:
        with cluster.connected() as ray:
            room = cluster.room(ray)
            if room < len(said):
                problem = f"{len(said)} workers are wanted, and the Ray cluster has room for {room}"
                raise MachineError(f"{problem}; write --workers {room}, or add nodes")
            pupil = ray.remote(num_cpus=1, num_gpus=cluster.gpus)(_LearnerActor)
            names = [f"worker {number} of {len(said)}" for number in range(1, len(said) + 1)]
            workers = [_Worker(ray, pupil.remote(), name) for name in names]
            try:
                for worker, own in zip(workers, said, strict=True):
                    worker.send(("open", own))
                for worker in workers:
                    worker.receive()
                yield workers
            finally:
                for worker in workers:
                    worker.end()

    return hire


class _LearnerActor:
    """The actor."""

    def __init__(self) -> None:
        self._learner: BatchedLearner | None = None
        self._stack = ExitStack()

    def do(self, message: bytes) -> bytes:
        """Do what a packed message says: what came of it, or failed, packed."""
        name, *arguments = pickle.loads(message)  # noqa: S301 - from this run's own driver
        try:
            if name == "open":
                self._learner = BatchedLearner(**arguments[0])
                self._stack.enter_context(self._learner.working())
                return pack_message(None)
            found = getattr(self._learner, name)
            return pack_message(found(*arguments) if callable(found) else found)
        except Exception as error:  # for the run to raise
            return pack_message(RemoteError.of(error))


class _Worker:
    """An actor as its run sees it.

    Args:
        ray: connected.
        actor: a `_LearnerActor`.
        name: what it is, in words.
    """

    def __init__(self, ray: ModuleType, actor: Any, name: str) -> None:
        self._ray, self._actor, self._name = ray, actor, name
        self._coming: deque[Any] = deque()

    def send(self, message: object) -> None:
        """Send *message*; an actor does what it is sent in that order."""
        self._coming.append(self._actor.do.remote(pack_message(message)))

    def receive(self) -> Any:
        """The next answer; what the worker failed with is raised.

        Raises:
            MachineError: the worker or its node is gone.
        """
        try:
            answer = pickle.loads(self._ray.get(self._coming.popleft()))  # noqa: S301 - from this run's own actor
        except self._ray.exceptions.RayError as error:
            kept = "the last checkpoint is kept, go on from it with netfl resume"
            raise MachineError(f"{self._name} is gone ({reason(error)}); {kept}") from error
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def end(self) -> None:
        """Be rid of it."""
        self._ray.kill(self._actor)
