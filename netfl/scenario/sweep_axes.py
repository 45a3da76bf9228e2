"""The section ``sweep``: axes (dotted paths and their values), and the points that they span.

>>> sweep = SweepSpec.model_validate({"users": [10, 20], "zip": {"seed": [1, 2], "access.first": [3, 4]}})
>>> [*sweep.points()][0]
{'users': 10, 'seed': 1, 'access.first': 3}
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from netfl.core.spec import ByForm, Spec
from netfl.errors import Fault, ScenarioError, suggest
from netfl.scenario.sweep_condition import Condition
from netfl.streams import Streams
from netfl.types import ScenarioFacts
from netfl.units import Seed


def _check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError("the first bound is not below the second; put the smaller one first")
    return bounds


class RandomAxis(Spec):
    """A distribution of the values of an axis."""

    @abstractmethod
    def at(self, share: float) -> Any:
        """Return the quantile of the distribution at *share*, in (0, 1)."""


class Uniform(RandomAxis):
    """The uniform distribution between two bounds."""

    uniform: Annotated[tuple[float, float], AfterValidator(_check_bounds)]
    """The bounds, in the unit of the key."""

    def at(self, share: float) -> float:
        low, high = self.uniform
        return low + share * (high - low)


class LogUniform(RandomAxis):
    """The log-uniform distribution between two bounds, as for step sizes."""

    log_uniform: Annotated[
        tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], AfterValidator(_check_bounds)
    ]
    """The bounds, positive, in the unit of the key."""

    def at(self, share: float) -> float:
        low, high = map(math.log, self.log_uniform)
        return math.exp(low + share * (high - low))


class Integer(RandomAxis):
    """The uniform distribution over integers."""

    integer: Annotated[tuple[int, int], AfterValidator(_check_bounds)]
    """The smallest and the largest."""

    def at(self, share: float) -> int:
        low, high = self.integer
        return low + int(share * (high - low + 1))


class Choice(RandomAxis):
    """The uniform distribution over a list of values."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)]
    """The values."""

    def at(self, share: float) -> Any:
        return self.choice[int(share * len(self.choice))]


Draw = Annotated[Uniform | LogUniform | Integer | Choice, ByForm()]
"""``{uniform: [low, high]}``, ``{log_uniform: [low, high]}``, ``{integer: [low, high]}`` or ``{choice: [...]}``."""


_FIXED = {
    "name": "it names the whole sweep",
    "description": "it describes the whole sweep",
    "replicas": "it is equal at all points; write it outside of 'sweep'",
    "sweep": "a sweep cannot vary itself",
    "overrides": "vary the keys that a block sets",
    "track": "each task is tracked as a run of its own",
}
"""Keys that a sweep cannot vary, with the reason."""

_TAKEN = frozenset(
    ("point", "trace", "task", "lane", "status", "learner", "replica", "round", "time_s", "metric", "group", "value",
     "user", "mean", "half", "replicas", "kind", "node", "detail")
)  # fmt: skip
"""Columns of a sweep's tables, whose names no axis may have."""

MAX_COMBINATIONS = 100_000
"""Largest number of combinations of a sweep, with those that it excludes."""
MAX_POINTS = 10_000
"""Largest number of points of a sweep, each of which is validated before anything runs: about half a minute."""

_MAX_PATHS = 200
"""Largest number of keys that a sweep varies."""
_FEWER_POINTS = "use fewer values or draws, or divide it into several sweeps"

Values = Annotated[tuple[Any, ...], Field(min_length=1)]
"""The values of one axis."""


class RandomSpec(Spec):
    """Axes with random values.  More draws keep the earlier ones."""

    draws: Annotated[int, Field(ge=1, le=MAX_POINTS)]
    """Number of points."""
    seed: Seed = 0
    """Seed of the draws alone."""
    parameters: Annotated[dict[str, Draw], Field(min_length=1, max_length=_MAX_PATHS)]
    """Dotted paths and their distributions."""

    def values(self) -> list[dict[str, Any]]:
        """Return the value of each path in each draw; the values of a path do not depend on other paths."""
        streams = Streams(self.seed).at("sweep")
        shares = {path: streams.rng(path).random(self.draws).tolist() for path in self.parameters}

        def point(draw: int) -> dict[str, Any]:
            return {path: axis.at(shares[path][draw]) for path, axis in self.parameters.items()}

        return [point(draw) for draw in range(self.draws)]


class SweepAxes(Spec):
    """Base of the forms of a sweep: keys that vary, and the points at which they are checked before anything runs."""

    lanes: Annotated[int, Field(ge=1)] = 32
    """Largest number of lanes of a task: points that share a trace are learned as one batch up to this size."""

    @property
    @abstractmethod
    def paths(self) -> tuple[str, ...]:
        """The dotted paths of all axes."""

    @abstractmethod
    def points(self) -> Iterator[dict[str, Any]]:
        """Yield points, each with the value of each path.

        Raises:
            ScenarioError: a condition cannot be evaluated; the key is relative to the sweep.
        """

    @property
    def names(self) -> dict[str, str]:
        """The short name of each path."""
        return short_names(self.paths)

    def _path_faults(self, section: str, paths: Iterable[str]) -> Iterator[Fault]:
        """Yield the errors of the *paths* of a section."""
        for path in paths:
            if (first := path.partition(".")[0]) in _FIXED:
                yield Fault(f"{section}.{path}", "cannot be varied", None, _FIXED[first])
            if self.paths.count(path) > 1:
                yield Fault(f"{section}.{path}", "is varied twice", None, "leave one of them out")


class SweepSpec(SweepAxes):
    """The axes of a sweep.  Every combination of grid, zipped lists and random draws is a point.

    A path with its list may also be directly below ``sweep`` instead of in ``grid``, or as nested mappings.
    """

    grid: dict[str, Values] = Field(default_factory=dict)
    """Dotted paths and lists of values, in every combination."""
    zip: dict[str, Values] = Field(default_factory=dict)
    """Dotted paths and lists of equal length: the first values together, then the second, and so on."""
    random: RandomSpec | None = None
    """Random draws from distributions."""
    exclude: Annotated[
        tuple[str, ...],
        Field(max_length=_MAX_PATHS),
        BeforeValidator(lambda text: (text,) if isinstance(text, str) else text),
    ] = ()
    """Conditions that leave out combinations.  Axes have short names there: the last part of the path, with as many
    parts before it as make it unique."""

    @model_validator(mode="before")
    @classmethod
    def _move_to_grid(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("grid", {}), Mapping):
            return value
        fields = {name: entry for name, entry in value.items() if name in cls.model_fields}
        beside = {path: values for path, values in value.items() if path not in cls.model_fields}
        grid = dict(_flat(value.get("grid", {})))
        grid |= dict(_flat(beside))
        return {**fields, "grid": grid}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Allow paths directly below the sweep."""
        resolved = super().__get_pydantic_json_schema__(schema, handler)
        resolved["additionalProperties"] = {"type": ["array", "object"]}
        return resolved

    @property
    def paths(self) -> tuple[str, ...]:
        drawn = () if self.random is None else self.random.parameters
        return (*self.grid, *self.zip, *drawn)

    def points(self) -> Iterator[dict[str, Any]]:
        names = self.names
        conditions = [Condition.read(text, [*names.values()]) for text in self.exclude]
        zipped: list[dict[str, Any]] = [{}]  # one combination, without lists
        if self.zip:
            zipped = [dict(zip(self.zip, values, strict=True)) for values in zip(*self.zip.values(), strict=True)]
        drawn: list[dict[str, Any]] = [{}]
        if self.random is not None:
            drawn = self.random.values()
        points = 0
        for *values, side, draw in product(*self.grid.values(), zipped, drawn):
            point = {**dict(zip(self.grid, values, strict=True)), **side, **draw}
            named = {names[path]: value for path, value in point.items()}
            try:
                is_excluded = any(condition.holds(named) for condition in conditions)
            except ValueError as error:
                remedy = "compare numbers with numbers, and text with text"
                raise ScenarioError([Fault("exclude", str(error), None, remedy)]) from None
            if is_excluded:
                continue
            points += 1
            if points > MAX_POINTS:
                problem = f"the {self._combinations:,} combinations leave more than {MAX_POINTS:,} points"
                raise ScenarioError([Fault("", problem, None, _FEWER_POINTS)])
            yield point

    @property
    def _combinations(self) -> int:
        """The number of combinations, with those that are excluded."""
        draws = 1 if self.random is None else self.random.draws
        zipped = max(map(len, self.zip.values()), default=1)
        return math.prod(map(len, self.grid.values())) * zipped * draws

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        faults = [*self._axis_faults()]
        for number, text in enumerate(self.exclude):
            try:
                Condition.read(text, [*self.names.values()])
            except ValueError as error:
                problem, _, remedy = str(error).partition("; ")
                faults.append(Fault(f"exclude.{number}", problem, text, remedy))
        if self._combinations > MAX_COMBINATIONS or (not self.exclude and self._combinations > MAX_POINTS):
            limit = MAX_COMBINATIONS if self.exclude else MAX_POINTS
            problem = f"has {self._combinations:,} combinations, more than {limit:,}"
            faults.append(Fault("", problem, None, _FEWER_POINTS))
        yield from faults
        if faults:
            return
        try:
            if next(self.points(), None) is None:
                yield Fault("exclude", "leaves no point", None, "exclude fewer")
        except ScenarioError as error:
            yield from error.faults

    def _axis_faults(self) -> Iterator[Fault]:
        if not self.paths:
            yield Fault("", "varies nothing", None, "give a dotted path and a list of values")
        if len(self.paths) > _MAX_PATHS:
            yield Fault("", f"varies {len(self.paths):,} keys, more than {_MAX_PATHS}", None, "write constants outside")
            return
        random = () if self.random is None else self.random.parameters
        for section, paths in (("grid", self.grid), ("zip", self.zip), ("random.parameters", random)):
            yield from self._path_faults(section, paths)
        for path, values in self.grid.items():
            if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
                yield Fault(f"grid.{path}", "has a value twice", None, "leave one of them out")
        if len(lengths := {len(values) for values in self.zip.values()}) > 1:
            problem = f"the lists have {' and '.join(map(str, sorted(lengths)))} values"
            yield Fault("zip", problem, None, "give lists of one length")


_ENDS = 1e-9
"""Distance from 0 and 1 of the shares at which the ends of a distribution are checked."""


class SearchSpec(SweepAxes):
    """A search for the best values of some keys with Optuna.

    Each trial is a point of the sweep.  Its values depend on the results of the trials before.
    """

    engine: Literal["optuna"]
    """``optuna``."""
    trials: Annotated[int, Field(ge=1, le=MAX_POINTS)]
    """Number of trials.  More trials continue the search."""
    metric: Annotated[str, Field(min_length=1)]
    """Metric to optimise: a final value of a learner, such as ``accuracy``, or of the network, such as
    ``delay_mean_s``; the mean over replicas."""
    learner: str | None = None
    """Learner that has the metric; needed if there are several."""
    direction: Literal["maximize", "minimize"] = "maximize"
    """Direction of the search: the best value is the largest or the smallest."""
    parameters: Annotated[dict[str, Draw], Field(min_length=1, max_length=_MAX_PATHS)]
    """Dotted paths and the distributions that span the space to search."""
    sampler: Literal["tpe", "gp", "random"] = "tpe"
    """Algorithm that chooses the values: tree-structured Parzen estimators, a Gaussian process, or random draws."""
    pruner: Literal["none", "median", "successive_halving"] = "none"
    """Rule that ends a trial early whose metric is poor, after an evaluation of a learner."""
    batch: Annotated[int, Field(ge=1, le=MAX_POINTS)] = 1
    """Number of trials that are chosen together; those that share a trace are learned as one batch."""
    seed: Seed = 0
    """Seed of the sampler alone."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.parameters)

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield points to check: all parameters at their lower ends, middles and upper ends, and every choice."""
        for share in (_ENDS, 0.5, 1 - _ENDS):
            yield {path: axis.at(share) for path, axis in self.parameters.items()}
        middle = {path: axis.at(0.5) for path, axis in self.parameters.items()}
        for path, axis in self.parameters.items():
            if isinstance(axis, Choice):
                for value in axis.choice:
                    yield {**middle, path: value}

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from self._path_faults("parameters", self.parameters)
        if self.learner is not None and self.learner not in facts.learners:
            yield Fault("learner", "no such learner", self.learner, suggest(self.learner, facts.learners))
        if self.pruner != "none" and not facts.trained:
            yield Fault("pruner", "has no effect without learners", self.pruner, "leave it out")


def _as_form(value: Any, info: ValidationInfo) -> Any:
    """Read a mapping as the form of a sweep that its keys belong to."""
    if not isinstance(value, Mapping):
        return value
    form: type[SweepAxes] = SearchSpec if "engine" in value else SweepSpec
    return form.model_validate(value, context=info.context)


Sweeping = Annotated[SweepSpec | SearchSpec, BeforeValidator(_as_form)]
"""The section ``sweep``: axes whose combinations are points, or with ``engine: optuna`` a search."""


def _flat(mapping: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted paths of nested mappings, each with its value."""
    for key, entry in mapping.items():
        if isinstance(entry, Mapping):
            yield from _flat(entry, f"{above}{key}.")
        else:
            yield f"{above}{key}", entry


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the short name of each path: its last parts, as many as make it unique.

    >>> short_names(["learners.A.lr", "learners.B.lr", "users"])
    {'learners.A.lr': 'A.lr', 'learners.B.lr': 'B.lr', 'users': 'users'}
    """
    names = {}
    for path in paths:
        names[path] = path
        parts = path.split(".")
        others = [f".{other}" for other in paths if other != path]
        for size in range(1, len(parts)):
            tail = ".".join(parts[-size:])
            is_unique = not any(other.endswith(f".{tail}") for other in others)
            if is_unique and tail not in _TAKEN:
                names[path] = tail
                break
    return names
