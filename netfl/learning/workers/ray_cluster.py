"""Ray clusters, which run the tasks of a sweep or the lanes of one run on several computers."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netfl.errors import Fault, MachineError, ScenarioError

if TYPE_CHECKING:
    from netfl.learning.learner import LearningTask
    from netfl.learning.workers.pool import StartWorkers

_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and the share of it that each worker takes.

    Args:
        address: of the cluster, or ``auto`` for the one that this machine is part of; ``None`` starts Ray here.
        gpus: share of a GPU for each worker; from 1 on a whole number.

    Raises:
        ScenarioError: the share is not possible.
    """

    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            problem, remedy = "no such share of a GPU", "write a number from 0 to 1, or a whole one"
            raise ScenarioError([Fault("--gpus", problem, self.gpus, remedy)])

    @contextmanager
    def connected(self) -> Iterator[ModuleType]:
        """Connect to Ray until the context ends; an existing connection is used and kept.

        The handler of SIGTERM, which Ray would replace, is restored.

        Raises:
            ScenarioError: Ray is not installed.
            MachineError: the cluster does not exist.
        """
        ray, terminated = import_ray(), signal.getsignal(signal.SIGTERM)
        if ray.is_initialized():
            yield ray
            return
        try:
            _check_address(self.address)
            ray.init(self.address, include_dashboard=None if self.address else False, log_to_driver=False,
                     logging_level="ERROR", runtime_env={"env_vars": _environment()})  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
            where = "on this machine" if self.address is None else f"at '{self.address}'"
            remedy = "start one with ray start --head, or leave --address out to have one on this machine"
            raise MachineError(f"--address: no Ray cluster {where} ({first_line(error)}); {remedy}") from error
        if callable(terminated) and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, terminated)
        with _silence_worker_logs(ray):
            try:
                yield ray
            finally:
                ray.shutdown()

    def max_workers(self, ray: ModuleType) -> int:
        """Return the number of workers for which the current nodes have room, if nothing else runs on them.

        Args:
            ray: connected.

        Raises:
            MachineError: there is no room, and Ray would wait forever.
        """
        count = sum(self._workers_of_node(node["Resources"]) for node in ray.nodes() if node["Alive"])
        if not count:
            needed = f"a core and {self.gpus:g} of a GPU" if self.gpus else "a core"
            raise MachineError(
                f"no node of the Ray cluster has {needed} for a worker; add one, or ask for less by --gpus"
            )
        return count

    def _workers_of_node(self, resources: Mapping[str, float]) -> int:
        """Count the workers of a node; the shares of a worker are of a single GPU."""
        cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        if not self.gpus:
            return cores
        return min(cores, gpus * int(1 / self.gpus) if self.gpus < 1 else gpus // int(self.gpus))


def import_ray() -> ModuleType:
    """Import Ray, which is optional and slow to import.

    Raises:
        ScenarioError: it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        problem, remedy = "needs ray, which is not installed", "pip install 'netfl-sim[ray]'"
        raise ScenarioError([Fault("--engine", problem, "ray", remedy)]) from None


def first_line(error: Exception) -> str:
    """Return the first line of an *error* of Ray."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def ray_workers(cluster: Cluster) -> StartWorkers:
    """Return a function that starts workers on *cluster*, for `netfl.learning.workers.pool.ParallelLearner`."""

    @contextmanager
    def start_workers(tasks: Sequence[LearningTask]) -> Iterator[list[_RayWorker]]:
        from netfl.learning.workers.process import LearnerHost

        with cluster.connected() as ray:
            max_workers = cluster.max_workers(ray)
            if max_workers < len(tasks):
                problem = f"{len(tasks)} workers are wanted, and the Ray cluster has room for {max_workers}"
                raise MachineError(f"{problem}; write --workers {max_workers}, or add nodes")
            actor = ray.remote(num_cpus=1, num_gpus=cluster.gpus)(LearnerHost)
            names = [f"worker {number} of {len(tasks)}" for number in range(1, len(tasks) + 1)]
            workers = [_RayWorker(ray, actor.remote(), name) for name in names]
            try:
                for worker, task in zip(workers, tasks, strict=True):
                    worker.send(("open", task))
                for worker in workers:
                    worker.receive()
                yield workers
            finally:
                for worker in workers:
                    worker.end()

    return start_workers


class _RayWorker:
    """A `LearnerHost` in a Ray actor, seen from the run."""

    def __init__(self, ray: ModuleType, actor: Any, name: str) -> None:
        self._ray, self._actor, self._name = ray, actor, name
        self._results: deque[Any] = deque()

    def send(self, message: object) -> None:
        from netfl.learning.workers.messages import pack_message

        self._results.append(self._actor.call_packed.remote(pack_message(message)))

    def receive(self) -> Any:
        from netfl.learning.workers.messages import RemoteError

        try:
            answer = pickle.loads(self._ray.get(self._results.popleft()))  # noqa: S301 - from this run's own actor
        except self._ray.exceptions.RayError as error:
            remedy = "the last checkpoint is kept, go on from it with netfl resume"
            raise MachineError(f"{self._name} is gone ({first_line(error)}); {remedy}") from error
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def end(self) -> None:
        self._ray.kill(self._actor)


def _check_address(address: str | None) -> None:
    """Try to connect to an *address* with a port, for which Ray would wait forever.

    Raises:
        OSError: the connection fails.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S).close()


@contextmanager
def _silence_worker_logs(ray: ModuleType) -> Iterator[None]:
    """Stop Ray from printing pages of logs when a node dies; Ray has no setting for that."""
    worker, name = ray._private.worker, "_worker_logs_enabled"
    before = getattr(worker, name, True)
    setattr(worker, name, False)
    try:
        yield
    finally:
        setattr(worker, name, before)


def _environment() -> dict[str, str]:
    """Return the environment of workers: one thread each, and the paths of the user's modules and data.

    A ``PYTHONPATH`` of a node comes last, as netfl may be installed elsewhere on each node.
    """
    paths = [*dict.fromkeys(filter(_is_user_path, map(os.path.abspath, sys.path))), "${PYTHONPATH}"]
    variables = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    return variables | {name: os.environ[name] for name in ("NETFL_DATA", "NETFL_NO_PLUGINS") if name in os.environ}


def _is_user_path(path: str) -> bool:
    """Return whether *path* does not belong to Python itself, which each node has in its own version."""
    if {"site-packages", "dist-packages"} & {*Path(path).parts} or path.endswith(".zip"):
        return False
    return not Path(path).is_relative_to(sysconfig.get_path("stdlib"))
