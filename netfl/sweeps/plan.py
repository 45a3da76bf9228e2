"""What a sweep comes to: its points, and the tasks that bring what is missing of them.

A *lane key* names what one learner does in one world, whatever it is called there; a *cell* is a lane key in one
replica, with what is told of it.  Points that differ only in their learners share a world, and so a trace: their
lanes are learned as one batch.  What is done is never done again, whatever the sweep was when it was done.
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

_WORDS = ("name", "description", "replicas", "track", "checkpoint")
"""Keys that do not decide what happens in a replica."""
_LISTED = 3
"""Values of an axis that the label of a task lists."""
_LONGEST = 60
"""Letters of a lane's name."""
Cell = tuple[str, int, frozenset[float]]
"""A lane key, a replica, and the levels at which the CVaR is told there."""
NETWORK = ""
"""The lane of a world in which nobody learns."""


@dataclass(frozen=True)
class Point:
    """One combination of values.

    Args:
        number: which one.
        values: by dotted path.
        scenario: what they make of the sweep's.
        trace: the key of its world.
        lanes: the lane key of each learner; that of the network alone where there is none.
        levels: at which the CVaR of all its learners is told.
    """

    number: int
    values: Mapping[str, Any]
    scenario: Scenario
    trace: str
    lanes: Mapping[str, str]
    levels: frozenset[float]

    @property
    def cells(self) -> Iterator[Cell]:
        """What it needs: each lane key in each replica, told at its levels."""
        for lane, replica in product(self.lanes.values(), range(self.scenario.replicas)):
            yield lane, replica, self.levels


@dataclass(frozen=True)
class Task:
    """Some lanes of one world in some replicas: one run.

    Args:
        trace: the key of the world.
        lanes: what the run calls each lane key.
        first: the first replica.
        stop: the one behind the last.
        levels: at which the CVaR of all its lanes is told.
        text: the run's scenario.
        learning: whether learners run, or the access alone.
        label: what people read in place of its key: the values of the axes, and which replicas and learners.
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
        """What it is called: the same for the same lanes and replicas, in whatever order they are planned."""
        return "t" + _digest([self.trace, sorted(self.lanes), self.first, self.stop, sorted(self.levels)])

    @property
    def name(self) -> str:
        """What people read of it: its label, or its key where it has none."""
        return self.label or self.key

    @property
    def scenario(self) -> Scenario:
        """What it runs."""
        return checked(ScenarioDocument(plain_value(parse(self.text, self.name)), self.name))


def points_of(scenario: Scenario, *, learning: bool = True) -> list[Point]:
    """All points of a scenario's sweep.

    Args:
        scenario: with a sweep.
        learning: whether learners run.

    Raises:
        ScenarioError: there is no sweep; with the faults of all points, each told once.
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
            points.append(_point(number, values, scenario.at(values), learning))
        except ScenarioError as error:
            faults |= {str(fault): fault for fault in error.faults if str(fault) not in faults}
    if faults:
        raise ScenarioError(faults.values())
    return points


def tasks_of(points: Sequence[Point], done: Callable[[Cell], object], most: int) -> list[Task]:
    """The tasks that bring all cells of *points* that are not *done*, of *most* lanes each.

    How they are cut depends on what is missing alone, not on who does them.  Learners that depend on each other stay
    together.

    Args:
        points: of one sweep.
        done: says whether a cell is there.
        most: lanes of one task.
    """
    tasks = []
    for own in _by_trace(points).values():
        scenario = own[0].scenario
        wanting: dict[str, set[int]] = {lane: set() for point in own for lane in point.lanes.values()}
        for cell in (cell for point in own for cell in point.cells if not done(cell)):
            wanting[cell[0]].add(cell[1])
        missing: dict[tuple[int, ...], list[str]] = {}
        for lane, replicas in wanting.items():
            missing.setdefault(tuple(sorted(replicas)), []).append(lane)
        if _bound(scenario):
            missing = {max(missing, key=len): [lane for lanes in missing.values() for lane in lanes]}
        for numbers, lanes in missing.items():
            size = max(most, len(lanes)) if _bound(scenario) else most
            tasks += [_task(own, *cut) for stretch in _runs(numbers) for cut in _cuts(lanes, *stretch, size)]
    return tasks


def _point(number: int, values: Mapping[str, Any], scenario: Scenario, learning: bool) -> Point:
    """A point with its keys."""
    told = scenario.plain()
    learners = told.pop("learners")
    for word in _WORDS:
        del told[word]
    shared = [told, scenario.update_bits]
    works = {(one.local_epochs, one.local_steps, str(one.batch_size)) for one in scenario.learners.values()}
    if scenario.access.info.needs_samples:  # who computes how long is part of the world
        shared.append(sorted(map(str, works)))
    if learning and _bound(scenario):
        shared.append([*learners.items()])
    trace = _digest([shared, learning])
    lanes = {name: _digest([trace, one]) for name, one in learners.items()} if learning else {}
    own = (one.objective.levels for one in scenario.learners.values())
    levels = frozenset().union(scenario.evaluation.levels, *own) if learning else frozenset[float]()
    return Point(number, values, scenario, trace, lanes or {NETWORK: _digest([trace])}, levels)


def _bound(scenario: Scenario) -> bool:
    """Whether what one learner does depends on the others that are there."""
    return scenario.access.info.is_closed_loop or bool(scenario.evaluation.choose)


def _by_trace(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each world."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.trace, []).append(point)
    return found


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of *numbers* without a gap: the first, and the one behind the last.

    >>> [*_runs([0, 1, 4])]
    [(0, 2), (4, 5)]
    """
    for at, number in enumerate(numbers):
        if at == 0 or numbers[at - 1] != number - 1:
            stop = number
            while stop in numbers:
                stop += 1
            yield number, stop


def _cuts(lanes: Sequence[str], first: int, stop: int, most: int) -> Iterator[tuple[list[str], int, int]]:
    """All *lanes* in all replicas, cut into parts of *most* lanes or fewer, as even as can be."""
    across = -(-len(lanes) // most)
    each = max(1, most // len(lanes))
    down = -(-(stop - first) // each)
    for column in range(across):
        part = [*lanes[len(lanes) * column // across : len(lanes) * (column + 1) // across]]
        for row in range(down):
            yield part, first + (stop - first) * row // down, first + (stop - first) * (row + 1) // down


def _task(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> Task:
    """The task of some *lanes* of the world of *points*, in some replicas."""
    trace, told = points[0].trace, points[0].scenario.plain() | {"replicas": stop}
    if NETWORK in points[0].lanes:
        label = _label(points, lanes, first, stop)
        return Task(trace, {lanes[0]: NETWORK}, first, stop, frozenset(), _text(told), learning=False, label=label)
    there: dict[str, tuple[str, Point]] = {}
    for point in points:
        for name, lane in point.lanes.items():
            there.setdefault(lane, (name, point))
    chosen = {*lanes, *_companion(there, lanes)}
    called, learners = dict[str, str](), dict[str, Any]()
    for lane, (name, point) in there.items():
        if lane in chosen:
            called[lane] = _lane_name(name, lane, points, point, learners)
            learners[called[lane]] = point.scenario.plain()["learners"][name]
    levels = frozenset(level for point in points for level in point.levels)
    told |= {"learners": learners, "evaluate": {**(told["evaluate"] or {}), "levels": sorted(levels)}}
    label = _label(points, lanes, first, stop)
    return Task(trace, called, first, stop, levels, _text(told), learning=True, label=label)


def _label(points: Sequence[Point], lanes: Sequence[str], first: int, stop: int) -> str:
    """The axes' values at the *points* that some *lanes* belong to, the replicas, and the learners if not all.

    Values of one axis are listed up to three, and told by their number beyond.
    """
    chosen = {*lanes}
    served = [point for point in points if chosen & {*point.lanes.values()}]
    parts = []
    for path, short in short_names([*served[0].values]).items():
        values = [*dict.fromkeys(format_setting(point.values[path]) for point in served)]
        listed = "|".join(values) if len(values) <= _LISTED else f"{values[0]}…{values[-1]} ({len(values)} values)"
        parts.append(f"{short}={listed}")
    if served[0].scenario.replicas > 1:
        parts.append(f"replica {first}" if stop == first + 1 else f"replicas {first} to {stop - 1}")
    named = dict.fromkeys(name for point in served for name, lane in point.lanes.items() if lane in chosen)
    if len(named) < len({name for point in served for name in point.lanes}):
        parts.append(" and ".join(named))
    return ", ".join(parts)


def _companion(there: Mapping[str, tuple[str, Point]], lanes: Sequence[str]) -> list[str]:
    """A lane that has to learn beside *lanes*, as updates carry t as soon as one learner has it: they were shorter."""
    having = [lane for lane, (name, point) in there.items() if point.scenario.learners[name].objective.t_rate > 0]
    return having[:1] if not {*lanes} & {*having} else []


def _lane_name(name: str, lane: str, points: Sequence[Point], point: Point, taken: Collection[str]) -> str:
    """What a lane is called in its run: as its learner and, where that is not one in all points, by its values."""
    if all(other.lanes.get(name) == lane for other in points):
        return name
    short = short_names([path for path in point.values if path.startswith(f"learners.{name}.")])
    parts = [f"{own}={point.values[path]}" for path, own in short.items()]
    told = " ".join([name, *parts]).replace("/", "|").replace("\n", " ")
    return told if parts and len(told) <= _LONGEST and told not in taken else f"{name} {lane}"


def _text(told: Mapping[str, Any]) -> str:
    """A scenario as its file holds it."""
    return checked(ScenarioDocument(dict(told), "sweep")).to_yaml()


def _digest(content: object) -> str:
    """A short name for *content*."""
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()
