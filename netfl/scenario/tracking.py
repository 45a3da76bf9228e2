"""The section ``track``: trackers that receive the metrics of learners during a run.

TensorBoard and MLflow are optional and imported only if a scenario asks for them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.registry import Spec
from netfl.types import ScenarioFacts

_NEEDED = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""Packages that each tracker needs; the last two are for MLflow stores that are databases."""


def _address(store: str) -> str:
    """Return the address of a store, with an absolute path if it is a file."""
    if match := re.match(r"sqlite:///(?!/)(.+)", store):
        return f"sqlite:///{Path(match[1]).absolute()}"
    if "://" not in store:
        raise ValueError("not the address of a store; write one such as sqlite:///mlflow.db or http://localhost:5000")
    return store


class MlflowSpec(Spec):
    """The MLflow store of a run."""

    tracking_uri: Annotated[str, AfterValidator(_address)] = Field("sqlite:///mlflow.db", validate_default=True)
    """Address of the store: a database (by default a file in the current directory) or a server."""
    experiment: Annotated[str, Field(min_length=1)] | None = None
    """Name of the experiment; the scenario's name by default."""


class TrackSpec(Spec):
    """Trackers that receive the metrics of each learner and replica during the run."""

    tensorboard: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    """Folder for TensorBoard; the run gets a subfolder.  A relative path starts at the current directory."""
    mlflow: MlflowSpec | None = None
    """MLflow store; the run gets one child run for each learner and replica."""

    @model_validator(mode="after")
    def _has_tracker(self) -> TrackSpec:
        if self.tensorboard is None and self.mlflow is None:
            raise ValueError("has no tracker; give tensorboard: FOLDER or mlflow: {}, or leave it out")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not facts.trained:
            yield Fault("", "has no effect without learners", None, "add 'learners', or leave it out")


def check(spec: TrackSpec | None) -> None:
    """Check that the packages of the trackers are installed.

    Raises:
        ScenarioError: with all missing packages; keys relative to *spec*.
    """
    faults = []
    for name, packages in _NEEDED.items():
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        if getattr(spec, name, None) is not None and missing:
            problem = f"needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
            faults.append(Fault(name, problem, None, f"pip install 'netfl-sim[{name}]'"))
    if faults:
        raise ScenarioError(faults)
