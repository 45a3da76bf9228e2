"""Tuning of learners by validation: the section ``tuning``, the scores of candidates, and the choice among them.

A comparison of learners is fair if each has had the same effort.  Every learner gets the same number of candidates;
`netfl.simulation.tuning` trains them.  This module does not import torch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, product
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, create_model, model_validator

from netfl.core.spec import Spec
from netfl.core.spec_errors import faults_of, to_line_error
from netfl.errors import Fault, suggest
from netfl.learning.candidates import (
    LR,
    MAX_KEYS,
    Candidate,
    LogRange,
    Search,
    Settings,
    possible_range,
    read_key,
    with_settings,
)
from netfl.learning.effective_steps import Learners, StepRule
from netfl.learning.spec import LearnerSpec
from netfl.types import Floats, Ints

MAX_WIDENINGS = 2
"""Largest number of further passes."""
_LOG_SMALLEST = math.log(sys.float_info.min)
"""Logarithm of the smallest ``lr``."""
_LOG_LARGEST = math.log(sys.float_info.max)
"""Logarithm of the largest ``lr``."""


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
SCOPES: Mapping[str, str] = {
    "step": "for this choice of step",
    "settings": "for this choice of settings",
    "replica": "each replica by itself",
}
"""Clauses of a state that say whether the intervals of a comparison include the choice."""


class _Ends(Spec):
    """The range of a key of a learner, in which its candidates are placed by the logarithm of the value."""

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value at the start."""
        values = self.model_dump()
        return values["from"], values["to"]


LabelCriterion = Literal["rare_accuracy", "accuracy", "worst", "mean_over_users"]
"""Criteria that are shares of right answers."""
_POSITIVE = Annotated[float, Field(gt=0)]
_FIELDS: dict[str, Any] = {  # "from" is a word of Python, which no class statement can have as a field
    "from": (_POSITIVE, Field(description="The smallest value; a further pass may go below it.")),
    "to": (_POSITIVE, Field(description="The largest value; a further pass may go above it.")),
}
RangeSpec = create_model("RangeSpec", __base__=_Ends, __doc__=_Ends.__doc__, **_FIELDS)


class TuningSpec(Spec):
    """Tuning of every learner by validation, with the same number of candidates and by the same rule."""

    by: Literal[LabelCriterion, "loss", "objective"]
    """The criterion, on validation examples: the mean over the last quarter of the evaluations and over the validation
    replicas.  ``worst`` is the mean accuracy of the worst 10 % of users, and ``mean_over_users`` that of all, each user
    with equal weight; ``objective`` is that of each learner."""
    trials: Annotated[int, Field(ge=3, le=99)] = 7
    """Candidates of each learner in a pass, for each combination of ``keys``: values of ``lr`` in a geometric sequence
    or, of a learner in ``learners``, points of a low-discrepancy sequence in its ranges."""
    factor: Annotated[float, Field(gt=1, le=100)] = 2.0
    """Ratio of neighbouring values of ``lr``."""
    replicas: Annotated[int, Field(ge=1, le=1000)] = 2
    """Validation replicas, whose seeds are not those of the replicas of the run."""
    per: Literal["run", "replica"] = "run"
    """Which replicas share a choice: all of the ``run``, or none, as each ``replica`` is tuned with validation replicas
    of its own.  An interval over replicas includes the chance of the choice only with ``replica``."""
    floor: Mapping[LabelCriterion, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    """Criteria by which a candidate must reach a share of the best candidate of its learner, such as
    ``{accuracy: 0.9}``."""
    keys: Mapping[str, Annotated[tuple[Any, ...], Field(min_length=2, max_length=99)]] = Field(default_factory=dict)
    """Further keys of all learners with their values, such as ``{batch_size: [8, 16]}``; each combination is combined
    with each candidate."""
    learners: Mapping[str, Annotated[Mapping[str, RangeSpec], Field(min_length=1, max_length=MAX_KEYS)]] = Field(
        default_factory=dict
    )
    """Further keys of single learners with their ranges, such as
    ``{CVaR: {objective.lr_t: {from: 1e-4, to: 0.1}}}``."""

    @model_validator(mode="before")
    @classmethod
    def _name_trials(cls, value: Any) -> Any:
        """Name the key that has taken the place of ``candidates``."""
        if isinstance(value, Mapping) and "candidates" in value:
            fault = Fault("candidates", "is called trials now", value["candidates"], "write trials in place of it")
            raise ValidationError.from_exception_data(cls.__name__, [to_line_error(fault)])
        return value

    @property
    def criterion(self) -> Criterion:
        """The criterion."""
        return CRITERIA[self.by]

    @property
    def metrics(self) -> list[str]:
        """Metrics of the criterion and of the floors, each once."""
        return [*dict.fromkeys(CRITERIA[name].metric for name in (self.by, *self.floor))]

    @property
    def settings(self) -> list[Settings]:
        """Combinations of the further keys of all learners; a single empty one without further keys."""
        return [tuple(zip(self.keys, values, strict=True)) for values in product(*self.keys.values())]

    def searches(self, learners: Learners) -> dict[str, Search]:
        """Return the search of each tuned learner before the first pass."""
        half_width = (self.trials - 1) / 2
        searches = {}
        for name in tuned_learners(learners):
            ranges = {LR: LogRange(-half_width, half_width)}
            for key, each in self.learners.get(name, {}).items():
                low, high = each.ends
                ranges[key] = LogRange(math.log(low), math.log(high))
            searches[name] = Search(name, ranges)
        return searches

    def candidates(
        self, searches: Mapping[str, Search], learners: Learners, rule: StepRule, *, lowered: float = 0.0
    ) -> list[Candidate]:
        """Return the candidates of the last pass of *searches*: learner by learner, combination by combination of keys.

        The centres of all learners have one effective step, that of `grid_centres`: settings that change the largest
        weight of a learner, such as its momentum, change the ``lr`` at its centre.

        Args:
            searches: by learner.
            learners: the learners as given.
            rule: the relation between step sizes and effective steps.
            lowered: steps by which each ``lr`` is smaller.
        """
        centres = grid_centres(learners, rule)
        candidates = []
        for name, search in searches.items():
            learner = learners[name]
            roundings = {}
            for key, each in search.ranges.items():
                if key != LR and (round_ := read_key(learner, key, each)):
                    roundings[key] = round_
            for listed, place in product(self.settings, search.places[-self.trials :]):
                in_box = [(key, round_(math.exp(place[key]))) for key, round_ in roundings.items()]
                settings = (*listed, *in_box)
                centre = _centre_at(learner, centres[name], settings, rule)
                lr = centre * self.factor ** (place[LR] - lowered)
                candidates.append(Candidate(name, place, lr, settings, listed=listed))
        return candidates

    def key_faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of the further keys, the first of each key."""
        tuned = {name: learners[name] for name in tuned_learners(learners)}
        for key, values in self.keys.items():
            yield from islice(self._value_faults(key, values, tuned), 1)
        for name, ranges in self.learners.items():
            if name not in learners:
                yield Fault(f"learners.{name}", "no such learner", None, suggest(name, [*tuned]))
            elif name not in tuned:
                problem = f"is not tuned, as its step is that of '{learners[name].step_of}'"
                yield Fault(f"learners.{name}", problem, None, "leave it out, or give the learner an lr")
            else:
                for key, each in ranges.items():
                    yield from islice(self._range_faults(name, key, each, learners[name]), 1)

    def _named_fault(self, place: str, key: str) -> Fault | None:
        """Return the error of a *key* at *place* that no learner may have."""
        if key == LR:
            return Fault(place, "is always tuned", None, "leave it out: trials and factor give its values")
        if key == "step_of":
            return Fault(place, "is no setting", None, "leave it out")
        if self.by == "objective" and key.partition(".")[0] == "objective":
            problem = "changes the objective, by which candidates are compared"
            return Fault(place, problem, None, "leave it out, or use another criterion in by")
        return None

    def _value_faults(self, key: str, values: Sequence[Any], tuned: Learners) -> Iterator[Fault]:
        """Yield the errors of the *values* of a *key* of all *tuned* learners."""
        place = f"keys.{key}"
        if fault := self._named_fault(place, key):
            yield fault
        twice = [value for number, value in enumerate(values) if value in values[:number]]
        if twice:
            yield Fault(place, "lists an entry twice", twice[0], "list each value once")
        for (name, learner), value in product(tuned.items(), values):
            try:
                with_settings(learner, [(key, value)])
            except (ValidationError, LookupError, TypeError) as error:
                remedy = "tune keys that all learners have, or use tuning.learners"
                yield _key_fault(place, key, name, value, learner, error, remedy)

    def _range_faults(self, name: str, key: str, ends: _Ends, learner: LearnerSpec) -> Iterator[Fault]:
        """Yield the errors of the range of one *key* of one *learner*."""
        place = f"learners.{name}.{key}"
        if fault := self._named_fault(place, key):
            yield fault
        if key in self.keys:
            yield Fault(place, "is among the keys of all learners, too", None, "leave one of them out")
        low, high = ends.ends
        if low >= high:
            yield Fault(f"{place}.from", f"not below to ({high:g})", low, "write a smaller number")
            return
        round_ = read_key(learner, key, LogRange(math.log(low), math.log(high)))
        if round_ is None:
            try:
                with_settings(learner, [(key, low)])
            except (ValidationError, LookupError, TypeError) as error:
                yield _key_fault(place, key, name, low, learner, error, f"name a number of '{name}'")
            else:
                yield Fault(place, f"is no number of learner '{name}'", None, f"name a number of '{name}'")
            return
        for end, value in (("from", low), ("to", high)):
            try:
                with_settings(learner, [(key, round_(value))])
            except ValidationError as error:
                fault = faults_of(error)[0]
                problem = f"is not possible for learner '{name}': {fault.problem}"
                yield Fault(f"{place}.{end}", problem, value, fault.remedy)
        if round_(low) == round_(high):
            yield Fault(f"{place}.to", "the range holds one value alone", high, "write a larger number")

    def step_faults(self, learners: Learners, rule: StepRule) -> Iterator[Fault]:
        """Yield the errors of the step sizes of candidates, for learners and further keys without errors."""
        if self.keys:
            for settings in self.settings:
                tuned = {name: with_settings(learners[name], settings) for name in tuned_learners(learners)}
                faults = chain(rule.weight_faults(tuned), rule.faults({**learners, **tuned}))
                first = next(faults, None)
                if first is not None:
                    stated = ", ".join(f"{key}={value}" for key, value in settings)
                    remedy = f"leave out one of these, or learners.{first.key}"
                    yield Fault("keys", f"with {stated} {first.problem}", None, remedy)
                    return
        widest_steps = (self.trials - 1) / 2 + self.trials * MAX_WIDENINGS  # after all further passes
        half_width = widest_steps * math.log(self.factor)
        centres = grid_centres(learners, rule)
        for name, settings in product(centres, self.settings):
            lr = _centre_at(learners[name], centres[name], settings, rule)
            if math.log(lr) - half_width < _LOG_SMALLEST or math.log(lr) + half_width > _LOG_LARGEST:
                problem = f"the lr of '{name}' around {lr:.3g} may leave the range of numbers"
                yield Fault("factor", problem, self.factor, "use a smaller factor, fewer trials, or another lr")
                return


def tuned_learners(learners: Learners) -> list[str]:
    """Return the names of the learners that have candidates: those whose step is not that of another learner."""
    return [name for name, learner in learners.items() if learner.step_of is None]


def grid_centres(learners: Learners, rule: StepRule) -> dict[str, float]:
    """Return the ``lr`` at the centre of the range of each tuned learner.

    The centres have one effective step: the geometric mean of those of the learners as given, ``lr_k W_k`` with the
    largest weight W_k of learner k.  The range of a learner whose weights have no bound is centred on its ``lr``.
    """
    weights = {name: rule.weight(learners[name]) for name in tuned_learners(learners)}
    logarithms = []  # of the effective steps
    for name, weight in weights.items():
        if weight is not None:
            logarithms.append(math.log(weight * learners[name].step_size))
    step = 0.0
    if logarithms:
        step = math.exp(math.fsum(logarithms) / len(logarithms))
    centres = {}
    for name, weight in weights.items():
        if weight is None:  # it has no bound
            centres[name] = learners[name].step_size
        else:
            centres[name] = step / weight
    return centres


def _centre_at(learner: LearnerSpec, centre: float, settings: Settings, rule: StepRule) -> float:
    """Return the ``lr`` with *settings* that has the effective step of the *centre* of *learner* as given."""
    if not settings:
        return centre
    weight = rule.weight(learner)
    weight_there = rule.weight(with_settings(learner, settings))
    if weight is None:
        return centre
    if weight_there is None:  # with these settings it has no bound
        return learner.step_size
    return centre * (weight / weight_there)


def last_quarter_means(rounds: Ints, values: Floats) -> Floats:
    """Return the mean of each lane over the last quarter of the evaluations, ``[lanes]``; NaN where it diverged.

    Args:
        rounds: the round of each evaluation, ascending, ``[evaluations]``.
        values: ``[evaluations, lanes]``.

    >>> last_quarter_means(np.array([0, 50, 75, 100]), np.array([[0.0], [1.0], [2.0], [4.0]]))
    array([3.])
    """
    return np.asarray(values[in_last_quarter(rounds)].mean(axis=0))


def in_last_quarter(rounds: Ints) -> Any:
    """Return whether each evaluation belongs to the last quarter of the rounds, ``[evaluations]``."""
    return rounds >= 0.75 * rounds.max()


def beats_constant(accuracy: Floats, start: Floats, examples: Ints) -> bool:
    """Return whether a model tells classes apart: better than at the start, and better than any constant answer.

    The measure is the mean of the accuracies of all classes, ``A = Σ_c a_c / C``, which is 1/C for every constant
    answer.  A model with a larger share of right answers than the best constant one is above 1/C, too: with
    shares p_c of the examples, ``Σ p_c a_c > max p`` gives ``Σ a_c >= Σ (p_c / max p) a_c > 1``.  A has the standard
    error ``sqrt(Σ_c a_c (1 - a_c) / n_c) / C``; A must exceed 1/C by two of it, and that of the start by two of the
    difference.

    Args:
        accuracy: accuracies a_c of the classes, ``[classes]``; NaN where training diverged.
        start: those of version 0, ``[classes]``.
        examples: numbers n_c of examples, ``[classes]``, all positive.

    >>> beats_constant(np.array([0.9, 0.6]), np.array([0.5, 0.5]), np.array([50, 50]))
    True
    >>> beats_constant(np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([50, 50]))
    False
    """
    if np.isnan(accuracy).any():
        return False

    def variance(shares: Floats) -> float:
        return float((shares * (1 - shares) / examples).sum()) / len(examples) ** 2

    gain_on_constant = float(accuracy.mean()) - 1 / len(examples)
    gain_on_start = float(accuracy.mean() - start.mean())
    of_constant = 2 * math.sqrt(variance(accuracy))
    of_start = 2 * math.sqrt(variance(accuracy) + variance(start))
    return gain_on_constant > of_constant and gain_on_start > of_start


@dataclass(frozen=True, slots=True)
class Score:
    """The results of a candidate on validation examples.

    Args:
        values: the criterion in each validation replica, ``[replicas]``; NaN where training diverged.
        learns: whether it has learned anything: see `beats_constant`; by a loss, whether it is below the start.
        over_classes: mean of the accuracies of all classes; NaN where it is not compared.
        gains: what it is above the best constant answer in that mean, and in the share of right answers; empty where
            they are not compared.
        floors: means of the criteria with a floor, by their names.
        evaluations: evaluations behind the criterion, over all validation replicas.
    """

    values: Floats
    learns: bool = True
    over_classes: float = math.nan
    gains: tuple[float, ...] = ()
    floors: Mapping[str, float] = field(default_factory=dict)
    evaluations: int = 0

    @property
    def has_diverged(self) -> bool:
        """Training diverged in a replica."""
        return bool(np.isnan(self.values).any())

    @property
    def mean(self) -> float:
        """The criterion, mean over validation replicas."""
        return float(self.values.mean())


@dataclass(frozen=True)
class LearnerChoice:
    """The best candidate of one learner.

    Args:
        best: the best candidate; ``None`` if none may be chosen.
        alive: the candidates that are alive; see `alive_candidates`.
        wider: wider ranges by dimension, where the best candidate is at an edge; empty if it lies inside.
        problem: why none may be chosen: ``diverged``, ``dead`` or ``floor``; empty if one is.
    """

    best: Candidate | None
    alive: frozenset[Candidate]
    wider: Mapping[str, LogRange] = field(default_factory=dict)
    problem: Literal["", "diverged", "dead", "floor"] = ""


def alive_candidates(scores: Mapping[Candidate, Score]) -> list[Candidate]:
    """Return the candidates of one learner that are trained: they did not diverge, learned, and are not half trained.

    An untrained model has some accuracy of any class by chance, and loses it slowly.  A candidate is half trained if it
    is above the best constant answer by less than half of what the best candidate is, both in the mean over classes and
    in the share of right answers.  Either is enough: where users contradict each other, they have different optima.
    """
    learning = [each for each, score in scores.items() if score.learns and not score.has_diverged]
    best_gains = [max(gains) for gains in zip(*(scores[each].gains for each in learning), strict=True)]
    if not best_gains:  # gains are not compared
        return learning

    def is_trained(score: Score) -> bool:
        return any(best > 0 and gain >= best / 2 for gain, best in zip(score.gains, best_gains, strict=True))

    return [each for each in learning if is_trained(scores[each])]


def choose_candidate(
    tuning: TuningSpec, learner: LearnerSpec, search: Search, scores: Mapping[Candidate, Score]
) -> LearnerChoice:
    """Choose the best of the candidates of one learner.

    A candidate that is not alive, or that is below a floor, is never chosen.  Without another one, the range of ``lr``
    should be wider on both sides or, if all diverged, below.  Among equals the smaller step size wins; where one of
    them is at an edge, the range should be wider on both sides.

    Args:
        tuning: the section.
        learner: the learner as given.
        search: its ranges.
        scores: of all candidates of the learner so far.
    """
    trained = alive_candidates(scores)
    alive = frozenset(trained)
    able = _above_floors(tuning, trained, scores)
    step = search.ranges[LR]
    if not able:
        if all(score.has_diverged for score in scores.values()):
            return LearnerChoice(None, alive, {LR: step.widened("low")}, "diverged")
        return LearnerChoice(None, alive, {LR: step.widened("both")}, "floor" if alive else "dead")
    sign = -1.0 if tuning.criterion.is_loss else 1.0
    top = max(sign * scores[each].mean for each in able)
    equals = [each for each in able if sign * scores[each].mean >= top - 1e-12 * abs(top)]
    best = min(equals, key=lambda each: each.lr)
    return LearnerChoice(best, alive, _wider_ranges(learner, search, equals))


def _above_floors(tuning: TuningSpec, alive: Sequence[Candidate], scores: Mapping[Candidate, Score]) -> list[Candidate]:
    """Return the candidates of *alive* that reach, by each criterion with a floor, its share of the best of them."""
    able = [*alive]
    for name, share in tuning.floor.items():
        best = max((scores[each].floors[name] for each in alive), default=0.0)
        able = [each for each in able if scores[each].floors[name] >= share * best]
    return able


def _wider_ranges(learner: LearnerSpec, search: Search, equals: Sequence[Candidate]) -> dict[str, LogRange]:
    """Return the wider ranges of the dimensions where a candidate of *equals*, the best, is at an edge."""
    wider = {}
    for name, now in search.ranges.items():
        sides = [side for each in equals if (side := now.side_of(each.place[name])) is not None]
        if not sides:
            continue
        widened = now.widened(sides[0] if len(equals) == 1 else "both")
        if name != LR:
            widened = possible_range(learner, name, now, widened)
        if widened != now:
            wider[name] = widened
    return wider


@dataclass(frozen=True)
class TuningChoice:
    """The choices of all learners after a number of passes.

    Args:
        learners: the choice of each learner.
        passes: number of passes.
        candidates: candidates of each learner.
        evaluations: evaluations behind the criterion of a candidate.
    """

    learners: Mapping[str, LearnerChoice]
    passes: int
    candidates: int
    evaluations: int

    @property
    def is_tuned(self) -> bool:
        """Each learner has a best candidate, which lies inside its ranges."""
        return not any(each.wider or each.problem for each in self.learners.values())

    @property
    def is_over(self) -> bool:
        """No further pass follows."""
        return self.is_tuned or self.passes > MAX_WIDENINGS

    @property
    def chosen(self) -> frozenset[Candidate]:
        """The chosen candidates."""
        return frozenset(each.best for each in self.learners.values() if each.best is not None)

    def problem(self, tuning: TuningSpec) -> str:
        """Return why the learners are not tuned; empty if they are."""
        learners_by_problem: dict[str, list[str]] = {}
        at_edge: list[str] = []
        dimensions: list[str] = []
        for name, choice in self.learners.items():
            if choice.problem:
                learners_by_problem.setdefault(choice.problem, []).append(name)
            elif choice.wider:
                at_edge.append(name)
                dimensions += choice.wider
        clauses = []
        for problem, verb in (("diverged", "diverged"), ("floor", "miss the floor")):
            if problem in learners_by_problem:
                names = ", ".join(learners_by_problem[problem])
                clauses.append(f"all {self.candidates} candidates of {names} {verb}")
        if "dead" in learners_by_problem:
            names = ", ".join(learners_by_problem["dead"])
            clauses.append(f"no candidate learns, of {self.candidates} of {names}")
        if at_edge:
            keys = " and ".join(dict.fromkeys(dimensions))
            clauses.append(
                f"the best {keys} of {', '.join(at_edge)} by validation {tuning.criterion.label} is at the edge "
                f"of {self.candidates} candidates each"
            )
        return ", and ".join(clauses)


def tuning_state(
    tuning: TuningSpec, learners: Learners, problems: Sequence[str], candidates: Sequence[int], evaluations: int
) -> str:
    """Return the state of a comparison in words, which all outputs state.

    Args:
        tuning: the section.
        learners: the learners as given.
        problems: why learners are not tuned, of each replica that is tuned by itself, or of the run; empty if all are.
        candidates: candidates of each learner there.
        evaluations: evaluations behind the criterion of a candidate.
    """
    failed = [problem for problem in problems if problem]
    if failed and tuning.per == "replica":
        return f"not tuned in {len(failed)} of {len(problems)} replicas: {failed[0]}"
    if failed:
        return f"not tuned: {failed[0]}"
    smallest = min(candidates)
    largest = max(candidates)
    number = f"{largest} candidates each"
    if smallest < largest:
        number = f"{smallest} to {largest} candidates each"
    if tuning.per == "replica":
        scope = "replica"
    elif tuning.learners or tuning.keys:
        scope = "settings"
    else:
        scope = "step"
    by = f"tuned by validation {tuning.criterion.label}"
    clauses = [by, number, f"means of {evaluations} evaluations", SCOPES[scope]]
    if left := left_as_given(tuning, learners):
        clauses.append(f"{', '.join(left)} as given")
    return ", ".join(clauses)


def left_as_given(tuning: TuningSpec, learners: Learners) -> list[str]:
    """Return the keys of the tuned learners that tuning could change and does not, each once.

    These are the numbers of the objective, the aggregation and local SGD that differ from their defaults.  Where only
    some learners that have a key leave it as given, they are named.  ``server_lr`` scales the step like ``lr``, and the
    amount of local work is that of the comparison.
    """
    leaving: dict[str, list[str]] = {}
    tuned: set[str] = set()
    for name in tuned_learners(learners):
        searched = {*tuning.keys, *tuning.learners.get(name, {})}
        tuned |= searched
        for key in _numbers_of(learners[name]):
            if key not in searched and key.partition(".")[0] not in searched:
                leaving.setdefault(key, []).append(name)
    stated = []
    for key, names in leaving.items():
        if key in tuned:  # of other learners
            stated.append(f"{key} of {' and '.join(names)}")
        else:
            stated.append(key)
    return stated


def _numbers_of(learner: LearnerSpec) -> Iterator[str]:
    """Yield the dotted keys of the numbers of *learner* that differ from their defaults."""
    for section in ("objective", "aggregation", ""):
        spec: Spec = getattr(learner, section) if section else learner
        for name, about in type(spec).model_fields.items():
            value = getattr(spec, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or value == about.default or name in _NOT_FREE:
                continue
            yield f"{section}.{name}" if section else name


_NOT_FREE = frozenset({LR, "server_lr", "batch_size", "local_epochs", "local_steps"})
"""Numbers of a learner that are tuned, scale the step, or are part of the question."""


def _key_fault(
    place: str, key: str, name: str, value: Any, learner: LearnerSpec, error: Exception, remedy: str
) -> Fault:
    """Return the error of a further key at *place*: the learner has none, or not with this value."""
    if isinstance(error, ValidationError):
        fault = faults_of(error)[0]
        return Fault(place, f"is not possible for learner '{name}': {fault.problem}", value, fault.remedy)
    problem = f"is no key of learner '{name}'"
    if "." not in key:
        keys = [each for each in type(learner).model_fields if each not in {LR, "step_of"}]
        return Fault(place, problem, None, suggest(key, keys))
    section, _, last = key.rpartition(".")
    content: Any = learner.model_dump(mode="json")
    for part in section.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping):
        return Fault(place, problem, None, remedy)
    if "kind" in content:
        problem += f", whose {section} is of the kind {content['kind']}"
    keys = [each for each in content if each != "kind"]
    return Fault(place, problem, None, suggest(last, keys) if keys else remedy)
