"""Effective steps of learners: the largest weight of a gradient in a version, times the step size.

A rule that weights some updates nine times as much as FedAvg steps nine times as far on them at the same ``lr``.  The
effective step makes the step sizes of different rules comparable.  This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from netfl.errors import Fault, suggest
from netfl.learning.spec import LearnerSpec
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

    def faults(self, learners: Learners) -> Iterator[Fault]:
        """Yield the errors of ``step_of``, with keys relative to the section ``learners``."""
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
                for unbounded in (each for each in (name, other) if not self.weight(learners[each])):
                    problem = f"the weights of '{unbounded}' have no bound, so that it has no effective step"
                    yield Fault(key, problem, other, "give lr")
