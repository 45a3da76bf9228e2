"""Ray clusters: computers that work as one, where a sweep's tasks or one run's lanes can be done."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from netfl.errors import Fault, MachineError, ScenarioError

_PATIENCE_S = 5.0
"""Seconds in which a cluster answers."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and what each worker takes of it.

    Args:
        address: of the cluster, or ``auto`` for the one that this machine is part of; ``None`` starts Ray here.
        gpus: what share of a GPU each worker is given.
    """

    address: str | None = None
    gpus: float = 0.0

    @contextmanager
    def connected(self) -> Iterator[ModuleType]:
        """Ray, connected, as long as this lasts; a connection that is there already is used, and kept.

        Raises:
            ScenarioError: Ray is not installed.
            MachineError: there is no such cluster.
        """
        ray = imported()
        if ray.is_initialized():
            yield ray
            return
        try:
            _knock(self.address)
            ray.init(self.address, include_dashboard=None if self.address else False, log_to_driver=False,
                     logging_level="ERROR", runtime_env={"env_vars": _settings()})  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
            where = "on this machine" if self.address is None else f"at '{self.address}'"
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            remedy = "start one with ray start --head, or leave --address out to have one on this machine"
            raise MachineError(f"--address: no Ray cluster {where} ({reason}); {remedy}") from error
        try:
            yield ray
        finally:
            ray.shutdown()


def _knock(address: str | None) -> None:
    """See that somebody is at an *address* that names a port, for which Ray would wait without an end.

    Raises:
        OSError: nobody is.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), _PATIENCE_S).close()


def imported() -> ModuleType:
    """Ray.

    Raises:
        ScenarioError: it is not installed.
    """
    try:
        import ray  # noqa: PLC0415 - optional, and slow
    except ImportError:
        problem, remedy = "needs ray, which is not installed", "pip install 'netfl[ray]'"
        raise ScenarioError([Fault("--engine", problem, "ray", remedy)]) from None
    return ray


def _settings() -> dict[str, str]:
    """What workers are told: one thread each, and where modules and data of the user's lie, if there too."""
    paths = [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - a word in a list of words
    told = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    return told | {name: os.environ[name] for name in ("NETFL_DATA",) if name in os.environ}
