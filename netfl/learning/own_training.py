"""Second trainings: models of the devices' own, which are trained beside the updates and never sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from netfl.learning.local_training import LearnerGroup

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.cohort import Cohort
    from netfl.learning.device_rules import DeviceRules
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.spec import LearnerSpec
    from netfl.learning.user_data import UserDatasets
    from netfl.types import Ints


class OwnTrainings:
    """The second trainings of all learners whose rule of devices has an `DeviceRule.own_pull`.

    Args:
        learners: all learners.
        architecture: of their models.
        data: of the users.
        sampler: draws the mini-batches, those of the updates.
        devices: keep the models.
    """

    def __init__(
        self,
        learners: Sequence[LearnerSpec],
        architecture: Architecture,
        data: UserDatasets,
        sampler: BatchSampler,
        devices: DeviceRules,
    ) -> None:
        self._architecture = architecture
        self._data = data
        self._sampler = sampler
        self._devices = devices
        self._pulls: dict[int, float] = {}
        self._learners: dict[int, LearnerSpec] = {}
        for number, spec in enumerate(learners):
            pull = None if spec.device is None else spec.device.own_pull
            if pull is not None:
                self._pulls[number] = pull
                # the pull λ (v - x) is the weight decay λ v and the drift -λ x
                self._learners[number] = spec.model_copy(update={"weight_decay": spec.weight_decay + pull})
        self._groups: dict[tuple[int, ...], LearnerGroup] = {}

    def train(self, members: Sequence[int], versions: Tensor, cohort: Cohort, lanes: Ints) -> None:
        """Train the devices' own models for those of the learners *members* that have them.

        Args:
            members: numbers of learners.
            versions: to which the models are pulled, ``[users, members, size + 1]``.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        with_own = tuple(member for member in members if member in self._learners)
        if not with_own:
            return
        if with_own not in self._groups:
            learners = {member: self._learners[member] for member in with_own}
            self._groups[with_own] = LearnerGroup(learners, self._architecture, self._data)
        columns = [members.index(member) for member in with_own]
        own_lanes = lanes[:, columns]
        pulls = versions.new_tensor([self._pulls[member] for member in with_own])
        drift = -pulls[:, None] * versions[:, columns]
        drift[..., -1] = 0.0  # t is not pulled
        starts = self._devices.own_starts(cohort, own_lanes)
        result = self._groups[with_own].train_cohort(starts, self._sampler, cohort, lambda rows: drift[rows])
        self._devices.keep_own(result.models, cohort, own_lanes)
