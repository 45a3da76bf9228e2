"""What a scenario says of its learners and their evaluation; no torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, suggest
from netfl.learning.aggregation import Aggregation
from netfl.learning.objective import Objective
from netfl.learning.schedule import Schedule
from netfl.learning.schedule.constant import Constant
from netfl.registry import FamilyMember, LiteralOr, Spec, kind_of
from netfl.types import ScenarioFacts
from netfl.units import Seconds


class LearnerSpec(Spec):
    """One learner: an objective, an aggregation, and how much a user trains for one update."""

    objective: Annotated[Objective, FamilyMember()]
    """What a user minimises."""
    aggregation: Annotated[Aggregation, FamilyMember()]
    """How deliveries become the next version."""
    lr: Annotated[float, Field(gt=0)]
    """Step size of local SGD on the model's parameters."""
    schedule: Annotated[Schedule, FamilyMember()] = Constant()
    """How the step sizes, ``lr`` and the objective's on t, change as versions go by."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of local SGD: each step adds so much of the step before; every update begins at rest."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of local SGD: so many times θ is added to each gradient."""
    batch_size: Annotated[int | Literal["full"], LiteralOr(Annotated[int, Field(ge=1)])]
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

    @property
    def one_step(self) -> bool:
        """Whether an update is a single step, whatever a user holds."""
        return self.local_steps == 1 or (self.batch_size == "full" and self.local_epochs == 1)

    def informed(self, heard: NDArray[np.float64] | None) -> LearnerSpec:
        """This learner in a replica in which users are heard in such shares of rounds; see `Aggregation.informed`."""
        return self.model_copy(update={"aggregation": self.aggregation.informed(heard)})

    def rates(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Step sizes on θ, and on t, of users that start from *versions*, ``[n, 2]``; 0 for a t that stays."""
        return np.outer(self.schedule.factors(versions), (self.lr, self.objective.t_rate))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What its aggregation cannot work with, and what has no effect on a single step."""
        yield from (fault.under("aggregation") for fault in self.aggregation.misfits(self))
        if self.one_step and self.momentum:
            problem = "has no effect: an update of one step begins at rest, and ends"
            remedy = "leave it out, or take it at the server: the aggregation 'fedavgm'"
            yield Fault("momentum", problem, self.momentum, remedy)
        if self.one_step and self.objective.pull:
            problem = "its pull has no effect: an update of one step begins at its base, and ends"
            remedy = "take the objective 'erm', or more steps"
            yield Fault("objective", problem, kind_of(type(self.objective)), remedy)


class CheckpointSpec(Spec):
    """How often a run keeps where its learners stand, to go on from after a crash."""

    time: Annotated[Seconds, Field(gt=0)] | None = None
    """The time between two checkpoints, by the clock on the wall; or ``rounds``."""
    rounds: Annotated[int, Field(ge=1)] | None = None
    """A checkpoint after every so many rounds, in place of ``time``."""

    @model_validator(mode="after")
    def _one_pace(self) -> CheckpointSpec:
        """By time or by rounds, not both and not neither."""
        if (self.time is None) == (self.rounds is None):
            raise ValueError("give time or rounds, one of them")
        return self


class ChoiceSpec(Spec):
    """Which of some learners is kept, by how well each does on validation examples."""

    of: Annotated[tuple[str, ...], Field(min_length=2)]
    """The learners to choose among, such as some that differ in a hyper-parameter."""
    by: Literal["validation_accuracy", "validation_loss"] = "validation_accuracy"
    """What decides: the largest accuracy, or the smallest loss; among equals the one that is named first."""
    per: Literal["all", "user"] = "all"
    """``all``: one learner for everybody; ``user``: each user keeps the one that is best on its own validation
    examples, and users without any the one that is best on everybody's."""


class EvaluateSpec(Spec):
    """When the global models are evaluated, on what, and what is told of them."""

    every: Annotated[int, Field(ge=1)] = 10
    """Evaluate after every so many rounds; round 0 and the last round are always evaluated."""
    rare_classes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """The labels whose accuracy is reported as ``rare_accuracy``; by default those of a ``rare_classes`` partition."""
    metrics: tuple[Literal["validation", "staleness", "weight", "gradient_norm", "weight_divergence"], ...] = ()
    """Figures that are told where they are asked for: ``validation``, accuracy and loss on the validation examples;
    ``staleness`` of what was delivered; ``weight``, how much each user counts; ``gradient_norm``, which costs a pass
    over all training examples; ``weight_divergence``, which trains a central twin beside every learner."""
    targets: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Test accuracies for which a run tells when they were first reached, and at what cost."""
    levels: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Levels α at which the CVaR of every learner is told, beside those that the learners have."""
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of each user's training examples, rounded down, that is kept to validate with, and not trained on; for
    data that keep none themselves."""
    choose: Mapping[Annotated[str, Field(pattern=r"^[^\s/][^/\n]*$", max_length=100)], ChoiceSpec] = Field(
        default_factory=dict
    )
    """Choices by validation, each under a name, which then stands in the tables beside those of the learners."""

    @property
    def validates(self) -> bool:
        """Whether validation examples are wanted."""
        return self.validation is not None or bool(self.choose) or "validation" in self.metrics

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is named twice, a metric of no learner, and choices among learners that are not there."""
        for name in ("metrics", "targets", "levels", "rare_classes"):
            told = getattr(self, name) or ()
            if len(set(told)) < len(told):
                yield Fault(name, "names an entry twice", [*told], "name each once")
        if "weight" in self.metrics and not facts.weighed:
            problem = "no learner has an aggregation that weighs users"
            yield Fault("metrics", problem, "weight", "leave it out, or take one that does, such as 'fedau'")
        for name, choice in self.choose.items():
            if name in facts.learners:
                yield Fault(f"choose.{name}", "is the name of a learner", None, "take another name")
            for learner in (one for one in choice.of if one not in facts.learners):
                yield Fault(f"choose.{name}.of", "no such learner", learner, suggest(learner, facts.learners))
            if len(set(choice.of)) < len(choice.of):
                yield Fault(f"choose.{name}.of", "names a learner twice", [*choice.of], "name each once")
