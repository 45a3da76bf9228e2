"""Trackers of a run: its metrics are passed on to other tools while it runs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from netfl.core.kinds import kind_of, stream_keys
from netfl.core.plugins import is_plugin, one_line, one_line_of
from netfl.errors import Fault, MachineError, ScenarioError, is_explained
from netfl.results.atomic_write import write_json
from netfl.results.run_reader import EXTENSION, PASSES
from netfl.tracker import Lane, RunLog, TrackedRun, Tracker
from netfl.types import LearnerReport, RunObserver, RunStart

PLACES = "tracked.json"
"""File of a run directory that holds what its trackers remember, such as the addresses of their logs."""
_SINGLE = ("user:", "layer:")
"""Groups that are not tracked: there may be thousands."""


class MetricTracker(RunObserver):
    """Observer that passes the metrics of a run on to the logs of its trackers.

    Args:
        logs: the open logs, each with its tracker.
        lanes: learner and replica of each lane, in the order of a report's arrays.
        command: the command that continues the run after a tracker has failed.
    """

    def __init__(self, logs: Sequence[tuple[Tracker, RunLog]], lanes: Sequence[Lane], command: str) -> None:
        self._logs = logs
        self._lanes = lanes
        self._command = command
        self._first = min((replica for _, replica in lanes), default=0)
        self._folder: Path | None = None

    def on_start(self, start: RunStart) -> None:
        self._folder = start.folder

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Pass on an evaluation.

        Raises:
            MachineError: a tracker failed.
        """
        tracked = {}
        for name, of_lanes in report.metrics.items():
            _, _, group = name.partition("/")
            if not group.startswith(_SINGLE):
                tracked[name] = of_lanes
        if not tracked or not self._logs:
            return
        for place, lane in enumerate(self._lanes):
            values = _values_at(tracked, place)
            _, replica = lane
            number = replica - self._first  # among the replicas that run
            values |= _values_at(report.of_access, number)
            if values:  # none of a replica that has ended
                time_s = float(closed_s[number])
                self._each(methodcaller("log_metrics", lane, report.round, time_s, values))

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Close the logs, after the summary of a finished run; an extension leaves the summary to the whole run."""
        if status == "done" and self._folder is not None and self._logs and not self._first:
            self.log_summary(json.loads((self._folder / "summary.json").read_text(encoding="utf-8")))
        self._each(methodcaller("close", status))
        self._logs = ()

    def log_summary(self, content: Mapping[str, Any]) -> None:
        """Pass on the summary of a finished run."""
        values = {key: float(value) for key, value in content.items() if isinstance(value, int | float)}
        self._each(methodcaller("log_summary", values, int(content["replicas"])))

    def _each(self, update: Callable[[RunLog], None]) -> None:
        for tracker, log in self._logs:
            with _tracker_errors(tracker, self._command):
                update(log)


def _values_at(metrics: Mapping[str, Any], place: int) -> dict[str, float]:
    """Return the value of each metric at a *place* of its array; without those that are NaN."""
    return {name: float(values[place]) for name, values in metrics.items() if not np.isnan(values[place])}


def open_trackers(
    trackers: Sequence[Tracker], folder: Path, scenario: Mapping[str, Any], lanes: Sequence[Lane], command: str
) -> MetricTracker:
    """Open the logs of *trackers* for the run in *folder*.

    Args:
        trackers: the scenario's trackers; none in a trace.
        folder: the run directory, or that of an extension in it, which continues in the logs of the run.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane; none if only the summary is passed on.
        command: the command that continues the run after a tracker has failed.

    Raises:
        MachineError: a tracker failed.
    """
    if not trackers:
        return MetricTracker((), lanes, command)
    home = folder.absolute()
    if folder.name == EXTENSION:
        home = home.parent
    elif home.parent.parent.name == PASSES:  # of a replica that is tuned by itself
        home = home.parents[2]
    path = home / PLACES
    memories: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    logs: list[tuple[Tracker, RunLog]] = []
    try:
        for tracker, (number, kind) in zip(trackers, stream_keys(trackers), strict=True):
            name = f"{kind} {number + 1}" if number else kind
            memory = memories.setdefault(name, {})
            with _tracker_errors(tracker, command):
                log: object = tracker.open(TrackedRun(home, scenario, lanes, memory))
                if not isinstance(log, RunLog):
                    raise TypeError(f"its method 'open' returns {log!r:.60} instead of a RunLog")
                logs.append((tracker, log))
    finally:
        write_json(path, memories)
    return MetricTracker(logs, lanes, command)


def check_packages(trackers: Sequence[Tracker]) -> None:
    """Check that the packages of all *trackers* are installed.

    Raises:
        ScenarioError: with all missing packages; keys are places in the list.
    """
    faults = []
    for number, tracker in enumerate(trackers):
        missing = [package for package in tracker.packages if importlib.util.find_spec(package) is None]
        if not missing:
            continue
        verb = "is" if len(missing) == 1 else "are"
        problem = f"needs {' and '.join(missing)}, which {verb} not installed"
        if tracker.requirement:
            remedy = f"pip install '{tracker.requirement}'"
        else:
            remedy = f"pip install {' '.join(missing)}"
        faults.append(Fault(str(number), problem, kind_of(type(tracker)), remedy))
    if faults:
        raise ScenarioError(faults)


@contextmanager
def _tracker_errors(tracker: Tracker, command: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever packages of others raise
        if is_explained(error):
            raise
        remedy = f"when that is fixed, continue with: {command}"
        kind = kind_of(type(tracker))
        problem = one_line_of(error, tracker) if is_plugin(tracker) else one_line(error)
        raise MachineError(f"track: {kind} cannot log the run: {problem}; {remedy}") from error
