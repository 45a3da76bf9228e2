"""Effective steps of learners: the largest weight of a gradient in a version, times the step size.

A rule that weights some updates nine times as much as FedAvg steps nine times as far on them at the same ``lr``.  The
effective step makes the step sizes of different rules comparable.  A rule from outside netfl that states no largest
weight is probed (`weight_probe`).  Only that imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from netfl.core.family_members import find_plugins
from netfl.core.kinds import kind_of
from netfl.core.plugins import try_call
from netfl.errors import Fault, suggest
from netfl.learning.aggregation import Aggregation
from netfl.learning.objective import Objective
from netfl.learning.spec import LearnerSpec
from netfl.types import Floats

if TYPE_CHECKING:
    from netfl.learning.weight_probe import ProbedWeight

Learners = Mapping[str, LearnerSpec]
"""Learners by name."""

_ROUNDING = 0.005
"""Relative error of a stated weight that is no contradiction to a probe, which has single precision."""


@dataclass(frozen=True)
class StepRule:
    """The relation between step sizes and effective steps in one scenario.

    Args:
        users: number of users.
        deliveries: largest number of deliveries in a round.
        participation: shares of the rounds in which users' updates are delivered, ``[users]``; ``None`` if unknown.
    """

    users: int
    deliveries: int
    participation: Floats | None = None

    def weight(self, learner: LearnerSpec) -> float | None:
        """Return the largest weight W of a gradient in a version, in units of ``lr``; ``None`` if it has no bound.

        It is the product of those of the objective and of the aggregation, by ``1 - momentum``: the limit of many equal
        steps of an update with local momentum.
        """
        informed = learner.with_participation(self.participation)
        objective = informed.objective
        aggregation = informed.aggregation
        of_objective = _known_weight(objective, objective.largest_weight, self)
        of_aggregation = _known_weight(aggregation, aggregation.largest_weight(self.users, self.deliveries), self)
        if of_objective is None or of_aggregation is None:
            return None
        return of_objective * of_aggregation / (1 - learner.momentum)

    def step(self, learner: LearnerSpec) -> float | None:
        """Return the effective step W · lr of a learner; ``None`` if W has no bound."""
        weight = self.weight(learner)
        if weight is None:
            return None
        return weight * learner.step_size

    def derive(self, learners: Learners) -> dict[str, LearnerSpec]:
        """Return *learners*, those with ``step_of`` with the step size that follows: ``lr = lr_X W_X / W``.

        The learners must have no `faults`.
        """
        derived = {}
        for name, learner in learners.items():
            derived[name] = learner
            if learner.step_of is not None:
                step = self.step(learners[learner.step_of])
                weight = self.weight(learner)
                assert step is not None
                assert weight is not None
                derived[name] = learner.model_copy(update={"lr": step / weight})
        return derived

    def weight_faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of the largest weights of rules from outside netfl, with keys as in `faults`."""
        for name, learner in learners.items():
            informed, failure = try_call(learner.aggregation, partial(learner.with_participation, self.participation))
            if informed is None:
                problem = f"its method 'with_participation' fails on test values: {failure}"
                kind = kind_of(type(learner.aggregation))
                yield Fault(f"{name}.aggregation", problem, kind, "it returns the aggregation itself, or a copy")
                continue
            aggregation = informed.aggregation
            of_objective = partial(getattr, informed.objective, "largest_weight")
            of_aggregation = partial(aggregation.largest_weight, self.users, self.deliveries)
            yield from self._stated_faults(f"{name}.objective", informed.objective, of_objective)
            yield from self._stated_faults(f"{name}.aggregation", aggregation, of_aggregation)

    def faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of ``step_of``, with keys relative to the section ``learners``.

        The learners must have no `weight_faults`.
        """
        candidates = [name for name, spec in learners.items() if spec.step_of is None]
        for name, learner in learners.items():
            other = learner.step_of
            if other is None:
                continue
            key = f"{name}.step_of"
            if other not in learners:
                yield Fault(key, "no such learner", other, suggest(other, candidates))
            elif other not in candidates:
                yield Fault(key, "this learner has no lr of its own", other, suggest("", candidates))
            else:
                for each in (name, other):
                    if self.weight(learners[each]) is None:
                        problem = f"the weights of '{each}' have no bound, so that it has no effective step"
                        yield Fault(key, problem, other, "give lr")

    def _stated_faults(
        self, key: str, part: Objective | Aggregation, read_weight: Callable[[], object]
    ) -> Iterator[Fault]:
        """Yield the error of the largest weight that *part* of a learner states, by itself or beside its answers."""
        weight, failure = try_call(part, read_weight)
        kind = kind_of(type(part))
        problem = f"its largest_weight gives {weight}"
        if failure:
            problem = f"its largest_weight fails: {failure}"
        if failure or not _is_weight(weight):
            yield Fault(key, problem, kind, "give a positive number, or None if the weights have no bound")
            return

        # a weight that is stated may not be smaller than the answers of the rule
        if weight is None or not _is_own_weight(part):
            return
        probed = _probe(part, self)
        if probed is None or probed.largest <= float(weight) * (1 + _ROUNDING):
            return
        if isinstance(part, Objective):
            answer = f"the weights of a mini-batch have the sum {probed.largest:g}"
        else:
            answer = f"a change that all users make moves the version {probed.largest:g} times as far"
        yield Fault(key, f"{problem}, but {answer}", kind, f"give at least {probed.largest:g}")


def _is_weight(weight: object) -> TypeGuard[float | None]:
    """Return whether *weight* is a positive number, or ``None``."""
    if weight is None:
        return True
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.number):
        return False
    return bool(0 < weight < math.inf)


def _known_weight(part: Objective | Aggregation, stated: float | None, rule: StepRule) -> float | None:
    """Return the largest weight of *part* of a learner: the *stated* one, else that of a proportional rule."""
    if stated is not None and _is_own_weight(part):
        return stated
    probed = _probe(part, rule)
    if probed is None or not probed.is_proportional:
        return None
    return probed.largest


def _is_own_weight(part: Objective | Aggregation) -> bool:
    """Return whether the largest weight of *part* is meant for it: not that of a class whose steps it has changed."""
    makes_steps = "gradient_weights" if isinstance(part, Objective) else "step"
    classes = type(part).__mro__  # derived classes first
    of_weight = next(number for number, each in enumerate(classes) if "largest_weight" in vars(each))
    of_steps = next(number for number, each in enumerate(classes) if makes_steps in vars(each))
    return of_weight <= of_steps or classes[of_steps].__module__.startswith("netfl.")


def _probe(part: Objective | Aggregation, rule: StepRule) -> ProbedWeight | None:
    """Return the answers of a rule from outside netfl; ``None`` for others, or if it fails, which its trials report."""
    if not any(find_plugins(part)):  # a rule of netfl that states no weight has none; a test probes them all
        return None
    probed, _ = try_call(part, lambda: _answer(_Question.of(part, rule)))
    return probed


@dataclass(frozen=True, slots=True)
class _Question:
    """A probe of a rule; equal ones have equal answers.

    Args:
        part: the rule.
        users: number of users.
        deliveries: largest number of deliveries in a round.
        settings: class and fields of the rule.
    """

    part: Objective | Aggregation = field(compare=False)
    users: int
    deliveries: int
    settings: str

    @classmethod
    def of(cls, part: Objective | Aggregation, rule: StepRule) -> _Question:
        """Return the question for *part* of a learner in the scenario of *rule*."""
        return cls(part, rule.users, rule.deliveries, repr((type(part), part.model_dump())))


@lru_cache(256)
def _answer(question: _Question) -> ProbedWeight | None:
    """Return the answer of a rule.  It is kept, because each candidate of a tuning asks again."""
    from netfl.learning import weight_probe

    if isinstance(question.part, Objective):
        return weight_probe.probe_objective(question.part)
    return weight_probe.probe_aggregation(question.part, question.users, question.deliveries)
