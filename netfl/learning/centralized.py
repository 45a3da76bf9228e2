"""Centralized training beside federated training, to measure the weight divergence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netfl.learning.cohort import Cohort
from netfl.learning.local_training import LearnerGroup
from netfl.learning.tensors import upload
from netfl.learning.user_data import UserDatasets
from netfl.types import Floats, Ints

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.spec import LearnerSpec


class CentralizedBaseline:
    """One centrally trained model for each lane, which starts from the same version and has the same objective.

    In a round with deliveries it makes as many steps as the delivered users on average, rounded, over the examples of
    all users.  Its mini-batches hold as many examples as those of the K users together, ``B K``.  In a round without
    deliveries it does not change.  Its shuffles are those of user 0: with one user it trains exactly as that user.

    Source: Zhao et al., "Federated learning with non-IID data", arXiv:1806.00582.

    Args:
        learners: all learners, in the order of the lanes.
        architecture: of the models.
        pooled: the training examples, all held by user 0; see `UserDatasets.pooled`.
        origins: version 0 of each lane, ``[lanes, size + 1]``.
    """

    def __init__(
        self, learners: Sequence[LearnerSpec], architecture: Architecture, pooled: UserDatasets, origins: Tensor
    ) -> None:
        self._learners = learners
        self._architecture = architecture
        self._pooled = pooled
        self._models = origins.clone()

    def step(self, index: int, cohort: Cohort, sampler: BatchSampler, group: LearnerGroup, steps: Ints) -> None:
        """Train the baselines of *group* in round *index*, in which the users of *cohort* made *steps*, ``[users]``."""
        replicas_by_work: dict[tuple[int, int], list[int]] = {}
        for part in cohort.parts:  # the users of one replica
            users = part.stop - part.start
            mean_steps = max(1, round(float(steps[part].mean())))
            replica = int(cohort.replicas[part.start])
            replicas_by_work.setdefault((users, mean_steps), []).append(replica)
        for (users, mean_steps), replicas in replicas_by_work.items():
            learners = {member: self._central_learner(member, users, mean_steps) for member in group.members}
            self._train(learners, np.array(replicas), index, sampler)

    def distances(self, versions: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield ``‖w - w_c‖`` and ``‖w_c‖``, ``[2, lanes]``, of *versions*, ``[lanes, size + 1]``, by metric.

        The metrics are those of the whole model and of each layer; `relative_distance` returns their values.
        """
        parameters = self._architecture.size - self._architecture.buffers
        federated = versions[:, :parameters].double()
        central = self._models[:, :parameters].double()
        yield "weight_divergence", _distance(federated, central)
        start = 0
        for name, shape in self._architecture.layout.items():
            if start == parameters:
                break  # buffers follow
            end = start + int(np.prod(shape))
            layer = slice(start, end)
            start = end
            yield f"weight_divergence/layer:{name}", _distance(federated[:, layer], central[:, layer])

    def state(self) -> dict[str, Tensor]:
        """Return the state for `restore`."""
        return {"models": self._models}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a `state`."""
        self._models = state["models"].to(self._models)

    def _central_learner(self, learner: int, users: int, steps: int) -> LearnerSpec:
        """Return a learner that makes so many *steps*, with the mini-batches of so many *users* together."""
        spec = self._learners[learner]
        batch_size = spec.batch_size
        if batch_size != "full":
            batch_size = batch_size * users
        return spec.model_copy(update={"batch_size": batch_size, "local_steps": steps, "local_epochs": None})

    def _train(self, learners: Mapping[int, LearnerSpec], replicas: Ints, index: int, sampler: BatchSampler) -> None:
        """Train the baselines of *learners*, by their numbers, in *replicas*."""
        members = np.array([*learners])
        lanes = upload(members * len(self._pooled.sizes) + replicas[:, None], self._models.device)
        parts = tuple(slice(row, row + 1) for row in range(len(replicas)))
        user_0 = np.zeros_like(replicas)
        cohort = Cohort(replicas, user_0, np.full_like(replicas, index - 1), parts)
        group = LearnerGroup(learners, self._architecture, self._pooled)
        self._models[lanes] = group.train_cohort(self._models[lanes], sampler, cohort).models


def _distance(values: Tensor, reference: Tensor) -> Tensor:
    """Return ``‖values - reference‖`` and ``‖reference‖``, ``[2, lanes]``."""
    distance = torch.linalg.vector_norm(values - reference, dim=1)
    norm = torch.linalg.vector_norm(reference, dim=1)
    return torch.stack([distance, norm])


def relative_distance(distance: Floats, norm: Floats) -> Floats:
    """Return *distance* / *norm*; 0 for a distance of 0, else NaN for a norm of 0."""
    ratio = np.divide(distance, norm, out=np.full_like(distance, np.nan), where=norm > 0)
    return np.where(distance == 0, 0.0, ratio)
