"""Evaluation of the devices' own models: each on the test data of its user, before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from netfl.learning.cohort import Cohort
from netfl.learning.local_training import LearnerGroup
from netfl.learning.performance import own_metrics
from netfl.types import Floats

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.device_rules import DeviceRules
    from netfl.learning.evaluation import Evaluation, Key
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.spec import LearnerSpec
    from netfl.learning.user_data import UserDatasets

OWN = "own"
FINE_TUNED = "fine_tuned"
"""Beginnings of the names of metrics."""


class OwnEvaluation:
    """The devices' own models in all lanes; the model of a device without one is the version that is evaluated.

    Fine-tuning makes some steps from an own model with the local SGD of its learner, those of a head first.  Nobody
    keeps the result.  Its mini-batches are those of an update from the version that is evaluated, and so are its step
    sizes.

    Args:
        evaluation: has the test data.
        devices: keep the models.
        learners: all learners.
        architecture: of their models.
        data: of the users.
        sampler: draws the mini-batches.
        fine_tune: number of steps; ``None`` for none.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        devices: DeviceRules,
        learners: Sequence[LearnerSpec],
        architecture: Architecture,
        data: UserDatasets,
        sampler: BatchSampler,
        fine_tune: int | None,
    ) -> None:
        self._evaluation = evaluation
        self._devices = devices
        self._sampler = sampler
        self._tuning: list[LearnerGroup] = []  # of each learner, if there is any
        if fine_tune is not None:
            for number, spec in enumerate(learners):
                of_some_steps = spec.model_copy(update={"local_steps": fine_tune, "local_epochs": None})
                self._tuning.append(LearnerGroup({number: of_some_steps}, architecture, data))

    def measure(self, versions: Tensor, index: int) -> Iterator[tuple[Key, Tensor]]:
        """Yield the performance of all users, ``[metrics, users]``, by the beginning of its metrics and the lane.

        Args:
            versions: that are evaluated, ``[lanes, size + 1]``.
            index: their number.
        """
        replicas = self._evaluation.lane_replicas
        replica_count = replicas.max() + 1
        for lane, replica in enumerate(replicas.tolist()):
            models = self._devices.own_models(versions[lane], lane)
            if self._devices.has_own_models(lane):
                yield (OWN, lane), self._evaluation.of_users(models[:, :-1], replica)
            else:  # all users have the version
                yield (OWN, lane), self._evaluation.of_version(versions[lane, :-1], replica)
            if self._tuning:
                group = self._tuning[lane // replica_count]
                tuned = self._fine_tuned(models, group, replica, index)
                yield (FINE_TUNED, lane), self._evaluation.of_users(tuned[:, :-1], replica)

    def metrics(self, measured: Mapping[Key, Floats]) -> Iterator[tuple[str, Floats]]:
        """Yield the metrics of all lanes that follow from the values of `measure`."""
        lanes = range(len(self._evaluation.lane_replicas))
        prefixes = (OWN, FINE_TUNED) if self._tuning else (OWN,)
        for prefix in prefixes:
            values = np.stack([measured[prefix, lane] for lane in lanes], axis=1)
            yield from own_metrics(self._evaluation.user_performance(values), f"{prefix}_")

    def _fine_tuned(self, models: Tensor, group: LearnerGroup, replica: int, index: int) -> Tensor:
        """Return the *models* of all users of a replica after fine-tuning, ``[users, size + 1]``."""
        users = np.arange(len(models))
        cohort = Cohort(
            replicas=np.full_like(users, replica),
            users=users,
            bases=np.full_like(users, index),
            parts=(slice(0, len(users)),),
        )
        trained = group.train_cohort(models[:, None], self._sampler, cohort)
        return trained.models[:, 0]
