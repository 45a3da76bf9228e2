"""MLflow tracker: one run with the summary, and below it one for each learner and replica.

MLflow's times are simulated times.  A resumed run repeats its metrics; the tag of each MLflow run holds the last round
that it has, and repeated rounds are skipped.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read on import

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

_EVERY_S = 10.0
"""Wall-clock seconds between writes of gathered metrics."""
_BATCH = 1000
"""Metrics in one call."""
_PARAMETERS = 100
_LONGEST = 500
_ROUND = "netfl.round"
_STATUS = {"done": "FINISHED", "interrupted": "KILLED"}

Lane = tuple[str, int]


class Mlflow:
    """Tracker that writes into an MLflow store.

    Args:
        store: the address of the store.
        names: the names of the experiment, which is made if necessary, and of the run.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane; none where only the summary is written.
        places: ids of the existing MLflow runs; those of new ones are added.
    """

    def __init__(
        self,
        store: str,
        names: tuple[str, str],
        scenario: Mapping[str, Any],
        lanes: Sequence[Lane],
        places: dict[str, Any],
    ) -> None:
        experiment, name = names
        for package in ("mlflow", "alembic"):
            logging.getLogger(package).setLevel(logging.WARNING)
        self._client = MlflowClient(tracking_uri=store)
        self._held: dict[Lane, list[Metric]] = {lane: [] for lane in lanes}
        self._rounds: dict[Lane, int] = {}
        self._written_at, self._time_s = time.monotonic(), 0.0
        if "run" not in places:
            existing = self._client.get_experiment_by_name(experiment)
            places["experiment"] = existing.experiment_id if existing else self._client.create_experiment(experiment)
            places["run"] = self._open(places["experiment"], name, {}, dict(_flat(scenario)))
        self._whole = places["run"]
        runs = places.setdefault("lanes", {})
        for lane in lanes:
            if (key := f"{lane[0]}-{lane[1]}") not in runs:
                parameters = dict(_flat(scenario["learners"].get(lane[0], {}))) | {"replica": str(lane[1])}
                runs[key] = self._open(places["experiment"], key, {"mlflow.parentRunId": self._whole}, parameters)
        self._lanes = {lane: runs[f"{lane[0]}-{lane[1]}"] for lane in lanes}
        for lane, run in self._lanes.items():
            self._rounds[lane] = int(self._client.get_run(run).data.tags.get(_ROUND, -1))
            self._client.update_run(run, status="RUNNING")
        self._client.update_run(self._whole, status="RUNNING")

    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Gather the metrics of a lane, and write them from time to time."""
        self._time_s = max(self._time_s, time_s)
        if round > self._rounds[lane]:
            at_ms = int(time_s * 1000)
            self._held[lane] += [Metric(_name(name), value, at_ms, round) for name, value in values.items()]
        if time.monotonic() - self._written_at > _EVERY_S:
            self._write()

    def summary(self, values: Mapping[str, float], replicas: int) -> None:
        """Write the summary, with the number of replicas as the step."""
        at_ms = int(self._time_s * 1000)
        self._log(self._whole, [Metric(_name(name), value, at_ms, replicas) for name, value in values.items()])

    def close(self, status: str) -> None:
        """Write the rest and the status of the run."""
        self._write()
        for run in (*self._lanes.values(), self._whole):
            self._client.set_terminated(run, status=_STATUS.get(status, "FAILED"))

    def _write(self) -> None:
        for lane, held in self._held.items():
            if held:
                self._log(self._lanes[lane], held)
                self._rounds[lane] = held[-1].step
                self._client.set_tag(self._lanes[lane], _ROUND, str(held[-1].step))
                self._held[lane] = []
        self._written_at = time.monotonic()

    def _log(self, run: str, metrics: Sequence[Metric]) -> None:
        for place in range(0, len(metrics), _BATCH):
            self._client.log_batch(run, metrics=metrics[place : place + _BATCH])

    def _open(self, experiment: str, name: str, tags: Mapping[str, str], parameters: Mapping[str, str]) -> str:
        run = str(self._client.create_run(experiment, run_name=name, tags=dict(tags)).info.run_id)
        entries = [Param(_name(key), value) for key, value in parameters.items()]
        for place in range(0, len(entries), _PARAMETERS):
            self._client.log_batch(run, params=entries[place : place + _PARAMETERS])
        return run


def _name(name: str) -> str:
    return re.sub(r"[^\w./: -]", "_", name)


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _flat(entry, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for place, entry in enumerate(value):
            yield from _flat(entry, f"{key}.{place}")
    elif value is not None:
        text = str(value)
        yield key, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
