"""Second trainings: models of the devices' own, which are trained beside the updates and never sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from netfl.learning.local_training import LearnerGroup
from netfl.learning.tensors import upload

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.cohort import Cohort
    from netfl.learning.device_rules import DeviceRules
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.spec import LearnerSpec
    from netfl.learning.user_data import UserDatasets
    from netfl.types import Ints


@dataclass(frozen=True, slots=True)
class _OwnTraining:
    """The second training of learners that train together.

    Args:
        group: the learners that have one.
        columns: their places among those that train together.
        pulls: strengths of their pulls, on the device.
    """

    group: LearnerGroup
    columns: Ints
    pulls: Tensor


class OwnTrainings:
    """The second trainings of all learners whose rule of devices has an `DeviceRule.own_pull`.

    Args:
        learners: all learners.
        architecture: of their models.
        data: of the users.
        devices: keep the models.
    """

    def __init__(
        self,
        learners: Sequence[LearnerSpec],
        architecture: Architecture,
        data: UserDatasets,
        devices: DeviceRules,
    ) -> None:
        self._architecture = architecture
        self._data = data
        self._devices = devices
        self._pulls: dict[int, float] = {}
        self._learners: dict[int, LearnerSpec] = {}
        for number, spec in enumerate(learners):
            pull = None if spec.device is None else spec.device.own_pull
            if pull is not None:
                self._pulls[number] = pull
                # the pull λ (v - x) is the weight decay λ v and the drift -λ x
                self._learners[number] = spec.model_copy(update={"weight_decay": spec.weight_decay + pull})
        self._trainings: dict[tuple[int, ...], _OwnTraining | None] = {}  # by the members that train together

    def train(
        self, members: tuple[int, ...], versions: Tensor, sampler: BatchSampler, cohort: Cohort, lanes: Ints
    ) -> None:
        """Train the devices' own models for those of the learners *members* that have them.

        Args:
            members: numbers of learners.
            sampler: draws the mini-batches, those of the updates.
            versions: to which the models are pulled, ``[users, members, size + 1]``.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        if not self._learners:
            return
        if members not in self._trainings:
            self._trainings[members] = self._open(members, versions)
        training = self._trainings[members]
        if training is None:
            return
        own_lanes = lanes[:, training.columns]
        drift = -training.pulls[:, None] * versions.index_select(1, upload(training.columns, versions.device))
        drift[..., -1] = 0.0  # t is not pulled
        starts = self._devices.own_starts(cohort, own_lanes)
        result = training.group.train_cohort(starts, sampler, cohort, lambda rows: drift[rows])
        self._devices.keep_own(result.models, cohort, own_lanes)

    def _open(self, members: tuple[int, ...], like: Tensor) -> _OwnTraining | None:
        """Return the second training of *members*; ``None`` if none of them has one."""
        learners = {member: self._learners[member] for member in members if member in self._learners}
        if not learners:
            return None
        columns = np.array([members.index(member) for member in learners])
        pulls = np.array([self._pulls[member] for member in learners])
        group = LearnerGroup(learners, self._architecture, self._data)
        return _OwnTraining(group, columns, upload(pulls, like.device, like.dtype))
