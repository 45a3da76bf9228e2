"""Settings of learners, evaluation and checkpoints.  This module does not import torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationError, field_serializer, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.kinds import kind_of
from netfl.core.spec import ByForm, Spec, check_one_of, no_effect
from netfl.core.spec_errors import invalid, to_line_error
from netfl.errors import CONTROLS, Fault, suggest
from netfl.learning.aggregation import Aggregation
from netfl.learning.device import DeviceRule
from netfl.learning.objective import Objective
from netfl.learning.schedule import Schedule
from netfl.learning.schedule.constant import Constant
from netfl.types import Floats, Ints, ScenarioFacts
from netfl.units import Seconds

_LOSSES = "the aggregation '{}' needs the losses of the versions that users receive"
"""Beginning of the errors of rules that let users start elsewhere."""


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Mini-batches of some users, each ``[users]``.

    Args:
        width: examples in a full mini-batch.
        per_pass: mini-batches of one pass over a user's examples.
        steps: mini-batches of one update.
    """

    width: NDArray[Any]
    per_pass: NDArray[Any]
    steps: NDArray[Any]


@dataclass(frozen=True, slots=True)
class LocalWork:
    """Training of a user for one update.  Exactly one of *epochs* and *steps* is given.

    Args:
        batch_size: examples in a mini-batch; ``None`` for all.
        epochs: passes over the user's examples.
        steps: mini-batches.
    """

    batch_size: int | None
    epochs: int | None
    steps: int | None

    def count(self, sizes: NDArray[Any]) -> BatchCounts:
        """Count the mini-batches of users that hold *sizes* examples, ``[users]``.

        >>> LocalWork(4, epochs=2, steps=None).count(np.array([10, 3])).steps.tolist()
        [6, 2]
        """
        width = sizes
        if self.batch_size is not None:
            width = np.minimum(self.batch_size, sizes)
        per_pass = -(-sizes // width)
        if self.epochs is not None:
            steps = per_pass * self.epochs
        else:
            steps = np.full_like(sizes, self.steps or 0)
        return BatchCounts(width, per_pass, steps)

    def examples(self, sizes: NDArray[Any]) -> NDArray[Any]:
        """Count the examples that users process for one update, ``[users]``; the last of a pass may be a small batch.

        >>> LocalWork(4, epochs=None, steps=5).examples(np.array([10])).tolist()
        [18]
        """
        work = self.count(sizes)
        in_whole_passes = work.steps // work.per_pass * sizes
        in_last_pass = work.steps % work.per_pass * work.width
        return np.asarray(in_whole_passes + in_last_pass)


class LearnerSpec(Spec):
    """One learner: an objective, an aggregation, and how much a user trains for one update."""

    objective: Annotated[Objective, FamilyMember()]
    """The local objective, which a user minimises."""
    aggregation: Annotated[Aggregation, FamilyMember()]
    """The rule that makes the next version from the delivered updates."""
    lr: Annotated[float, Field(gt=0)] | None = None
    """Step size of local SGD on the model's parameters."""
    step_of: str | None = None
    """Name of another learner, in place of ``lr``: the step size is that with which both have the same effective step,
    which is ``lr`` times the largest factor with which one gradient can enter the new model."""
    schedule: Annotated[Schedule, FamilyMember()] = Constant()
    """Change of the step sizes, ``lr`` and, without a ``t_schedule``, the objective's on t, with the version."""
    t_schedule: Annotated[Schedule, FamilyMember()] | None = None
    """Change of the objective's step size on t with the version; by default as ``schedule``."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Momentum of local SGD: the factor of the previous step; every update starts at rest."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Weight decay of local SGD: the factor of θ that is added to each gradient."""
    batch_size: Annotated[Annotated[int, Field(ge=1)] | Literal["full"], ByForm()]
    """Examples in a mini-batch; ``full`` for all examples of the user."""
    local_epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the user's data for one update.  The last mini-batch of a pass may be smaller."""
    local_steps: Annotated[int, Field(ge=1)] | None = None
    """Mini-batches for one update, in place of ``local_epochs``, over as many passes as necessary."""
    base: Literal["newest_received", "last_participation", "own"] = "newest_received"
    """Model from which a user starts: the newest version that it has received; the version that its last delivered
    update helped to make (``last_participation``); or its own model after the training of that update (``own``).  Both
    are version 0 before its first.  The change of an update is that from this model.  Which update is delivered when,
    its mini-batches and its step sizes do not depend on it."""
    device: Annotated[DeviceRule, FamilyMember()] | None = None
    """What devices keep between their updates, such as layers or models of their own; by default nothing."""
    on_loss: Literal["roll_back", "keep"] = "roll_back"
    """What a device keeps of an update that is lost.  ``roll_back``: nothing, as if it had not trained.  ``keep``: the
    same as of an update that arrives, as in most papers; lost updates are then trained when the next update of their
    user arrives.  Only for networks with rounds."""

    @model_validator(mode="after")
    def _require_one_amount(self) -> LearnerSpec:
        check_one_of(self, "local_epochs", "local_steps")
        return self

    @model_validator(mode="after")
    def _require_step_size(self) -> LearnerSpec:
        if self.lr is None and self.step_of is None:
            fault = Fault("lr", "missing", None, "give it, or step_of: the name of another learner")
        elif self.lr is not None and self.step_of is not None:
            fault = Fault("lr", "follows from step_of", self.lr, "leave one of them out")
        else:
            return self
        raise ValidationError.from_exception_data("LearnerSpec", [to_line_error(fault)])

    @field_serializer("lr")
    def _leave_out_derived(self, lr: float | None) -> float | None:
        """Leave out a step size that follows from ``step_of``."""
        return lr if self.step_of is None else None

    @property
    def step_size(self) -> float:
        """``lr``, given or by ``step_of``."""
        if self.lr is None:
            raise ValueError(f"the step size follows from that of '{self.step_of}', which a scenario knows")
        return self.lr

    @property
    def local_work(self) -> LocalWork:
        """The training of a user for one update."""
        batch_size = None if self.batch_size == "full" else self.batch_size
        return LocalWork(batch_size, self.local_epochs, self.local_steps)

    @property
    def has_single_step(self) -> bool:
        """True if an update is a single step for any number of examples."""
        return self.local_steps == 1 or (self.batch_size == "full" and self.local_epochs == 1)

    def with_participation(self, rates: Floats | None) -> LearnerSpec:
        """Pass participation rates to the aggregation; see `Aggregation.with_participation`."""
        return self.model_copy(update={"aggregation": self.aggregation.with_participation(rates)})

    def with_examples(self, examples: Ints) -> LearnerSpec:
        """Pass the numbers of users' examples to the aggregation; see `Aggregation.with_examples`."""
        return self.model_copy(update={"aggregation": self.aggregation.with_examples(examples)})

    def rates(self, versions: Ints) -> Floats:
        """Return the step sizes on θ and t of users that start from *versions*, ``[n, 2]``; 0 for a constant t.

        *versions* are those of `Schedule.factors`.
        """
        on_theta = self.step_size * self.schedule.factors(versions)
        t_schedule = self.t_schedule or self.schedule
        on_t = self.objective.t_rate * t_schedule.factors(versions)
        return np.stack([on_theta, on_t], axis=1)

    @property
    def has_constant_rates(self) -> bool:
        """True if `rates` do not depend on the versions."""
        return type(self.schedule) is Constant and (self.t_schedule is None or type(self.t_schedule) is Constant)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from (fault.under("aggregation") for fault in self.aggregation.learner_faults(self))
        if self.base == "own" and self.aggregation.needs_losses:
            problem = f"{_LOSSES.format(kind_of(type(self.aggregation)))}, but users start from models of their own"
            yield Fault("base", problem, "own", "leave it out, or use another aggregation, such as 'average'")
        if self.device is not None:
            yield from (fault.under("device") for fault in self._device_faults(self.device))
        elif self.base != "own":
            yield from no_effect(self, ["on_loss"], "because devices keep nothing", "leave it out, or give device")
        if self.has_single_step and not (self.device is not None and self.device.keeps_momentum):
            reason = "because an update has one step, which starts without momentum"
            remedy = "leave it out, or use it at the server: 'fedavgm', or keep it: device: local_momentum"
            yield from no_effect(self, ["momentum"], reason, remedy)
        if self.has_single_step and self.objective.pull:
            problem = "its proximal term has no effect: an update has one step, which starts at its base"
            remedy = "use the objective 'erm', or more steps"
            yield Fault("objective", problem, kind_of(type(self.objective)), remedy)
        if self.objective.t_rate == 0:
            reason = f"because the objective '{kind_of(type(self.objective))}' has no t"
            remedy = "leave it out, or use an objective with t, such as 'cvar'"
            yield from no_effect(self, ["t_schedule"], reason, remedy)

    def _device_faults(self, device: DeviceRule) -> Iterator[Fault]:
        """Yield conflicts of a rule of devices with the other options; keys are relative to the rule."""
        yield from device.learner_faults(self)
        kind = kind_of(type(device))
        rule = kind_of(type(self.aggregation))
        if device.changes_start and self.aggregation.needs_losses:
            problem = f"{_LOSSES.format(rule)}, but devices start from other models"
            yield Fault("", problem, kind, "leave it out, or use another aggregation, such as 'average'")
        yield from self._gradient_faults(device)

    def _gradient_faults(self, device: DeviceRule) -> Iterator[Fault]:
        """Yield the error of an aggregation that takes changes for gradients, which those of *device* are not."""
        aggregation = self.aggregation
        if aggregation.divides_by_steps and device.trains_head_first:
            divisor = "the steps of an update"
            reason = "not all train all layers"
        elif aggregation.divides_by_steps and device.moves_start:
            divisor = "the steps of an update"
            reason = "devices start from other models than the version"
        elif aggregation.divides_by_rates and device.moves_start and not self.has_constant_rates:
            divisor = "the step sizes of the schedule"
            reason = "devices start from other models than the version"
        else:
            return
        problem = f"the aggregation '{kind_of(type(aggregation))}' divides changes by {divisor}, but {reason}"
        remedy = "leave it out, or use another aggregation, such as 'average'"
        yield Fault("", problem, kind_of(type(device)), remedy)


class CheckpointSpec(Spec):
    """Interval of the checkpoints from which a run can be resumed."""

    time: Annotated[Seconds, Field(gt=0)] | None = None
    """Wall-clock time between two checkpoints."""
    rounds: Annotated[int, Field(ge=1)] | None = None
    """Rounds between two checkpoints, in place of ``time``."""

    @model_validator(mode="after")
    def _require_one_interval(self) -> CheckpointSpec:
        check_one_of(self, "time", "rounds")
        return self


def _refuse_choice_for_all(per: Any) -> Any:
    """Refuse one choice for all users, which showed the best of all learners at each evaluation."""
    if per == "all":
        problem = "one learner for all users is chosen before the run, not again at each evaluation"
        raise invalid(problem, "use the section tuning in place of it: tuning: {by: accuracy}")
    return per


class ChoiceSpec(Spec):
    """Selection of a learner by each user, by their performance on its validation examples."""

    learners: Annotated[tuple[str, ...], Field(min_length=2)]
    """The candidates, for example learners that differ in a hyper-parameter."""
    by: Literal["validation_accuracy", "validation_loss"] = "validation_accuracy"
    """The criterion: the largest accuracy, or the smallest loss; among equals the first in ``learners``."""
    per: Annotated[Literal["user"], BeforeValidator(_refuse_choice_for_all)]
    """``user``: each user selects by its own validation examples, and users without any by those of all users."""

    @model_validator(mode="before")
    @classmethod
    def _read_missing_as_all(cls, value: Any) -> Any:
        """Refuse a choice that does not state whom it is for, as one for all users: that was the default."""
        if isinstance(value, Mapping) and "per" not in value:
            return {**value, "per": "all"}
        return value


class EvaluateSpec(Spec):
    """Evaluation of the global models: rounds, metrics and validation examples."""

    every: Annotated[int, Field(ge=1)] = 10
    """Rounds between two evaluations; round 0 and the last round are always evaluated."""
    rare_classes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Labels whose accuracy is reported as ``rare_accuracy``; by default those that the partition gives to few users
    (``rare_classes``, ``blocks``)."""
    metrics: tuple[
        Literal["validation", "staleness", "weight", "gradient_norm", "weight_divergence", "own_models"], ...
    ] = ()
    """Optional metrics: ``validation``, accuracy and loss on the validation examples; ``staleness`` of the delivered
    updates; ``weight`` of each user in the aggregation; ``gradient_norm``, which needs a pass over all training
    examples; ``weight_divergence``, which trains a centralized baseline beside every learner; ``own_models``, the model
    of each device on the test data of its user, which needs an evaluation for each user."""
    fine_tune: Annotated[int, Field(ge=1)] | None = None
    """Steps of local SGD from each device's own model, after which ``own_models`` are evaluated again."""
    targets: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Test accuracies for which a run reports the first round that reaches them, and its cost."""
    sets: Mapping[Annotated[str, Field(pattern=rf"^[^\s/@.{CONTROLS}]+$", max_length=100)], Mapping[str, Any]] = Field(
        default_factory=dict
    )
    """Further test sets, by name: keys of ``data`` with other values, such as ``{test_scale: raw}``. The accuracies and
    losses on a set have its name, as in ``accuracy@raw``."""
    levels: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Levels α at which the CVaR of every learner is reported, beside those of the learners' objectives."""
    on: Literal["test", "validation"] = "test"
    """Examples of all metrics: ``validation`` evaluates validation examples in place of the test examples, as the
    passes of ``tuning`` do."""
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of each user's training examples, rounded down, that is used for validation and not for training; for data
    without validation examples of their own."""
    choose: Mapping[
        Annotated[str, Field(pattern=rf"^[^\s/{CONTROLS}][^/{CONTROLS}]*$", max_length=100)], ChoiceSpec
    ] = Field(default_factory=dict)
    """Selections by validation, by the name under which the tables list them beside the learners."""

    @property
    def needs_validation(self) -> bool:
        """True if validation examples are needed."""
        is_used = bool(self.choose) or "validation" in self.metrics or self.on == "validation"
        return self.validation is not None or is_used

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for name in ("metrics", "targets", "levels", "rare_classes"):
            entries = getattr(self, name) or ()
            if len(set(entries)) < len(entries):
                yield Fault(name, "lists an entry twice", [*entries], "name each once")
        if "own_models" not in self.metrics:
            reason = "without the metric 'own_models'"
            yield from no_effect(self, ["fine_tune"], reason, "add it: metrics: [own_models]")
        if "weight" in self.metrics and not facts.weighed:
            problem = "no learner has an aggregation that weighs users"
            yield Fault("metrics", problem, "weight", "leave it out, or use one that does, such as 'fedau'")
        if self.on == "validation":
            for name in ("sets", "choose"):
                if getattr(self, name):
                    yield Fault(name, "needs test examples", None, "leave it out, or evaluate on: test")
            if "validation" in self.metrics:
                yield Fault("metrics", "all metrics are on validation examples", "validation", "leave it out")
        for name, choice in self.choose.items():
            if name in facts.learners:
                yield Fault(f"choose.{name}", "is the name of a learner", None, "use another name")
            for learner in choice.learners:
                if learner not in facts.learners:
                    remedy = suggest(learner, facts.learners)
                    yield Fault(f"choose.{name}.learners", "no such learner", learner, remedy)
