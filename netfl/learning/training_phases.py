"""Phases of local training: steps of the personal layers alone, and steps of the others alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from netfl.learning.device_rules import personal_mask
from netfl.learning.tensors import upload

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.device import DeviceRule
    from netfl.learning.spec import LearnerSpec
    from netfl.types import Ints


@dataclass(frozen=True, slots=True)
class FrozenValues:
    """Parameters that do not move in some steps of jobs, each in the layout of `BatchedModel.values`.

    Args:
        head_steps: number of first steps of each job, ``[jobs]``.
        first: whether a parameter stays in these steps.
        later: whether it stays in all others.
    """

    head_steps: Tensor
    first: Sequence[Tensor]
    later: Sequence[Tensor]

    def restore(self, value: Tensor, before: Tensor, index: int, step: int) -> None:
        """Restore the parameters of ``values[index]`` that stay in *step*, for as many jobs as *value* has."""
        count = len(value)
        is_first = (step < self.head_steps[:count]).view(count, *[1] * (value.ndim - 1))
        stays = self.first[index][:count].where(is_first, self.later[index][:count])
        value.copy_(before.where(stays, value))


class TrainingPhases:
    """Steps of the personal layers alone, and steps of the others alone, in the learners of a group.

    Args:
        rules: of devices, by the place of the learner among the members.
        members: number of learners.
        architecture: of the models.
        like: has the type and the device of the models.
    """

    def __init__(self, rules: Mapping[int, DeviceRule], members: int, architecture: Architecture, like: Tensor) -> None:
        self._rules = rules
        self._members = members
        self._device = like.device
        self._first = like.new_zeros(members, architecture.size)  # 1 for a parameter that stays in the first steps
        self._later = like.new_zeros(members, architecture.size)
        for member, rule in rules.items():
            is_personal = personal_mask(rule, architecture)[:-1].to(like)
            self._first[member] = 1 - is_personal
            self._later[member] = is_personal

    @classmethod
    def of(cls, specs: Sequence[LearnerSpec], architecture: Architecture, like: Tensor) -> TrainingPhases | None:
        """Return the phases of learners; ``None`` if every step of all of them trains everything."""
        rules = {}
        for member, spec in enumerate(specs):
            if spec.device is not None and spec.device.trains_head_first:
                rules[member] = spec.device
        if not rules:
            return None
        return cls(rules, len(specs), architecture, like)

    def head_steps(self, per_pass: Ints) -> Tensor:
        """Return the number of first steps of each job, ``[jobs]``; *per_pass* is of each user."""
        steps = np.zeros((len(per_pass), self._members), np.int64)
        for member, rule in self._rules.items():
            of_head = rule.steps_of_head(per_pass)
            assert of_head is not None
            steps[:, member] = of_head
        return upload(steps.ravel(), self._device)

    def open(self, architecture: Architecture, head_steps: Tensor) -> FrozenValues:
        """Return what stays in the steps of jobs."""
        count = len(head_steps)

        def values(of_members: Tensor) -> list[Tensor]:
            of_jobs = of_members.repeat(count // self._members, 1)
            model = architecture.open(of_jobs)
            return [value > 0 for value in model.values(count)]

        return FrozenValues(head_steps, values(self._first), values(self._later))
