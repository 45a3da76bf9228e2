"""What a scenario says of its learners and their evaluation; no torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from netfl.learning.aggregation import Aggregation
from netfl.learning.objective import Objective
from netfl.registry import Member, Spec
from netfl.wording import WordOr


class LearnerSpec(Spec):
    """One learner: an objective, an aggregation, and how much a user trains for one update."""

    objective: Annotated[Objective, Member()]
    """What a user minimises."""
    aggregation: Annotated[Aggregation, Member()]
    """How deliveries become the next version."""
    lr: Annotated[float, Field(gt=0)]
    """Step size of local SGD on the model's parameters."""
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


class EvaluateSpec(Spec):
    """When the global models are evaluated, and which classes are called rare."""

    every: Annotated[int, Field(ge=1)] = 10
    """Evaluate after every so many rounds; round 0 and the last round are always evaluated."""
    rare_classes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """The labels whose accuracy is reported as ``rare_accuracy``; by default those of a ``rare_classes`` partition."""
