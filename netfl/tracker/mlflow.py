"""Tracker for MLflow."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from netfl.errors import Fault, ScenarioError
from netfl.tracker import Lane, RunLog, TrackedRun, Tracker

if TYPE_CHECKING:
    from mlflow.entities import Metric

_EVERY_S = 10.0
"""Wall-clock seconds between writes of gathered metrics."""
_BATCH = 1000
"""Metrics in one call."""
_PARAMETERS = 100
"""Parameters in one call."""
_LONGEST = 500
"""The largest number of characters of a parameter."""
_ROUND = "netfl.round"
"""Tag of a child run with the last round that it has."""
_STATUS = {"done": "FINISHED", "interrupted": "KILLED"}


def _address(store: str) -> str:
    """Return the address of a store, with an absolute path if it is a file."""
    relative = re.match(r"sqlite:///(?!/)(.+)", store)
    if relative:
        return f"sqlite:///{Path(relative[1]).absolute()}"
    if "://" not in store:
        raise ValueError("not the address of a store; write one such as sqlite:///mlflow.db or http://localhost:5000")
    return store


class Mlflow(Tracker):
    """An MLflow store: one run with the summary, and below it a child run for each learner and replica.

    The scenario is the parameters of the run, the learner those of its child runs.  Times are simulated times.  A
    resumed run logs nothing twice: the tag ``netfl.round`` of each child run is the last round that it has.

    Example::

        kind: mlflow
        tracking_uri: sqlite:///mlflow.db
        experiment: outages
    """

    packages: ClassVar[tuple[str, ...]] = ("mlflow", "sqlalchemy", "alembic")  # the latter two for databases
    requirement: ClassVar[str] = "netfl-sim[mlflow]"
    tracking_uri: Annotated[str, AfterValidator(_address)] = Field("sqlite:///mlflow.db", validate_default=True)
    """Address of the store: a database (by default a file in the current directory) or a server."""
    experiment: Annotated[str, Field(min_length=1)] | None = None
    """Name of the experiment, which is made if necessary; the scenario's name by default."""

    def open(self, run: TrackedRun) -> RunLog:
        return _MlflowLog(self.tracking_uri, self.experiment or str(run.scenario["name"]), run)


class _MlflowLog(RunLog):
    def __init__(self, store: str, experiment: str, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read on import
        from mlflow.tracking import MlflowClient

        for package in ("mlflow", "alembic"):
            logging.getLogger(package).setLevel(logging.WARNING)
        self._client = MlflowClient(tracking_uri=store)
        self._names = _Names("metrics")  # of the child runs, which a user compares
        self._held: dict[Lane, list[Metric]] = {lane: [] for lane in run.lanes}  # not written yet
        self._written_at = time.monotonic()
        self._time_s = 0.0
        memory = run.memory
        if "run" not in memory:
            memory["experiment"] = self._experiment(experiment)
            memory["run"] = self._open(memory["experiment"], run.name, {}, dict(_flat(run.scenario)))
        self._whole: str = memory["run"]
        children = memory.setdefault("lanes", {})
        self._lanes: dict[Lane, str] = {}
        for lane in run.lanes:
            learner, replica = lane
            name = f"{learner}-{replica}"
            if name not in children:
                parent = {"mlflow.parentRunId": self._whole}
                parameters = dict(_flat(run.scenario["learners"].get(learner, {})))
                parameters["replica"] = str(replica)
                children[name] = self._open(memory["experiment"], name, parent, parameters)
            self._lanes[lane] = children[name]
        self._rounds: dict[Lane, int] = {}  # the last that is written
        for lane, child in self._lanes.items():
            self._rounds[lane] = int(self._client.get_run(child).data.tags.get(_ROUND, -1))
            self._client.update_run(child, status="RUNNING")
        self._client.update_run(self._whole, status="RUNNING")

    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Gather the metrics of a lane, and write them from time to time."""
        self._time_s = max(self._time_s, time_s)
        if round > self._rounds[lane]:
            self._held[lane] += _metrics(self._names, values, time_s, round)
        if time.monotonic() - self._written_at > _EVERY_S:
            self._write()

    def log_summary(self, values: Mapping[str, float], replicas: int) -> None:
        self._log(self._whole, _metrics(_Names("metrics"), values, self._time_s, replicas))

    def close(self, status: str) -> None:
        self._write()
        for run in (*self._lanes.values(), self._whole):
            self._client.set_terminated(run, status=_STATUS.get(status, "FAILED"))

    def _write(self) -> None:
        for lane, held in self._held.items():
            if held:
                child = self._lanes[lane]
                last_round = held[-1].step
                self._log(child, held)
                self._rounds[lane] = last_round
                self._client.set_tag(child, _ROUND, str(last_round))
                self._held[lane] = []
        self._written_at = time.monotonic()

    def _log(self, run: str, metrics: Sequence[Metric]) -> None:
        for start in range(0, len(metrics), _BATCH):
            self._client.log_batch(run, metrics=metrics[start : start + _BATCH])

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is made if it does not exist."""
        existing = self._client.get_experiment_by_name(name)
        if existing:
            return str(existing.experiment_id)
        return str(self._client.create_experiment(name))

    def _open(self, experiment: str, name: str, tags: Mapping[str, str], parameters: Mapping[str, str]) -> str:
        from mlflow.entities import Param

        run = str(self._client.create_run(experiment, run_name=name, tags=dict(tags)).info.run_id)
        names = _Names("parameters")
        entries = [Param(names.accepted(key), value) for key, value in parameters.items()]
        for start in range(0, len(entries), _PARAMETERS):
            self._client.log_batch(run, params=entries[start : start + _PARAMETERS])
        return run


class _Names:
    """Names of metrics or parameters in MLflow, which has ``_`` in place of the characters that it refuses."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._names: dict[str, str] = {}  # by that in MLflow

    def accepted(self, name: str) -> str:
        """Return *name* as MLflow accepts it.

        Raises:
            ScenarioError: another one has this name there.
        """
        accepted = re.sub(r"[^\w./: -]", "_", name)
        other = self._names.setdefault(accepted, name)
        if other != name:
            problem = f"the {self._kind} '{other}' and '{name}' have one name in MLflow"
            remedy = "use letters, digits and underscores in the names of learners, test sets and blocks"
            raise ScenarioError([Fault("track", problem, accepted, remedy)])
        return accepted


def _metrics(names: _Names, values: Mapping[str, float], time_s: float, step: int) -> list[Metric]:
    from mlflow.entities import Metric

    return [Metric(names.accepted(name), value, int(time_s * 1000), step) for name, value in values.items()]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the parameters in nested mappings by their dotted path; lists of mappings are numbered."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _flat(entry, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for place, entry in enumerate(value):
            yield from _flat(entry, f"{key}.{place}")
    elif value is not None:
        text = str(value)
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST - 1]}…"
        yield key, text
