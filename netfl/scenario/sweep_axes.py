"""What a sweep varies: axes, dotted paths into a scenario with the values that they take, put together into points.

>>> sweep = SweepSpec.model_validate({"users": [10, 20], "zip": {"seed": [1, 2], "access.first": [3, 4]}})
>>> [*sweep.points()][0]
{'users': 10, 'seed': 1, 'access.first': 3}
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.registry import Spec
from netfl.scenario.sweep_condition import Condition
from netfl.streams import Streams
from netfl.types import ScenarioFacts

# Values that are drawn at random: one for each draw, by inverting a distribution.


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    """Two bounds, the lower one first."""
    if bounds[0] >= bounds[1]:
        raise ValueError("the first bound is not below the second")
    return bounds


class RandomAxis(Spec):
    """A distribution that values are drawn from."""

    @abstractmethod
    def at(self, share: float) -> Any:
        """The value below which *share* of the distribution lies, with *share* in (0, 1)."""


class Uniform(RandomAxis):
    """Evenly between two bounds."""

    uniform: Annotated[tuple[float, float], AfterValidator(_rising)]
    """The bounds, in the unit of the key."""

    def at(self, share: float) -> float:
        """Between the bounds."""
        low, high = self.uniform
        return low + share * (high - low)


class LogUniform(RandomAxis):
    """Evenly in the logarithm, as step sizes are searched."""

    log_uniform: Annotated[tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], AfterValidator(_rising)]
    """The bounds, above 0, in the unit of the key."""

    def at(self, share: float) -> float:
        """Between the logarithms of the bounds."""
        low, high = map(math.log, self.log_uniform)
        return math.exp(low + share * (high - low))


class Integer(RandomAxis):
    """A whole number, each as likely."""

    integer: Annotated[tuple[int, int], AfterValidator(_rising)]
    """The least and the greatest."""

    def at(self, share: float) -> int:
        """One of them."""
        low, high = self.integer
        return low + int(share * (high - low + 1))


class Choice(RandomAxis):
    """One of some values, each as likely."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)]
    """The values."""

    def at(self, share: float) -> Any:
        """One of them."""
        return self.choice[int(share * len(self.choice))]


_FORMS: Mapping[str, type[RandomAxis]] = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integer": Integer,
    "choice": Choice,
}


def _read(value: object) -> object:
    """Choose by the word that is written, so that one mistake is one fault."""
    if isinstance(value, RandomAxis):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise PydanticCustomError("draw", "no distribution", {"remedy": "write one such as {uniform: [0, 1]}"})
    word = str(next(iter(value)))
    if word not in _FORMS:
        raise PydanticCustomError("draw", "no such distribution", {"remedy": suggest(word, [*_FORMS])})
    return _FORMS[word].model_validate(value)


Draw = Annotated[Uniform | LogUniform | Integer | Choice, BeforeValidator(_read)]
"""``{uniform: [low, high]}``, ``{log_uniform: [low, high]}``, ``{integer: [low, high]}`` or ``{choice: [...]}``."""


_FIXED = {
    "name": "it names the sweep as a whole",
    "description": "it tells of the sweep as a whole",
    "replicas": "each point has as many; write it outside of 'sweep'",
    "sweep": "a sweep does not vary itself",
    "overrides": "name a block with --override",
    "track": "each task is told of as a run of its own",
}
"""Keys that a sweep cannot vary, and why."""

_TAKEN = frozenset(
    ("point", "trace", "task", "lane", "status", "learner", "replica", "round", "time_s", "metric", "group", "value",
     "figure", "user", "mean", "half", "replicas", "kind", "node", "detail")
)  # fmt: skip
"""Columns of a sweep's tables, which no axis may be called."""

Values = Annotated[tuple[Any, ...], Field(min_length=1)]
"""The values of one axis."""


class RandomSpec(Spec):
    """Axes whose values are drawn; more draws keep those that there are."""

    draws: Annotated[int, Field(ge=1)]
    """How many points are drawn."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides the draws, and nothing else."""
    of: Annotated[dict[str, Draw], Field(min_length=1)]
    """Dotted paths, and what each is drawn from."""

    def values(self) -> list[dict[str, Any]]:
        """What each draw gives each path; a path's values do not depend on what others there are."""
        streams = Streams(self.seed).at("sweep")
        shares = {path: streams.rng(path).random(self.draws).tolist() for path in self.of}
        return [{path: drawn.at(shares[path][one]) for path, drawn in self.of.items()} for one in range(self.draws)]


class SweepSpec(Spec):
    """What `netfl sweep` varies; every combination of grid, zipped lists and random draws is a point.

    A path with its list may stand directly below ``sweep`` for one in ``grid``, and as mappings in mappings.
    """

    grid: dict[str, Values] = Field(default_factory=dict)
    """Dotted paths and lists of values: every combination."""
    zip: dict[str, Values] = Field(default_factory=dict)
    """Dotted paths and lists of one length: the first values together, then the second, and so on."""
    random: RandomSpec | None = None
    """Draws from distributions."""
    unless: Annotated[tuple[str, ...], BeforeValidator(lambda said: (said,) if isinstance(said, str) else said)] = ()
    """Conditions; a combination for which one holds is left out.  Axes have short names there: the last part of the
    path, with as much of what is before as tells it from the others."""
    lanes: Annotated[int, Field(ge=1)] = 32
    """How many lanes one task has at most: points that share a trace are learned as one batch, up to this size."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Paths directly below the sweep belong to the grid."""
        if not isinstance(value, Mapping) or not isinstance(value.get("grid", {}), Mapping):
            return value
        paths = dict(_flat({path: values for path, values in value.items() if path not in cls.model_fields}))
        said = {name: own for name, own in value.items() if name in cls.model_fields}
        return {**said, "grid": {**dict(_flat(value.get("grid", {}))), **paths}}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Paths directly below the sweep are no keys of its own."""
        found = handler.resolve_ref_schema(handler(schema))
        found["additionalProperties"] = {"type": ["array", "object"]}
        return found

    @property
    def paths(self) -> tuple[str, ...]:
        """The dotted paths of all axes."""
        return (*self.grid, *self.zip, *(() if self.random is None else self.random.of))

    @property
    def names(self) -> dict[str, str]:
        """The short name of each path."""
        return short_names(self.paths)

    def points(self) -> Iterator[dict[str, Any]]:
        """The points, each with the value of each path.

        Raises:
            ScenarioError: a condition cannot be decided; the key relative to the sweep.
        """
        conditions = [Condition.read(text, [*self.names.values()]) for text in self.unless]
        zipped = [dict(zip(self.zip, values, strict=True)) for values in zip(*self.zip.values(), strict=True)] or [{}]
        drawn = [{}] if self.random is None else self.random.values()
        for *values, side, draw in product(*self.grid.values(), zipped, drawn):
            point = {**dict(zip(self.grid, values, strict=True)), **side, **draw}
            if not self._left_out(point, conditions):
                yield point

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Axes that cannot be put together, conditions that are none, and nothing left."""
        found = [*self._axis_faults(), *self._condition_faults()]
        yield from found
        if found:
            return
        try:
            if next(self.points(), None) is None:
                yield Fault("unless", "leaves no point", None, "leave out fewer")
        except ScenarioError as error:
            yield from error.faults

    def _axis_faults(self) -> Iterator[Fault]:
        """What is wrong with the axes."""
        if not self.paths:
            yield Fault("", "varies nothing", None, "give a dotted path and a list of values")
        random = () if self.random is None else self.random.of
        for section, paths in (("grid", self.grid), ("zip", self.zip), ("random.of", random)):
            for path in paths:
                if (first := path.partition(".")[0]) in _FIXED:
                    yield Fault(f"{section}.{path}", "cannot be varied", None, _FIXED[first])
                if self.paths.count(path) > 1:
                    yield Fault(f"{section}.{path}", "is varied twice", None, "leave one of them out")
        for path, values in self.grid.items():
            if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
                yield Fault(f"grid.{path}", "has a value twice", None, "leave one of them out")
        if len(lengths := {len(values) for values in self.zip.values()}) > 1:
            problem = f"the lists have {' and '.join(map(str, sorted(lengths)))} values"
            yield Fault("zip", problem, None, "give lists of one length")

    def _condition_faults(self) -> Iterator[Fault]:
        """Conditions that are none."""
        for number, text in enumerate(self.unless):
            try:
                Condition.read(text, [*self.names.values()])
            except ValueError as error:
                problem, _, remedy = str(error).partition("; ")
                yield Fault(f"unless.{number}", problem, text, remedy)

    def _left_out(self, point: Mapping[str, Any], conditions: Sequence[Condition]) -> bool:
        """Whether a condition holds for *point*."""
        values = {self.names[path]: value for path, value in point.items()}
        for number, condition in enumerate(conditions):
            try:
                if condition.holds(values):
                    return True
            except ValueError as error:
                remedy = "compare numbers with numbers, and words with words"
                raise ScenarioError([Fault(f"unless.{number}", str(error), condition.text, remedy)]) from None
        return False


def _flat(said: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and what stands there, where paths may also be written as mappings in mappings."""
    for key, entry in said.items():
        if isinstance(entry, Mapping):
            yield from _flat(entry, f"{above}{key}.")
        else:
            yield f"{above}{key}", entry


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """For each path its last parts, as many as tell it from the others.

    >>> short_names(["learners.A.lr", "learners.B.lr", "users"])
    {'learners.A.lr': 'A.lr', 'learners.B.lr': 'B.lr', 'users': 'users'}
    """
    split = {path: path.split(".") for path in paths}

    def tail(path: str, size: int) -> str:
        return ".".join(split[path][-size:])

    def free(path: str, size: int) -> bool:
        own = tail(path, size)
        return own not in _TAKEN and not any(other != path and tail(other, size) == own for other in paths)

    return {
        path: next((tail(path, size) for size in range(1, len(parts)) if free(path, size)), path)
        for path, parts in split.items()
    }
