"""Figures for TensorBoard and MLflow while a run goes on: what a scenario says of that, and who passes it on.

Both are optional, and imported only where a scenario asks for them.  As a run that goes on tells all that was told
before once more, each takes care that nothing stands there twice.
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
"""The packages without which each cannot be used, the last ones for stores that are databases."""


def _address(store: str) -> str:
    """The address of a store; that of a file from the root on."""
    found = re.match(r"sqlite:///(?!/)(.+)", store)
    if found:
        return f"sqlite:///{Path(found[1]).absolute()}"
    if "://" not in store:
        raise ValueError("no address of a store; write one such as sqlite:///mlflow.db or http://localhost:5000")
    return store


class MlflowSpec(Spec):
    """Where MLflow keeps the figures of a run."""

    store: Annotated[str, AfterValidator(_address)] = Field("sqlite:///mlflow.db", validate_default=True)
    """The address of the store: a database, by default a file in the current directory, or a server."""
    experiment: Annotated[str, Field(min_length=1)] | None = None
    """What the run belongs to; by default the scenario's name."""


class TrackSpec(Spec):
    """Who is told the metrics of each learner and replica, while the run goes on."""

    tensorboard: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    """A folder for TensorBoard; the run has a folder of its own in it.  A relative path starts at the current one."""
    mlflow: MlflowSpec | None = None
    """An MLflow store, in which the run stands with one run below it for each learner and replica."""

    @model_validator(mode="after")
    def _somebody(self) -> TrackSpec:
        """Somebody is told."""
        if self.tensorboard is None and self.mlflow is None:
            raise ValueError("tells nobody; give tensorboard: FOLDER, or mlflow: {}, or leave it out")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """There must be something to tell."""
        if not facts.trained:
            yield Fault("", "has no effect without learners", None, "add 'learners', or leave it out")


def check(spec: TrackSpec | None) -> None:
    """See that the packages are there.

    Raises:
        ScenarioError: with all that are not; keys relative to *spec*.
    """
    faults = []
    for name, packages in _NEEDED.items():
        missing = [one for one in packages if importlib.util.find_spec(one) is None]
        if getattr(spec, name, None) is not None and missing:
            problem = f"needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
            faults.append(Fault(name, problem, None, f"pip install 'netfl-sim[{name}]'"))
    if faults:
        raise ScenarioError(faults)
