"""The versions of Flower that netfl supports, and the names that these versions keep in different places."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfl.errors import Fault, ScenarioError

OLDEST = (1, 22)
"""The first version of Flower with all strategies of the message API, such as `FedProx`."""
FIRST_UNSUPPORTED = (1, 43)
"""The first version that netfl has not been tried with."""

SUPPORTED = "flwr>=1.22,<1.43"
"""The supported versions, as pip writes them; a test compares them with ``pyproject.toml``."""


def check_flower() -> str:
    """Return the version of Flower, whose telemetry is switched off.

    Raises:
        ScenarioError: Flower is not installed, or netfl does not support its version.
    """
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read when Flower is imported
    remedy = "pip install 'netfl-sim[flower]'"
    try:
        version = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        raise ScenarioError([Fault("flower", "needs flwr, which is not installed", None, remedy)]) from None
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not OLDEST <= numbers < FIRST_UNSUPPORTED:
        problem = f"this version of flwr is not supported; netfl needs {SUPPORTED}"
        raise ScenarioError([Fault("flower", problem, version, remedy)])
    return version


def empty_run(run_id: int) -> Any:
    """Return Flower's description of a run that has only a number."""
    return _first_of("flwr.supercore.run", "flwr.common.typing").Run.create_empty(run_id)


def run_ended() -> BaseException:
    """Return the exception with which a grid ends the threads of Flower that still ask it after the run."""
    return _first_of("flwr.supercore.run", "flwr.common.typing").RunNotRunningException()  # type: ignore[no-any-return]


@contextmanager
def task_identity(run_id: int, node_id: int) -> Iterator[None]:
    """Let this process create messages as the ServerApp of a run; Flower needs this from version 1.37 on."""
    try:
        identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    except ModuleNotFoundError:
        yield
        return
    before = {name: getattr(identity, name, None) for name in ("_task_id", "_run_id", "_node_id")}
    identity.task_id = 1
    identity.run_id = run_id
    identity.node_id = node_id
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(identity, name, value)


def _first_of(*modules: str) -> Any:
    """Import the first module that exists."""
    for name in modules[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(modules[-1])
