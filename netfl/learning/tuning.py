"""Tuning of learners by validation: the section ``tuning``, the grids of step sizes, and the choice of a candidate.

A comparison of learners is fair if each has had the same effort.  Every learner gets the same number of candidates, by
one rule; `netfl.simulation.tuning` trains them.  This module does not import torch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from netfl.errors import Fault, suggest
from netfl.learning.effective_steps import Learners, StepRule
from netfl.learning.spec import LearnerSpec
from netfl.registry import Spec, faults_of
from netfl.types import Floats, Ints
from netfl.units import WRITTEN

MAX_WIDENINGS = 2
"""Largest number of times that the grids are widened."""
_MAX_NAME = 100
"""Longest name of a learner."""
_LOG_SMALLEST, _LOG_LARGEST = math.log(sys.float_info.min), math.log(sys.float_info.max)
"""Logarithms of the smallest and the largest ``lr``."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric by which candidates are compared.

    Args:
        metric: name of the metric, on validation examples.
        label: its name in sentences.
        is_loss: whether the smallest value is the best.
        needs_labels: whether it is defined for labels alone.
    """

    metric: str
    label: str
    is_loss: bool = False
    needs_labels: bool = True


CRITERIA: Mapping[str, Criterion] = {
    "rare_accuracy": Criterion("rare_accuracy", "rare accuracy"),
    "accuracy": Criterion("accuracy", "accuracy"),
    "worst": Criterion("accuracy_users_worst10", "accuracy of the worst 10 % of users"),
    "mean_over_users": Criterion("accuracy_users_mean", "mean accuracy over users"),
    "loss": Criterion("loss", "loss", is_loss=True, needs_labels=False),
    "objective": Criterion("objective", "objective", is_loss=True, needs_labels=False),
}
"""Criteria by the name that a scenario gives them."""


class TuningSpec(Spec):
    """Tuning of every learner by validation, with the same number of candidates and by the same rule."""

    by: Literal["rare_accuracy", "accuracy", "worst", "mean_over_users", "loss", "objective"]
    """The criterion, on validation examples: the mean over the last quarter of the evaluations and over the validation
    replicas.  ``worst`` is the mean accuracy of the worst 10 % of users, and ``mean_over_users`` that of all, each user
    with equal weight; ``objective`` is that of each learner."""
    candidates: Annotated[int, Field(ge=3, le=49)] = 7
    """Values of ``lr`` of each learner, in a geometric sequence around the centre of its grid."""
    factor: Annotated[float, Field(gt=1, le=100)] = 2.0
    """Ratio of neighbouring values of ``lr``."""
    replicas: Annotated[int, Field(ge=1, le=1000)] = 2
    """Validation replicas, whose seeds are not those of the replicas of the run."""
    keys: Mapping[str, Annotated[tuple[Any, ...], Field(min_length=2, max_length=99)]] = Field(default_factory=dict)
    """Further keys of learners with their values, such as ``{batch_size: [8, 16]}``; each is combined with each
    ``lr``."""

    @property
    def criterion(self) -> Criterion:
        """The criterion."""
        return CRITERIA[self.by]

    @property
    def settings(self) -> list[tuple[tuple[str, Any], ...]]:
        """Combinations of the further keys; a single empty one without further keys."""
        return [tuple(zip(self.keys, values, strict=True)) for values in product(*self.keys.values())]

    @property
    def first_grid(self) -> Grid:
        """The grid before it is widened."""
        return Grid(-(self.candidates // 2), self.candidates - self.candidates // 2 - 1, self.candidates % 2 == 0)

    @property
    def lowest_exponents(self) -> list[float]:
        """The smallest exponents that a widened grid may have, as many as in the first grid."""
        lowest = self.first_grid.widened(self.candidates // 2 * MAX_WIDENINGS, down=True, up=False)
        return lowest.exponents[: self.candidates]

    def centres(self, learners: Learners, rule: StepRule) -> list[GridCentre]:
        """Return the centres of the grids of all tuned learners, with each of the `settings`.

        All have one effective step, that of `grid_centres`: settings that change the largest weight of a learner, such
        as its momentum, change the ``lr`` at the centre.
        """
        centres = []
        for name, lr in grid_centres(learners, rule).items():
            weight = rule.weight(learners[name])
            for settings in self.settings:
                weight_there = rule.weight(_with_settings(learners[name], settings))
                at_settings = lr
                if weight is not None and weight_there is not None:
                    at_settings = lr * (weight / weight_there)
                elif weight is not None:  # and with these settings it has no bound
                    at_settings = learners[name].step_size
                centres.append(GridCentre(name, at_settings, settings))
        return centres

    def key_faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of the further keys, which every tuned learner must have; the first of each key."""
        for key, values in self.keys.items():
            if key == "lr":
                yield Fault("keys.lr", "is always tuned", None, "leave it out: candidates and factor give its values")
                continue
            if self.by == "objective" and key.partition(".")[0] == "objective":
                problem = "changes the objective, by which candidates are compared"
                yield Fault(f"keys.{key}", problem, None, "leave it out, or use another criterion in by")
                continue
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                yield Fault(f"keys.{key}", "lists an entry twice", twice[0], "list each value once")
                continue
            for name, value in product(tuned_learners(learners), values):
                try:
                    _with_settings(learners[name], [(key, value)])
                except (ValidationError, LookupError, TypeError) as error:
                    yield _key_fault(key, name, value, learners[name], error)
                    break

    def step_faults(self, learners: Learners, rule: StepRule) -> Iterator[Fault]:
        """Yield the errors of the step sizes of candidates, for learners and further keys without errors."""
        for settings in self.settings if self.keys else ():
            tuned = {name: _with_settings(learners[name], settings) for name in tuned_learners(learners)}
            faults = chain(rule.weight_faults(tuned), rule.faults({**learners, **tuned}))
            for fault in islice(faults, 1):
                stated = ", ".join(f"{key}={value}" for key, value in settings)
                remedy = f"leave out one of these, or learners.{fault.key}"
                yield Fault("keys", f"with {stated} {fault.problem}", None, remedy)
                return
        widest = self.candidates // 2 * (1 + MAX_WIDENINGS)
        for centre in self.centres(learners, rule):
            ends = [math.log(centre.lr) + side * widest * math.log(self.factor) for side in (-1, 1)]
            if ends[0] < _LOG_SMALLEST or ends[1] > _LOG_LARGEST:
                problem = f"the lr of '{centre.learner}' around {centre.lr:.3g} may leave the range of numbers"
                yield Fault("factor", problem, self.factor, "use a smaller factor, fewer candidates, or another lr")
                return


@dataclass(frozen=True, slots=True)
class Grid:
    """Exponents of a geometric sequence around a centre: ``centre · factor^exponent``.

    Args:
        low: smallest step from the centre.
        high: largest step from the centre, inclusive.
        is_even: the centre lies between two values, half a step above step -1.
    """

    low: int
    high: int
    is_even: bool = False

    @property
    def exponents(self) -> list[float]:
        """The exponents in rising order."""
        half = 0.5 if self.is_even else 0.0
        return [step + half for step in range(self.low, self.high + 1)]

    def widened(self, steps: int, *, down: bool, up: bool) -> Grid:
        """Return the grid with *steps* more values below, above, or both."""
        return Grid(self.low - steps * down, self.high + steps * up, self.is_even)


@dataclass(frozen=True, slots=True)
class GridCentre:
    """The centre of the grid of a learner.

    Args:
        learner: name of the learner.
        lr: step size at the centre.
        settings: values of further keys.
    """

    learner: str
    lr: float
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One setting of a learner.  Each object is a candidate of its own, as values of further keys have no hash.

    Args:
        learner: name of the learner.
        exponent: place of its ``lr`` in the grid; see `Grid`.
        lr: step size.
        settings: values of further keys.
    """

    learner: str
    exponent: float
    lr: float
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """Values by key."""
        return {"lr": self.lr, **dict(self.settings)}

    def apply(self, learner: LearnerSpec) -> LearnerSpec:
        """Return *learner* with this setting."""
        return _with_settings(learner, self.settings).model_copy(update={"lr": self.lr})


def tuned_learners(learners: Learners) -> list[str]:
    """Return the names of the learners that have candidates: those whose step is not that of another learner."""
    return [name for name, learner in learners.items() if learner.step_of is None]


def grid_centres(learners: Learners, rule: StepRule) -> dict[str, float]:
    """Return the ``lr`` at the centre of the grid of each tuned learner.

    The centres have one effective step: the geometric mean of those of the learners as given, ``lr_k W_k`` with the
    largest weight W_k of learner k.  The grid of a learner whose weights have no bound is centred on its ``lr``.
    """
    weights = {name: rule.weight(learners[name]) for name in tuned_learners(learners)}
    known = {name: weight for name, weight in weights.items() if weight is not None}
    steps = [weight * learners[name].step_size for name, weight in known.items()]
    step = math.exp(math.fsum(map(math.log, steps)) / len(steps)) if steps else 0.0
    return {name: step / known[name] if name in known else learners[name].step_size for name in weights}


def candidates_of(tuning: TuningSpec, centres: Sequence[GridCentre], exponents: Sequence[float]) -> list[Candidate]:
    """Return the candidates around *centres* with these *exponents* of ``lr``, centre by centre."""
    return [
        Candidate(centre.learner, exponent, centre.lr * tuning.factor**exponent, centre.settings)
        for centre in centres
        for exponent in exponents
    ]


def name_candidates(candidates: Sequence[Candidate]) -> list[str]:
    """Return a distinct name for each of *candidates*, as learners of a run."""
    names: list[str] = []
    for number, candidate in enumerate(candidates):
        words = [candidate.learner, f"lr={candidate.lr:.4g}"]
        words += [f"{key}={value}" for key, value in candidate.settings]
        name = " ".join(words).replace("/", "|").replace("\\", "|")
        if len(name) > _MAX_NAME or name in names or not name.isprintable():
            name = f"candidate {number}"
        names.append(name)
    return names


def last_quarter_means(rounds: Ints, values: Floats) -> Floats:
    """Return the mean of each lane over the last quarter of the evaluations, ``[lanes]``; NaN where it diverged.

    Args:
        rounds: the round of each evaluation, ascending, ``[evaluations]``.
        values: ``[evaluations, lanes]``.

    >>> last_quarter_means(np.array([0, 50, 75, 100]), np.array([[0.0], [1.0], [2.0], [4.0]]))
    array([3.])
    """
    return np.asarray(values[rounds >= 0.75 * rounds.max()].mean(axis=0))


def best_candidate(step_sizes: Sequence[float], values: Floats, *, is_loss: bool) -> int:
    """Return the number of the best candidate by its mean over replicas.

    A candidate that diverged in a replica loses.  Among equals, and if all diverged, the smaller step size wins.

    Args:
        step_sizes: ``lr`` of each candidate, ``[candidates]``.
        values: criterion, ``[candidates, replicas]``; NaN where training diverged.
        is_loss: whether the smallest value is the best.

    >>> best_candidate([0.1, 0.2, 0.4], np.array([[0.9], [0.9], [np.nan]]), is_loss=False)
    0
    """
    means = np.asarray(values, float).mean(axis=1)
    scores = -means if is_loss else means
    scores = np.where(np.isnan(scores), -np.inf, scores)
    return min(range(len(scores)), key=lambda number: (-scores[number], step_sizes[number]))


@dataclass(frozen=True)
class TuningChoice:
    """The best candidate of each learner in a grid.

    Args:
        grid: the grid.
        best: the best candidate of each learner; the smallest one of a learner without one.
        widenings: how often the grids were widened.
        diverged: learners all of whose candidates diverged.
    """

    grid: Grid
    best: Mapping[str, Candidate]
    widenings: int = 0
    diverged: tuple[str, ...] = ()

    @property
    def at_low_edge(self) -> list[str]:
        """Learners whose best ``lr`` is the smallest of the grid."""
        return [name for name, candidate in self.best.items() if candidate.exponent == self.grid.exponents[0]]

    @property
    def at_high_edge(self) -> list[str]:
        """Learners whose best ``lr`` is the largest of the grid."""
        return [name for name, candidate in self.best.items() if candidate.exponent == self.grid.exponents[-1]]

    @property
    def is_inside(self) -> bool:
        """Each learner has a best ``lr``, and it lies inside the grid."""
        return not (self.diverged or self.at_low_edge or self.at_high_edge)

    @property
    def is_over(self) -> bool:
        """No grid is widened any more."""
        return self.is_inside or self.widenings == MAX_WIDENINGS

    def next_grid(self, tuning: TuningSpec) -> Grid:
        """Return the widened grid: by half of its first size on each side at whose edge a learner has its best."""
        steps = tuning.candidates // 2
        return self.grid.widened(steps, down=bool(self.at_low_edge), up=bool(self.at_high_edge))

    def sentence(self, tuning: TuningSpec) -> str:
        """Return the state of the comparison in words."""
        number = len(self.grid.exponents) * len(tuning.settings)
        label = tuning.criterion.label
        if self.is_inside:
            return f"tuned by validation {label}, {number} candidates each"
        problems = []
        if self.diverged:
            problems.append(f"all {number} candidates of {', '.join(self.diverged)} diverged")
        at_edge = [name for name in (*self.at_low_edge, *self.at_high_edge) if name not in self.diverged]
        if at_edge:
            names = ", ".join(at_edge)
            problems.append(f"the best lr of {names} by validation {label} is at the edge of {number} candidates each")
        return f"not tuned: {', and '.join(problems)}"


def choose_candidates(
    tuning: TuningSpec, grid: Grid, widenings: int, values: Mapping[Candidate, Floats]
) -> TuningChoice:
    """Return the best candidate of each learner, by the *values* of its candidates, ``[replicas]`` each."""
    by_learner: dict[str, list[Candidate]] = {}
    for candidate in values:
        by_learner.setdefault(candidate.learner, []).append(candidate)
    best = {}
    diverged = []
    for name, candidates in by_learner.items():
        table = np.stack([values[candidate] for candidate in candidates])
        step_sizes = [candidate.lr for candidate in candidates]
        best[name] = candidates[best_candidate(step_sizes, table, is_loss=tuning.criterion.is_loss)]
        if np.isnan(table).any(axis=1).all():
            diverged.append(name)
    return TuningChoice(grid, best, widenings, tuple(diverged))


def _with_settings(learner: LearnerSpec, settings: Sequence[tuple[str, Any]]) -> LearnerSpec:
    """Return *learner* with other values at dotted keys.

    Raises:
        KeyError: there is no such key.
        ValidationError: a value is wrong.
    """
    if not settings:
        return learner
    data = learner.model_dump(mode="json")
    for key, value in settings:
        *sections, last = key.split(".")
        section = data
        for name in sections:
            section = section[name]
        if last not in section:
            raise KeyError(last)
        section[last] = value
    return LearnerSpec.model_validate(data, context=WRITTEN)


def _key_fault(key: str, name: str, value: Any, learner: LearnerSpec, error: Exception) -> Fault:
    """Return the error of a further key: the learner has none, or not with this value."""
    if isinstance(error, ValidationError):
        fault = faults_of(error)[0]
        return Fault(f"keys.{key}", f"is not possible for learner '{name}': {fault.problem}", value, fault.remedy)
    if "." not in key:
        known = [field for field in type(learner).model_fields if field not in {"lr", "step_of"}]
        return Fault(f"keys.{key}", f"is no key of learner '{name}'", None, suggest(key, known))
    section, _, last = key.rpartition(".")
    content: Any = learner.model_dump(mode="json")
    for part in section.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping):
        return Fault(f"keys.{key}", f"is no key of learner '{name}'", None, "tune keys that all learners have")
    stated = f"is no key of learner '{name}'"
    if "kind" in content:
        stated += f", whose {section} is of the kind {content['kind']}"
    fields = [field for field in content if field != "kind"]
    return Fault(f"keys.{key}", stated, None, suggest(last, fields) if fields else "tune keys that all learners have")
