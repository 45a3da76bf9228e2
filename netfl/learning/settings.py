"""What a scenario says of its learners and their evaluation; no torch here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation
from netfl.learning.objective import Objective
from netfl.learning.schedule import Schedule
from netfl.learning.schedule.constant import Constant
from netfl.registry import Member, Spec
from netfl.types import Facts
from netfl.wording import WordOr


class LearnerSpec(Spec):
    """One learner: an objective, an aggregation, and how much a user trains for one update."""

    objective: Annotated[Objective, Member()]
    """What a user minimises."""
    aggregation: Annotated[Aggregation, Member()]
    """How deliveries become the next version."""
    lr: Annotated[float, Field(gt=0)]
    """Step size of local SGD on the model's parameters."""
    schedule: Annotated[Schedule, Member()] = Constant()
    """How the step sizes, ``lr`` and the objective's on t, change as versions go by."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of local SGD: each step adds so much of the step before; every update begins at rest."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of local SGD: so many times θ is added to each gradient."""
    batch_size: Annotated[int | Literal["full"], WordOr(Annotated[int, Field(ge=1)])]
    """Examples in a mini-batch; ``full`` takes all that the user has."""
    local_epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the user's data for one update; each is split into mini-batches anew, the last may be smaller."""
    local_steps: Annotated[int, Field(ge=1)] | None = None
    """Mini-batches for one update, in place of ``local_epochs``; as many passes as they need."""

    @model_validator(mode="after")
    def _one_amount(self) -> LearnerSpec:
        """Epochs or steps, not both and not neither."""
        if (self.local_epochs is None) == (self.local_steps is None):
            raise ValueError("give local_epochs or local_steps, one of them")
        return self

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """What its aggregation cannot work with."""
        yield from (fault.under("aggregation") for fault in self.aggregation.misfits(self))


class EvaluateSpec(Spec):
    """When the global models are evaluated, and which classes are called rare."""

    every: Annotated[int, Field(ge=1)] = 10
    """Evaluate after every so many rounds; round 0 and the last round are always evaluated."""
    rare_classes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """The labels whose accuracy is reported as ``rare_accuracy``; by default those of a ``rare_classes`` partition."""
