"""Trainings of updates that sums in the air left out, for aggregations that compare a sum with all scheduled users."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from netfl.learning.cohort import Cohort
from netfl.learning.local_training import LearnerGroup
from netfl.learning.minibatches import BatchSampler
from netfl.learning.tensors import upload
from netfl.types import Ints, Round


class UnsummedTrainings:
    """The changes that sums in the air of the open round left out.

    Args:
        groups: all learners.
        replicas: their number.
        sampler: draws the mini-batches, as those of delivered updates.
        like: a version, ``[size + 1]``.

    Attributes:
        changes: the changes by lane, ``[m, size + 1]`` each; none for a learner that does not read them.
    """

    def __init__(self, groups: Sequence[LearnerGroup], replicas: int, sampler: BatchSampler, like: Tensor) -> None:
        reading = [group.among(lambda spec: spec.aggregation.reads_not_summed) for group in groups]
        self._groups = [group for group in reading if group is not None]
        self._replicas = replicas
        self._sampler = sampler
        self._like = like
        self.changes: dict[int, Tensor] = {}

    def train(self, rounds: Sequence[Round | None], base_models: Callable[[Cohort, Ints], Tensor]) -> None:
        """Train what the sums of *rounds*, one of each replica, left out.

        Args:
            rounds: the rounds.
            base_models: returns the base of each user in some lanes, ``[m, members, size + 1]``, for a cohort and the
                lanes, ``[m, members]``.
        """
        if not self._groups:
            return
        cohort = Cohort.of_not_summed(rounds)
        for group in self._groups:
            lanes = np.array(group.members) * self._replicas + cohort.replicas[:, None]  # [m, members]
            changes = self._like.new_zeros(0, len(group.members), len(self._like))
            if len(cohort.users):
                bases = base_models(cohort, lanes)
                changes = group.train_cohort(bases, self._sampler, cohort).models - bases
            for replica in range(self._replicas):
                rows = upload(np.flatnonzero(cohort.replicas == replica), changes.device)
                for column, member in enumerate(group.members):
                    lane = member * self._replicas + replica
                    self.changes[lane] = changes[rows, column]
