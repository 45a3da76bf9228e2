"""From the reports of a run to those whom its scenario wants to be told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from netfl.errors import MachineError, NetflError
from netfl.results.run_reader import EXTENSION
from netfl.results.run_writer import write_json
from netfl.scenario.tracking import TrackSpec
from netfl.types import LearnerReport

PLACES = "tracked.json"
"""The file of a run directory that says where the run is told of."""
_SINGLE = ("user:", "layer:")
"""Groups that are not told of: there may be thousands."""

Lane = tuple[str, int]


class TrackerUpdate(Protocol):
    """One who is told."""

    def figures(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """The figures of one lane after a round."""

    def summary(self, values: Mapping[str, float], replicas: int) -> None:
        """What a finished run came to."""

    def close(self, status: str) -> None:
        """Nothing more comes for now; the run is done, interrupted or failed."""


class MetricTracker:
    """Passes on what a run tells.

    Args:
        told: to whom.
        lanes: learner and replica of each lane, in the order of a report's arrays.
        again: the command that goes on with the run, when somebody could not be told.
    """

    def __init__(self, told: Mapping[str, TrackerUpdate], lanes: Sequence[Lane], again: str) -> None:
        self._told, self._lanes, self._again = told, lanes, again
        self._first = min((replica for _, replica in lanes), default=0)

    def metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """A report, and the simulated time of each replica.

        Raises:
            MachineError: somebody could not be told.
        """
        kept = {name: values for name, values in report.metrics.items() if not _of_one(name)}
        for place, lane in enumerate(self._lanes if kept and self._told else ()):
            values = {name: float(own[place]) for name, own in kept.items() if not np.isnan(own[place])}
            time_s = float(closed_s[lane[1] - self._first])
            self._each(methodcaller("figures", lane, report.round, time_s, values))

    def summary(self, content: Mapping[str, Any]) -> None:
        """The summary of a run that is done."""
        values = {key: float(value) for key, value in content.items() if isinstance(value, int | float)}
        self._each(lambda one: one.summary(values, int(content["replicas"])))

    def close(self, status: str) -> None:
        """The run ends, for now: it is done, interrupted or failed."""
        self._each(lambda one: one.close(status))
        self._told = {}

    def _each(self, tell: Callable[[TrackerUpdate], None]) -> None:
        """Tell everybody."""
        for name, one in self._told.items():
            with _blamed(name, self._again):
                tell(one)


@contextmanager
def open_trackers(
    spec: TrackSpec | None, folder: Path, scenario: Mapping[str, Any], lanes: Sequence[Lane], again: str
) -> Iterator[MetricTracker]:
    """Those whom *spec* names, told of the run in *folder*, and that it failed, if it does.

    Args:
        spec: what the scenario says; ``None``: nobody is told.
        folder: the run directory, or that of an extension in it, which is told of in the run's own place.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane; of a trace none, and nobody is told.
        again: the command that goes on with the run, when somebody could not be told.

    Raises:
        MachineError: somebody cannot be told.
    """
    home = folder.parent if folder.name == EXTENSION else folder
    follower = MetricTracker(_opened(spec, home, scenario, lanes, again) if lanes else {}, lanes, again)
    try:
        yield follower
    except BaseException:
        with suppress(MachineError):  # what went wrong first is told
            follower.close("failed")
        raise


def log_summary_again(
    spec: TrackSpec | None, folder: Path, scenario: Mapping[str, Any], summary: Mapping[str, Any], again: str
) -> None:
    """Tell the summary of a run in *folder* that has come to more replicas; *again* is the command to try it once more.

    Raises:
        MachineError: somebody cannot be told.
    """
    follower = MetricTracker(_opened(spec, folder, scenario, (), again), (), again)
    follower.summary(summary)
    follower.close("done")


def _opened(
    spec: TrackSpec | None, home: Path, scenario: Mapping[str, Any], lanes: Sequence[Lane], again: str
) -> dict[str, TrackerUpdate]:
    """Those whom *spec* names; the places that are new are written into the run directory."""
    if spec is None:
        return {}
    path, name = home / PLACES, home.absolute().name
    try:
        places: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise MachineError(f"{path} cannot be read: {error}") from error
    told: dict[str, TrackerUpdate] = {}
    try:
        if spec.tensorboard is not None:
            with _blamed("tensorboard", again):
                from netfl.results.tracking.tensorboard import TensorBoard, new_log_folder

                place = Path(places.get("tensorboard") or new_log_folder(spec.tensorboard, name))
                places["tensorboard"] = str(place)
                told["tensorboard"] = TensorBoard(place, scenario, lanes)
        if spec.mlflow is not None:
            with _blamed("mlflow", again):
                from netfl.results.tracking.mlflow import Mlflow

                experiment = spec.mlflow.experiment or str(scenario["name"])
                own = places.setdefault("mlflow", {})
                told["mlflow"] = Mlflow(spec.mlflow.store, (experiment, name), scenario, lanes, own)
    finally:
        write_json(path, places)
    return told


def _of_one(name: str) -> bool:
    """Whether a metric is that of a single user or layer."""
    return name.partition("/")[2].startswith(_SINGLE)


@contextmanager
def _blamed(name: str, again: str) -> Iterator[None]:
    """Say who could not be told."""
    try:
        yield
    except NetflError:
        raise
    except Exception as error:  # whatever packages of others raise
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = f"when that is mended, go on with: {again}"
        raise MachineError(f"track.{name}: cannot be told of the run: {problem}; {remedy}") from error
