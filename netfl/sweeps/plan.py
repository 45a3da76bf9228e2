"""Points of a sweep, and the tasks that run their missing results.

A *lane key* identifies a learner in one simulated network, independently of its name.  A *cell* is a lane key in one
replica, with the levels of its CVaR.  Points that differ only in their learners share a trace of the network, and their
lanes train as one batch.  A finished cell never runs again, even if the sweep has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from netfl.core.remedies import function
from netfl.errors import Fault, ScenarioError
from netfl.learning.payload import largest_payload
from netfl.results.formatting import format_setting
from netfl.scenario.path_errors import TASKS
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.sweep_axes import short_names
from netfl.scenario.yaml_document import ScenarioDocument, parse

NEUTRAL_KEYS = ("name", "description", "replicas", "track", "checkpoint")
"""Keys without effect on the results of a replica."""
_MAX_LISTED = 3
"""Maximum number of values of an axis that the label of a task lists."""
_MAX_NAME = 60
"""Maximum length of a lane's name."""
MAX_REPLICAS = 1_000_000
"""Limit for the replicas in a file; a damaged file with more would keep its readers busy."""
MAX_CELLS = 10_000_000
"""Largest number of cells of a sweep, which are listed before anything runs."""
Cell = tuple[str, int, frozenset[float]]
"""A lane key, a replica, and the levels of its CVaR."""
NETWORK = ""
"""Name of the lane of a scenario without learners."""


@dataclass(frozen=True)
class Point:
    """One combination of values.

    Args:
        values: values by dotted path.
        scenario: scenario of the sweep with these values.
        trace: key of the simulated network.
        lanes: lane key of each learner; without learners that of the network.
        levels: levels of the CVaR of all its learners.
    """

    values: Mapping[str, Any]
    scenario: Scenario
    trace: str
    lanes: Mapping[str, str]
    levels: frozenset[float]


class TaskEntry(BaseModel, frozen=True):
    """A task as the index of a sweep lists it."""

    trace: str
    """Key of the simulated network."""
    lanes: dict[str, str]
    """Name in the run of each lane key."""
    first: Annotated[int, Field(ge=0)]
    """First replica."""
    stop: Annotated[int, Field(le=MAX_REPLICAS)]
    """End of the replicas, exclusive."""
    levels: list[float]
    """Levels of the CVaR of all its lanes, in rising order."""
    label: str = ""
    """Readable label: the values of the axes, the replicas and the learners."""


class Task(TaskEntry, frozen=True):
    """One run of some lanes of a trace in some replicas."""

    text: str
    """Scenario of the run, as YAML."""
    learning: bool
    """With learners, or the access alone."""
    watched: str = ""
    """Metric of learners that is sent after each evaluation; empty for none."""

    @property
    def key(self) -> str:
        """Key of the task, which depends on its lanes and replicas but not on their order."""
        return "t" + _digest([self.trace, sorted(self.lanes), self.first, self.stop, self.levels])

    @property
    def name(self) -> str:
        """Label of the task, or its key without one."""
        return self.label or self.key

    @property
    def scenario(self) -> Scenario:
        """Scenario of the run."""
        return validate(ScenarioDocument(parse(self.text, self.name), self.name))


def task_folder(folder: Path, task: str) -> Path:
    """Return the folder of a task's run; a Hive-partitioned Parquet data set reads the task's key from its name.

    Args:
        folder: that of the sweep.
        task: the key of the task.
    """
    return folder / TASKS / f"task={task}"


def points_of(scenario: Scenario, *, learning: bool = True) -> list[Point]:
    """Return the points of a scenario's sweep.

    Args:
        scenario: a scenario with a sweep.
        learning: with learners, or the accesses alone.

    Raises:
        ScenarioError: there is no sweep, or points have errors; each error is listed once.
    """
    if scenario.sweep is None:
        problem = "missing: no key is varied"
        remedy = f"add dotted paths and lists, or use {function('run')}"
        raise ScenarioError(scenario.located([Fault("sweep", problem, None, remedy)]))
    try:
        combinations = [*scenario.sweep.points()]
    except ScenarioError as error:
        raise ScenarioError(scenario.located([fault.under("sweep") for fault in error.faults])) from None
    points = []
    faults: dict[str, Fault] = {}
    for values in combinations:
        try:
            points.append(make_point(values, scenario.at(values), learning))
        except ScenarioError as error:
            for fault in error.faults:
                faults.setdefault(str(fault), fault)
    if faults:
        raise ScenarioError(faults.values())
    cells = sum(len(point.lanes) for point in points) * scenario.replicas
    if cells > MAX_CELLS:
        problem = f"the points have {cells:,} learners in all replicas together, more than {MAX_CELLS:,}"
        remedy = "use fewer replicas, or divide the sweep"
        raise ScenarioError(scenario.located([Fault("replicas", problem, scenario.replicas, remedy)]))
    return points


def tasks_of(points: Sequence[Point], done: Callable[[Cell], object], max_lanes: int) -> list[Task]:
    """Return tasks for all cells of *points* that are not *done*.

    The division into tasks depends only on the missing cells, not on the engine.  Learners that depend on each other
    stay in one task.

    Args:
        points: points of one sweep.
        done: returns a true value for a finished cell.
        max_lanes: maximum number of lanes of a task, counted over its replicas.
    """
    by_trace: dict[str, list[Point]] = {}
    for point in points:
        by_trace.setdefault(point.trace, []).append(point)
    tasks = []
    for group in by_trace.values():
        scenario = group[0].scenario
        for replicas, lanes in _missing_lanes(group, done).items():
            size = _max_task_size(scenario, len(lanes), len(replicas), max_lanes)
            for first, stop in _split_gaps(replicas):
                for part, part_first, part_stop in _split_cells(lanes, first, stop, size):
                    tasks.append(_make_task(group, part, part_first, part_stop))
    return tasks


def _missing_lanes(group: Sequence[Point], done: Callable[[Cell], object]) -> dict[tuple[int, ...], list[str]]:
    """Return the lanes of points that share a trace, by the replicas that each lacks."""
    missing_replicas: dict[str, set[int]] = {lane: set() for point in group for lane in point.lanes.values()}
    for point in group:
        for lane, replica in product(point.lanes.values(), range(point.scenario.replicas)):
            if not done((lane, replica, point.levels)):
                missing_replicas[lane].add(replica)
    by_replicas: dict[tuple[int, ...], list[str]] = {}
    for lane, replicas in missing_replicas.items():
        by_replicas.setdefault(tuple(sorted(replicas)), []).append(lane)
    if _has_linked_learners(group[0].scenario):  # all lanes run together, in all replicas that one of them lacks
        every_lane = [lane for lanes in by_replicas.values() for lane in lanes]
        return {max(by_replicas, key=len): every_lane}
    return by_replicas


def _max_task_size(scenario: Scenario, lanes: int, replicas: int, max_lanes: int) -> int:
    """Return the largest number of lanes times replicas of a task, so that what must stay together does."""
    if scenario.tuning is not None:
        if scenario.tuning.per == "replica":
            return lanes
        return lanes * replicas  # the passes run once for all replicas
    if _has_linked_learners(scenario):
        return max(max_lanes, lanes)
    return max_lanes


def make_point(values: Mapping[str, Any], scenario: Scenario, learning: bool) -> Point:
    """Return the point with these *values*, of which *scenario* is the scenario; for *learning* see `points_of`."""
    settings = _settings_of(scenario)
    learners = settings.pop("learners")
    for key in NEUTRAL_KEYS:
        del settings[key]

    # the trace: all that changes the simulated network
    payload = scenario.largest_payload
    shared = [settings, payload.uplink_bits]
    if payload.downlink_bits != payload.uplink_bits:
        shared.append(payload.downlink_bits)
    if scenario.access.info.needs_samples:  # computing times are part of the trace
        works = {(spec.local_epochs, spec.local_steps, str(spec.batch_size)) for spec in scenario.learners.values()}
        shared.append(sorted(map(str, works)))
    if learning and _has_linked_learners(scenario):
        shared.append([*learners.items()])
    trace = _digest([shared, learning])

    # its lanes, and the levels at which their CVaR is computed
    lanes = {}
    levels: frozenset[float] = frozenset()
    if learning:
        lanes = {name: _digest([trace, spec]) for name, spec in learners.items()}
        learner_levels = (spec.objective.levels for spec in scenario.learners.values())
        levels = levels.union(scenario.evaluation.levels, *learner_levels)
    if not lanes:
        lanes = {NETWORK: _digest([trace])}
    return Point(values, scenario, trace, lanes, levels)


def _settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return the settings that identify results, without keys that later versions added and that have no effect.

    The step size of a learner with ``step_of`` takes its place, so that its lane does not depend on another learner;
    not with tuning, which chooses it.
    """
    settings = scenario.plain()
    for key in ("tuning", "replica_seed", "codec", "codec_down"):
        if settings[key] is None:
            del settings[key]
    if settings["evaluate"] is not None and settings["evaluate"]["on"] == "test":
        del settings["evaluate"]["on"]
    if scenario.tuning is None:
        for name, learner in settings["learners"].items():
            del learner["step_of"]
            learner["lr"] = scenario.learners[name].step_size
    return settings


def _has_linked_learners(scenario: Scenario) -> bool:
    """Return whether the result of a learner depends on the other learners."""
    if scenario.access.info.is_closed_loop:  # the network depends on all of them
        return True
    return bool(scenario.evaluation.choose) or scenario.tuning is not None  # a choice among them


def _split_gaps(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive *numbers*, the end exclusive.

    >>> [*_split_gaps([0, 1, 4])]
    [(0, 2), (4, 5)]
    """
    for _, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):  # which a gap increases
        members = [number for _, number in pairs]
        yield members[0], members[-1] + 1


def _split_cells(lanes: Sequence[str], first: int, stop: int, max_lanes: int) -> Iterator[tuple[list[str], int, int]]:
    """Yield parts of *lanes* and replicas with at most *max_lanes* lanes, as even as possible."""
    replicas = stop - first
    parts = -(-len(lanes) // max_lanes)  # rounded up
    replicas_of_part = max(1, max_lanes // len(lanes))
    spans = -(-replicas // replicas_of_part)
    for part in range(parts):
        begin = len(lanes) * part // parts
        end = len(lanes) * (part + 1) // parts
        for span in range(spans):
            yield [*lanes[begin:end]], first + replicas * span // spans, first + replicas * (span + 1) // spans


def _make_task(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> Task:
    """Return the task that runs *lanes* of points that share a trace, in the replicas from *first* to *stop*."""
    settings = _settings_of(points[0].scenario)
    settings["replicas"] = stop
    names = {lanes[0]: NETWORK}
    levels: list[float] = []
    learning = NETWORK not in points[0].lanes
    if learning:
        # the learner of each lane, at the first point that has it
        sources: dict[str, tuple[str, Point]] = {}
        for point in points:
            for name, lane in point.lanes.items():
                sources.setdefault(lane, (name, point))
        needed_lanes = {*lanes, *_largest_lanes(sources, lanes)}
        names = {}
        learners: dict[str, Any] = {}
        for lane, (name, point) in sources.items():
            if lane in needed_lanes:
                names[lane] = _name_lane(name, lane, points, point, learners)
                learners[names[lane]] = _settings_of(point.scenario)["learners"][name]
        levels = sorted({level for point in points for level in point.levels})
        settings["learners"] = learners
        settings["evaluate"] = {**(settings["evaluate"] or {}), "levels": levels}
    text = validate(ScenarioDocument(settings, "sweep")).to_yaml()
    return Task(
        trace=points[0].trace,
        lanes=names,
        first=first,
        stop=stop,
        levels=levels,
        label=_make_label(points, lanes, first, stop),
        text=text,
        learning=learning,
    )


def _largest_lanes(sources: Mapping[str, tuple[str, Point]], lanes: Sequence[str]) -> Iterator[str]:
    """Yield the lanes that a task of *lanes* needs to send the messages of its trace.

    They are longest if a learner has t, and if those with the largest update and the largest broadcast are among them.
    """
    with_t = []
    payloads = {}
    for lane, (name, point) in sources.items():
        if point.scenario.learners[name].objective.t_rate > 0:
            with_t.append(lane)
        payload = point.scenario.payloads.get(name)
        if payload is not None:
            payloads[lane] = payload

    # one lane of each group must be in the task
    groups = [with_t]
    if len({*payloads.values()}) > 1:
        largest = largest_payload(payloads)
        groups.append([lane for lane, payload in payloads.items() if payload.uplink_bits == largest.uplink_bits])
        groups.append([lane for lane, payload in payloads.items() if payload.downlink_bits == largest.downlink_bits])
    for group in groups:
        if {*lanes}.isdisjoint(group):
            yield from group[:1]


def _make_label(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> str:
    """Return the axis values of the points that *lanes* belong to, the replicas, and the learners if not all."""
    of_task = {*lanes}
    served = [point for point in points if of_task & {*point.lanes.values()}]
    parts = []
    for path, axis in short_names([*served[0].values]).items():
        values = [*dict.fromkeys(format_setting(point.values[path]) for point in served)]
        listed = "|".join(values)
        if len(values) > _MAX_LISTED:
            listed = f"{values[0]}…{values[-1]} ({len(values)} values)"
        parts.append(f"{axis}={listed}")
    if served[0].scenario.replicas > 1:
        parts.append(f"replica {first}" if stop == first + 1 else f"replicas {first} to {stop - 1}")
    learners = {name for point in served for name in point.lanes}
    learners_of_task = dict.fromkeys(name for point in served for name, lane in point.lanes.items() if lane in of_task)
    if len(learners_of_task) < len(learners):
        parts.append(" and ".join(learners_of_task))
    return ", ".join(parts)


def _name_lane(name: str, lane: str, points: Sequence[Point], point: Point, taken: Collection[str]) -> str:
    """Return the learner's name, followed by the point's values if the lane is not the same at all *points*."""
    if all(other.lanes.get(name) == lane for other in points):
        return name
    axes = short_names([path for path in point.values if path.startswith(f"learners.{name}.")])
    values = [f"{axis}={point.values[path]}" for path, axis in axes.items()]
    with_values = " ".join([name, *values]).replace("/", "|").replace("\n", " ")
    if values and len(with_values) <= _MAX_NAME and with_values not in taken:
        return with_values
    return f"{name} {lane}"


def _digest(content: object) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()
