"""Points of a sweep, and the tasks that run their missing results.

A *lane key* identifies a learner in one simulated network, independently of its name.  A *cell* is a lane key in one
replica, with the levels of its CVaR.  Points that differ only in their learners share a trace of the network, and their
lanes train as one batch.  A finished cell never runs again, even if the sweep has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import product
from typing import Any

from netfl.errors import Fault, ScenarioError
from netfl.results.formatting import format_setting
from netfl.scenario.scenario import Scenario, checked
from netfl.scenario.sweep_axes import short_names
from netfl.scenario.yaml_document import ScenarioDocument, parse, plain_value

_NEUTRAL_KEYS = ("name", "description", "replicas", "track", "checkpoint")
"""Keys without effect on the results of a replica."""
_MAX_LISTED = 3
"""Maximum number of values of an axis that the label of a task lists."""
_MAX_NAME = 60
"""Maximum length of a lane's name."""
Cell = tuple[str, int, frozenset[float]]
"""A lane key, a replica, and the levels of its CVaR."""
NETWORK = ""
"""Name of the lane of a scenario without learners."""


@dataclass(frozen=True)
class Point:
    """One combination of values.

    Args:
        number: index of the point.
        values: values by dotted path.
        scenario: scenario of the sweep with these values.
        trace: key of the simulated network.
        lanes: lane key of each learner; without learners that of the network.
        levels: levels of the CVaR of all its learners.
    """

    number: int
    values: Mapping[str, Any]
    scenario: Scenario
    trace: str
    lanes: Mapping[str, str]
    levels: frozenset[float]

    @property
    def cells(self) -> Iterator[Cell]:
        """Cells of the point: each lane key in each replica."""
        for lane, replica in product(self.lanes.values(), range(self.scenario.replicas)):
            yield lane, replica, self.levels


@dataclass(frozen=True)
class Task:
    """One run of some lanes of a trace in some replicas.

    Args:
        trace: key of the simulated network.
        lanes: name in the run of each lane key.
        first: first replica.
        stop: end of the replicas, exclusive.
        levels: levels of the CVaR of all its lanes.
        text: scenario of the run, as YAML.
        learning: with learners, or the access alone.
        label: readable label: the values of the axes, the replicas and the learners.
    """

    trace: str
    lanes: Mapping[str, str]
    first: int
    stop: int
    levels: frozenset[float]
    text: str
    learning: bool
    label: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Key of the task, which depends on its lanes and replicas but not on their order."""
        return "t" + _digest([self.trace, sorted(self.lanes), self.first, self.stop, sorted(self.levels)])

    @property
    def name(self) -> str:
        """Label of the task, or its key without one."""
        return self.label or self.key

    @property
    def scenario(self) -> Scenario:
        """Scenario of the run."""
        return checked(ScenarioDocument(plain_value(parse(self.text, self.name)), self.name))


def points_of(scenario: Scenario, *, learning: bool = True) -> list[Point]:
    """Return the points of a scenario's sweep.

    Args:
        scenario: a scenario with a sweep.
        learning: with learners, or the accesses alone.

    Raises:
        ScenarioError: there is no sweep, or points have errors; each error is listed once.
    """
    if scenario.sweep is None:
        problem, remedy = "missing: there is nothing to vary", "add dotted paths and lists, or take netfl run"
        raise ScenarioError(scenario.located([Fault("sweep", problem, None, remedy)]))
    points, faults = list[Point](), dict[str, Fault]()
    try:
        combinations = [*scenario.sweep.points()]
    except ScenarioError as error:
        raise ScenarioError(scenario.located([fault.under("sweep") for fault in error.faults])) from None
    for number, values in enumerate(combinations):
        try:
            points.append(_make_point(number, values, scenario.at(values), learning))
        except ScenarioError as error:
            faults |= {str(fault): fault for fault in error.faults if str(fault) not in faults}
    if faults:
        raise ScenarioError(faults.values())
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
    tasks = []
    for group in _group_by_trace(points).values():
        scenario = group[0].scenario
        missing_replicas: dict[str, set[int]] = {lane: set() for point in group for lane in point.lanes.values()}
        for cell in (cell for point in group for cell in point.cells if not done(cell)):
            missing_replicas[cell[0]].add(cell[1])
        missing: dict[tuple[int, ...], list[str]] = {}
        for lane, replicas in missing_replicas.items():
            missing.setdefault(tuple(sorted(replicas)), []).append(lane)
        if _has_linked_learners(scenario):
            missing = {max(missing, key=len): [lane for lanes in missing.values() for lane in lanes]}
        for numbers, lanes in missing.items():
            size = max(max_lanes, len(lanes)) if _has_linked_learners(scenario) else max_lanes
            tasks += [
                _make_task(group, *part) for span in _split_gaps(numbers) for part in _split_cells(lanes, *span, size)
            ]
    return tasks


def _make_point(number: int, values: Mapping[str, Any], scenario: Scenario, learning: bool) -> Point:
    settings = scenario.plain()
    learners = settings.pop("learners")
    for key in _NEUTRAL_KEYS:
        del settings[key]
    shared = [settings, scenario.update_bits]
    works = {(spec.local_epochs, spec.local_steps, str(spec.batch_size)) for spec in scenario.learners.values()}
    if scenario.access.info.needs_samples:  # computing times are part of the trace
        shared.append(sorted(map(str, works)))
    if learning and _has_linked_learners(scenario):
        shared.append([*learners.items()])
    trace = _digest([shared, learning])
    lanes = {name: _digest([trace, spec]) for name, spec in learners.items()} if learning else {}
    learner_levels = (spec.objective.levels for spec in scenario.learners.values())
    levels = frozenset().union(scenario.evaluation.levels, *learner_levels) if learning else frozenset[float]()
    return Point(number, values, scenario, trace, lanes or {NETWORK: _digest([trace])}, levels)


def _has_linked_learners(scenario: Scenario) -> bool:
    """Return whether the result of a learner depends on the other learners."""
    return scenario.access.info.is_closed_loop or bool(scenario.evaluation.choose)


def _group_by_trace(points: Sequence[Point]) -> dict[str, list[Point]]:
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.trace, []).append(point)
    return groups


def _split_gaps(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive *numbers*, the end exclusive.

    >>> [*_split_gaps([0, 1, 4])]
    [(0, 2), (4, 5)]
    """
    for at, number in enumerate(numbers):
        if at == 0 or numbers[at - 1] != number - 1:
            stop = number
            while stop in numbers:
                stop += 1
            yield number, stop


def _split_cells(lanes: Sequence[str], first: int, stop: int, max_lanes: int) -> Iterator[tuple[list[str], int, int]]:
    """Yield parts of *lanes* and replicas with at most *max_lanes* lanes, as even as possible."""
    columns = -(-len(lanes) // max_lanes)
    height = max(1, max_lanes // len(lanes))
    rows = -(-(stop - first) // height)
    for column in range(columns):
        part = [*lanes[len(lanes) * column // columns : len(lanes) * (column + 1) // columns]]
        for row in range(rows):
            yield part, first + (stop - first) * row // rows, first + (stop - first) * (row + 1) // rows


def _make_task(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> Task:
    trace, settings = points[0].trace, points[0].scenario.plain() | {"replicas": stop}
    label = _make_label(points, lanes, first, stop)
    if NETWORK in points[0].lanes:
        text = _to_yaml(settings)
        return Task(trace, {lanes[0]: NETWORK}, first, stop, frozenset(), text, learning=False, label=label)
    sources: dict[str, tuple[str, Point]] = {}
    for point in points:
        for name, lane in point.lanes.items():
            sources.setdefault(lane, (name, point))
    chosen = {*lanes, *_find_companion(sources, lanes)}
    names, learners = dict[str, str](), dict[str, Any]()
    for lane, (name, point) in sources.items():
        if lane in chosen:
            names[lane] = _name_lane(name, lane, points, point, learners)
            learners[names[lane]] = point.scenario.plain()["learners"][name]
    levels = frozenset(level for point in points for level in point.levels)
    settings |= {"learners": learners, "evaluate": {**(settings["evaluate"] or {}), "levels": sorted(levels)}}
    return Task(trace, names, first, stop, levels, _to_yaml(settings), learning=True, label=label)


def _make_label(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> str:
    """Return the axis values of the points that *lanes* belong to, the replicas, and the learners if not all."""
    chosen = {*lanes}
    served = [point for point in points if chosen & {*point.lanes.values()}]
    parts = []
    for path, short in short_names([*served[0].values]).items():
        values = [*dict.fromkeys(format_setting(point.values[path]) for point in served)]
        listed = "|".join(values) if len(values) <= _MAX_LISTED else f"{values[0]}…{values[-1]} ({len(values)} values)"
        parts.append(f"{short}={listed}")
    if served[0].scenario.replicas > 1:
        parts.append(f"replica {first}" if stop == first + 1 else f"replicas {first} to {stop - 1}")
    named = dict.fromkeys(name for point in served for name, lane in point.lanes.items() if lane in chosen)
    if len(named) < len({name for point in served for name in point.lanes}):
        parts.append(" and ".join(named))
    return ", ".join(parts)


def _find_companion(sources: Mapping[str, tuple[str, Point]], lanes: Sequence[str]) -> list[str]:
    """Return a lane with t that *lanes* need beside them: updates carry t, and are longer, if any learner has it."""
    with_t = [lane for lane, (name, point) in sources.items() if point.scenario.learners[name].objective.t_rate > 0]
    return with_t[:1] if not {*lanes} & {*with_t} else []


def _name_lane(name: str, lane: str, points: Sequence[Point], point: Point, taken: Collection[str]) -> str:
    """Return the learner's name, followed by the point's values if the lane is not the same at all *points*."""
    if all(other.lanes.get(name) == lane for other in points):
        return name
    short = short_names([path for path in point.values if path.startswith(f"learners.{name}.")])
    parts = [f"{key}={point.values[path]}" for path, key in short.items()]
    full = " ".join([name, *parts]).replace("/", "|").replace("\n", " ")
    return full if parts and len(full) <= _MAX_NAME and full not in taken else f"{name} {lane}"


def _to_yaml(settings: Mapping[str, Any]) -> str:
    return checked(ScenarioDocument(dict(settings), "sweep")).to_yaml()


def _digest(content: object) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()
