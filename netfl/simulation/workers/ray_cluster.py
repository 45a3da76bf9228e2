"""Ray clusters, which run the tasks of a sweep or the lanes of one run on several computers."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from types import ModuleType
from typing import Any

from netfl.core.remedies import COMMAND_LINE, argument, given
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.simulation.workers.messages import RemoteError, answer_call, continuation, pack_message
from netfl.simulation.workers.process import check_workers

_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and the share of it that each worker takes.

    Args:
        address: of the cluster, or ``auto`` for the one that this machine is part of; ``None`` starts Ray here.
        gpus: share of a GPU for each worker; from 1 on a whole number.
        workers: maximum number at a time; by default one for a run, and as many as there is room for in a sweep.

    Raises:
        ScenarioError: the share or the number is not possible.
    """

    address: str | None = None
    gpus: float = 0.0
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_workers(self.workers)
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            remedy = "write a number from 0 to 1, or a whole number"
            raise ScenarioError([Fault(argument("gpus"), "no such share of a GPU", self.gpus, remedy)])

    @contextmanager
    def connected(self) -> Iterator[ModuleType]:
        """Connect to Ray until the context ends; an existing connection is used and kept.

        The handler of SIGTERM, which Ray would replace, is restored.

        Raises:
            ScenarioError: Ray is not installed.
            MachineError: the cluster does not exist.
        """
        ray = import_ray()
        if ray.is_initialized():
            yield ray
            return
        handler = signal.getsignal(signal.SIGTERM)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if not self.address:  # that of an existing cluster is up to the cluster
            options["include_dashboard"] = False
        try:
            _check_address(self.address)
            with warnings.catch_warnings(action="ignore", category=FutureWarning):  # tips about later versions of Ray
                ray.init(self.address, runtime_env={"env_vars": _environment()}, **options)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
            location = "on this machine"
            if self.address is not None:
                location = f"at '{self.address}'"
            remedy = f"start one with ray start --head, or leave out {argument('address')} to start one on this machine"
            raise MachineError(
                f"{argument('address')}: no Ray cluster {location} ({first_line(error)}); {remedy}"
            ) from error
        if callable(handler) and current_thread() is main_thread():  # no other thread can set handlers
            signal.signal(signal.SIGTERM, handler)
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
        count = 0
        for node in ray.nodes():
            if node["Alive"]:
                resources = node["Resources"]
                count += self._max_workers_of_node(int(resources.get("CPU", 0)), int(resources.get("GPU", 0)))
        if not count:
            needed = "a core"
            if self.gpus:
                needed = f"a core and {self.gpus:g} of a GPU"
            raise MachineError(
                f"no node of the Ray cluster has {needed} for a worker; add a node, or reduce {argument('gpus')}"
            )
        return count

    def _max_workers_of_node(self, cores: int, gpus: int) -> int:
        """Return the number of workers on a node, each with a core and its GPUs, or its share of a single one."""
        if not self.gpus:
            return cores
        if self.gpus < 1:
            return min(cores, gpus * int(1 / self.gpus))
        return min(cores, gpus // int(self.gpus))


def import_ray() -> ModuleType:
    """Import Ray, which is optional and slow to import, or raise a `ScenarioError`."""
    try:
        return import_module("ray")
    except ImportError:
        problem = "needs ray, which is not installed"
        raise ScenarioError([Fault(argument("engine"), problem, "ray", "pip install 'netfl-sim[ray]'")]) from None


def first_line(error: Exception) -> str:
    """Return the first line of an *error* of Ray."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def ray_workers(cluster: Cluster, module: str, calls: Sequence[object]) -> Iterator[list[_RayWorker]]:
    """Start an actor on *cluster* for each of *calls*, which it executes first.

    Raises:
        MachineError: there is no such cluster, or not enough room on it.
    """
    with cluster.connected() as ray:
        max_workers = cluster.max_workers(ray)
        if max_workers < len(calls):
            problem = f"{len(calls)} workers are requested, but the Ray cluster has room for {max_workers}"
            raise MachineError(f"{problem}; write {given('workers', max_workers)}, or add nodes")
        actor = ray.remote(num_cpus=1, num_gpus=cluster.gpus)(_Actor)
        names = [f"worker {number} of {len(calls)}" for number in range(1, len(calls) + 1)]
        workers = [_RayWorker(ray, actor.remote(module), name) for name in names]
        try:
            for worker, call in zip(workers, calls, strict=True):
                worker.send(call)
            for worker in workers:
                worker.receive()
            yield workers
        finally:
            for worker in workers:
                worker.close()


class _Actor:
    """Ray actor that executes the calls of a worker, packed, as Ray does not pickle all that a call may hold."""

    def __init__(self, module: str) -> None:
        self._call = import_module(module).open_worker(lambda _: None, lambda: False)

    def call(self, arguments: bytes) -> bytes:
        return pack_message(answer_call(self._call, pickle.loads(arguments)))  # noqa: S301 - from this run


class _RayWorker:
    """A worker in a Ray actor, as the run sees it; see `netfl.simulation.workers.process.WorkerProcess`."""

    def __init__(self, ray: ModuleType, actor: Any, name: str) -> None:
        self._ray = ray
        self._actor = actor
        self._name = name
        self._results: deque[Any] = deque()

    def send(self, call: object) -> None:
        self._results.append(self._actor.call.remote(pack_message(call)))

    def receive(self) -> Any:
        try:
            answer = pickle.loads(self._ray.get(self._results.popleft()))  # noqa: S301 - from this run's own actor
        except self._ray.exceptions.RayError as error:
            raise MachineError(f"{self._name} has ended ({first_line(error)}){continuation()}") from error
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def close(self) -> None:
        self._ray.kill(self._actor)


def _check_address(address: str | None) -> None:
    """Try to connect to an *address* with a port, for which Ray would wait forever."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S).close()


@contextmanager
def _silence_worker_logs(ray: ModuleType) -> Iterator[None]:
    """Stop Ray from printing pages of logs when a node dies; Ray has no setting for that."""
    worker = ray._private.worker
    before = getattr(worker, "_worker_logs_enabled", True)
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before


def _environment() -> dict[str, str]:
    """Return the environment of workers: one thread each, and the paths of the user's modules and data.

    A ``PYTHONPATH`` of a node comes last, as netfl may be installed elsewhere on each node.
    """
    paths = [path for path in dict.fromkeys(map(os.path.abspath, sys.path)) if not _is_of_python(path)]
    paths.append("${PYTHONPATH}")
    variables = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    for name in ("NETFL_DATA", "NETFL_NO_PLUGINS", COMMAND_LINE):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables


def _is_of_python(path: str) -> bool:
    """Return whether a *path* of modules belongs to Python itself, which each node has in its own version."""
    if path.endswith(".zip") or Path(path).is_relative_to(sysconfig.get_path("stdlib")):
        return True
    return bool({"site-packages", "dist-packages"} & {*Path(path).parts})
