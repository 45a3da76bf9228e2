"""Ray clusters: computers that work as one, where a sweep's tasks or one run's lanes can be done."""

from __future__ import annotations

import os
import signal
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from types import ModuleType

from netfl.errors import Fault, MachineError, ScenarioError

_PATIENCE_S = 5.0
"""Seconds in which a cluster answers."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and what each worker takes of it.

    Args:
        address: of the cluster, or ``auto`` for the one that this machine is part of; ``None`` starts Ray here.
        gpus: what share of a GPU each worker is given; from 1 on, whole ones.

    Raises:
        ScenarioError: there is no such share.
    """

    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            problem, remedy = "no such share of a GPU", "write a number from 0 to 1, or a whole one"
            raise ScenarioError([Fault("--gpus", problem, self.gpus, remedy)])

    @contextmanager
    def connected(self) -> Iterator[ModuleType]:
        """Ray, connected, as long as this lasts; a connection that is there already is used as it is, and kept.

        SIGTERM stays with who heeds it, from whom Ray would take it.

        Raises:
            ScenarioError: Ray is not installed.
            MachineError: there is no such cluster.
        """
        ray, terminated = imported(), signal.getsignal(signal.SIGTERM)
        if ray.is_initialized():
            yield ray
            return
        try:
            _knock(self.address)
            ray.init(self.address, include_dashboard=None if self.address else False, log_to_driver=False,
                     logging_level="ERROR", runtime_env={"env_vars": _settings()})  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
            where = "on this machine" if self.address is None else f"at '{self.address}'"
            remedy = "start one with ray start --head, or leave --address out to have one on this machine"
            raise MachineError(f"--address: no Ray cluster {where} ({reason(error)}); {remedy}") from error
        if callable(terminated) and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, terminated)
        with _silent(ray):
            try:
                yield ray
            finally:
                ray.shutdown()

    def room(self, ray: ModuleType) -> int:
        """How many workers the nodes that are there hold at once, if nobody else is at work on them.

        Args:
            ray: connected.

        Raises:
            MachineError: none at all, for which Ray would wait without an end.
        """
        found = sum(self._held(node["Resources"]) for node in ray.nodes() if node["Alive"])
        if not found:
            wanted = f"a core and {self.gpus:g} of a GPU" if self.gpus else "a core"
            raise MachineError(
                f"no node of the Ray cluster has {wanted} for a worker; add one, or ask for less by --gpus"
            )
        return found

    def _held(self, resources: Mapping[str, float]) -> int:
        """How many workers a node of such *resources* holds; one GPU's shares are of that GPU."""
        cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        if not self.gpus:
            return cores
        return min(cores, gpus * int(1 / self.gpus) if self.gpus < 1 else gpus // int(self.gpus))


def _knock(address: str | None) -> None:
    """See that somebody is at an *address* that names a port, for which Ray would wait without an end.

    Raises:
        OSError: nobody is.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()


def imported() -> ModuleType:
    """Ray, which is optional and slow to import.

    Raises:
        ScenarioError: it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        problem, remedy = "needs ray, which is not installed", "pip install 'netfl-sim[ray]'"
        raise ScenarioError([Fault("--engine", problem, "ray", remedy)]) from None


@contextmanager
def _silent(ray: ModuleType) -> Iterator[None]:
    """Keep pages of logs off the standard output that Ray writes there when a node dies; it has no setting for that."""
    worker, name = ray._private.worker, "_worker_logs_enabled"
    before = getattr(worker, name, True)
    setattr(worker, name, False)
    try:
        yield
    finally:
        setattr(worker, name, before)


def reason(error: Exception) -> str:
    """What Ray says of an *error*, in one line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _settings() -> dict[str, str]:
    """What workers are told: one thread each, and where modules and data of the user's lie, if there too.

    What nodes have in a ``PYTHONPATH`` of their own comes behind that, as netfl may lie elsewhere on each.
    """
    own = os.pathsep.join([*dict.fromkeys(filter(_outside, map(os.path.abspath, sys.path))), "${PYTHONPATH}"])
    told = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": own}
    return told | {name: os.environ[name] for name in ("NETFL_DATA", "NETFL_NO_PLUGINS") if name in os.environ}


def _outside(path: str) -> bool:
    """Whether *path* is none of Python's own, which each node has itself, of its own version."""
    if {"site-packages", "dist-packages"} & {*Path(path).parts} or path.endswith(".zip"):
        return False
    return not Path(path).is_relative_to(sysconfig.get_path("stdlib"))
