"""Trackers of a run: its metrics are passed on to TensorBoard and MLflow while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from netfl.errors import MachineError, NetflError
from netfl.results.run_reader import EXTENSION
from netfl.results.run_writer import write_json
from netfl.scenario.tracking import TrackSpec
from netfl.types import LearnerReport, RunObserver, RunStart

PLACES = "tracked.json"
"""File of a run directory that holds the addresses of its trackers."""
_SINGLE = ("user:", "layer:")
"""Groups that are not tracked: there may be thousands."""

Lane = tuple[str, int]


class Tracker(Protocol):
    """Tracker of one run."""

    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Log the metrics of one lane after a round."""

    def summary(self, values: Mapping[str, float], replicas: int) -> None:
        """Log the summary of a finished run."""

    def close(self, status: str) -> None:
        """End the log: the run is done, interrupted or failed."""


class MetricTracker(RunObserver):
    """Observer that passes the metrics of a run on to its trackers.

    Args:
        trackers: the trackers by name.
        lanes: learner and replica of each lane, in the order of a report's arrays.
        command: the command that continues the run after a tracker has failed.
    """

    def __init__(self, trackers: Mapping[str, Tracker], lanes: Sequence[Lane], command: str) -> None:
        self._trackers, self._lanes, self._command = trackers, lanes, command
        self._first = min((replica for _, replica in lanes), default=0)
        self._folder: Path | None = None

    def on_start(self, start: RunStart) -> None:
        self._folder = start.folder

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Pass on an evaluation.

        Raises:
            MachineError: a tracker failed.
        """
        shared = {
            name: values for name, values in report.metrics.items() if not name.partition("/")[2].startswith(_SINGLE)
        }
        for place, lane in enumerate(self._lanes if shared and self._trackers else ()):
            values = {name: float(row[place]) for name, row in shared.items() if not np.isnan(row[place])}
            time_s = float(closed_s[lane[1] - self._first])
            self._each(methodcaller("log_metrics", lane, report.round, time_s, values))

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Close the trackers, after the summary of a finished run; an extension leaves the summary to the whole run."""
        if status == "done" and self._folder is not None and self._trackers and not self._first:
            self.log_summary(json.loads((self._folder / "summary.json").read_text(encoding="utf-8")))
        self._each(methodcaller("close", status))
        self._trackers = {}

    def log_summary(self, content: Mapping[str, Any]) -> None:
        """Pass on the summary of a finished run."""
        values = {key: float(value) for key, value in content.items() if isinstance(value, int | float)}
        self._each(methodcaller("summary", values, int(content["replicas"])))

    def _each(self, update: Callable[[Tracker], None]) -> None:
        for name, tracker in self._trackers.items():
            with _tracker_errors(name, self._command):
                update(tracker)


def open_trackers(
    spec: TrackSpec | None, folder: Path, scenario: Mapping[str, Any], lanes: Sequence[Lane], command: str
) -> MetricTracker:
    """Return the trackers that *spec* names, for the run in *folder*.

    Args:
        spec: the scenario's trackers; ``None`` for none, as in a trace.
        folder: the run directory, or that of an extension in it, which continues in the trackers of the run.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane; none where only the summary is passed on.
        command: the command that continues the run after a tracker has failed.

    Raises:
        MachineError: a tracker failed.
    """
    if spec is None:
        return MetricTracker({}, lanes, command)
    home = folder.parent if folder.name == EXTENSION else folder
    path, name = home / PLACES, home.absolute().name
    places: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    trackers: dict[str, Tracker] = {}
    try:
        if spec.tensorboard is not None:
            with _tracker_errors("tensorboard", command):
                from netfl.results.tracking.tensorboard import TensorBoard, new_log_folder

                place = Path(places.get("tensorboard") or new_log_folder(spec.tensorboard, name))
                places["tensorboard"] = str(place)
                trackers["tensorboard"] = TensorBoard(place, scenario, lanes)
        if spec.mlflow is not None:
            with _tracker_errors("mlflow", command):
                from netfl.results.tracking.mlflow import Mlflow

                experiment = spec.mlflow.experiment or str(scenario["name"])
                addresses = places.setdefault("mlflow", {})
                trackers["mlflow"] = Mlflow(spec.mlflow.tracking_uri, (experiment, name), scenario, lanes, addresses)
    finally:
        write_json(path, places)
    return MetricTracker(trackers, lanes, command)


@contextmanager
def _tracker_errors(name: str, command: str) -> Iterator[None]:
    try:
        yield
    except NetflError:
        raise
    except Exception as error:  # whatever packages of others raise
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = f"when that is fixed, continue with: {command}"
        raise MachineError(f"track.{name}: cannot log the run: {problem}; {remedy}") from error
