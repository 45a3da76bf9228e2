"""Effective steps of learners: the largest weight of a gradient in a version, times the step size.

A rule that weights some updates nine times as much as FedAvg steps nine times as far on them at the same ``lr``.  The
effective step makes the step sizes of different rules comparable.  This module does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from netfl.errors import Fault, suggest
from netfl.learning.spec import LearnerSpec
from netfl.registry import Spec, kind_of, try_call
from netfl.types import Floats

Learners = Mapping[str, LearnerSpec]
"""Learners by name."""


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
        """Return the largest weight W of a learner; ``None`` if it has no bound."""
        return learner.with_participation(self.participation).largest_weight(self.users, self.deliveries)

    def step(self, learner: LearnerSpec) -> float | None:
        """Return the effective step W · lr of a learner; ``None`` if W has no bound."""
        weight = self.weight(learner)
        return None if weight is None else weight * learner.step_size

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
            yield from _weight_faults(f"{name}.objective", informed.objective, of_objective)
            yield from _weight_faults(f"{name}.aggregation", aggregation, of_aggregation)

    def faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of ``step_of``, with keys relative to the section ``learners``.

        The learners must have no `weight_faults`.
        """
        for name, learner in learners.items():
            other = learner.step_of
            if other is None:
                continue
            key = f"{name}.step_of"
            candidates = [known for known, spec in learners.items() if spec.step_of is None]
            if other not in learners:
                yield Fault(key, "no such learner", other, suggest(other, candidates))
            elif other not in candidates:
                yield Fault(key, "this learner has no lr of its own", other, suggest("", candidates))
            else:
                for unbounded in (each for each in (name, other) if self.weight(learners[each]) is None):
                    problem = f"the weights of '{unbounded}' have no bound, so that it has no effective step"
                    yield Fault(key, problem, other, "give lr")


def _weight_faults(key: str, part: Spec, read_weight: Callable[[], object]) -> Iterator[Fault]:
    """Yield the error of the largest weight that *part* of a learner states."""
    weight, failure = try_call(part, read_weight)
    problem = f"its largest_weight fails: {failure}"
    if not failure:
        problem = f"its largest_weight gives {weight}"
    if failure or not _is_weight(weight):
        yield Fault(key, problem, kind_of(type(part)), "give a positive number, or None if the weights have no bound")


def _is_weight(weight: object) -> bool:
    """Return whether *weight* is a positive number, or ``None``."""
    if weight is None:
        return True
    return isinstance(weight, int | float | np.number) and not isinstance(weight, bool) and bool(0 < weight < math.inf)
