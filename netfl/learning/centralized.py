"""Central twins: what each learner would be if one place held all examples, and how far it has strayed from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.cohort import Cohort
from netfl.learning.local_training import LearnerGroup
from netfl.learning.tensors import tensor
from netfl.learning.user_data import UserDatasets

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.spec import LearnerSpec


class CentralizedBaseline:
    """One twin for each lane: it starts where the lane does and trains centrally, by the lane's objective and steps.

    In a round in which users are heard it goes on from where it is, over examples drawn from those of all users, by
    as many steps as they took on average, rounded; its mini-batches hold as many examples as theirs together, ``B K``
    for K users.  Zhao et al., "Federated learning with non-IID data", arXiv:1806.00582.  In a round in which nobody is
    heard it stands still.  Its shuffles are those of user 0, so that with one user it trains on what that user does.

    Args:
        learners: all learners, in the order of the lanes.
        network: what they train.
        pool: what users train on.
        origins: version 0 of each lane, ``[lanes, parameters + 1]``.
    """

    def __init__(
        self, learners: Sequence[LearnerSpec], network: Architecture, pool: UserDatasets, origins: Tensor
    ) -> None:
        self._learners, self._network, self._pool = learners, network, pool.whole()
        self._models = origins.clone()

    def step(
        self, index: int, cohort: Cohort, shuffles: BatchSampler, group: LearnerGroup, steps: NDArray[np.float64]
    ) -> None:
        """Train the twins of the learners of *group* as long as the users of *cohort* did, ``[users]`` *steps*."""
        replicas = len(self._pool.sizes)
        work = {int(cohort.replicas[mine.start]): (mine.stop - mine.start, steps[mine]) for mine in cohort.parts}
        alike: dict[tuple[int, int], list[int]] = {}
        for replica, (heard, taken) in work.items():
            alike.setdefault((heard, max(1, round(float(taken.mean())))), []).append(replica)
        for (heard, count), own in alike.items():
            at = np.array(own)
            lanes = tensor(np.array(group.members) * replicas + at[:, None]).to(self._models.device)
            twins = LearnerGroup(
                {one: self._work(one, heard, count) for one in group.members}, self._network, self._pool
            )
            nobody = np.zeros_like(at)
            parts = tuple(slice(one, one + 1) for one in range(len(at)))
            alone = Cohort(at, nobody, np.full_like(at, index - 1), parts)
            self._models[lanes] = twins.updated(self._models[lanes], shuffles, alone).models

    def divergence(self, models: Tensor) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """``‖w - w_c‖ / ‖w_c‖`` of *models*, ``[lanes, parameters + 1]``, against the twins w_c, whole and by layer."""
        ours, twins = (one[:, :-1].double() for one in (models, self._models))
        yield "weight_divergence", _relative(ours, twins)
        at = 0
        for name, shape in self._network.layout.items():
            layer = slice(at, at := at + int(np.prod(shape)))
            yield f"weight_divergence/layer:{name}", _relative(ours[:, layer], twins[:, layer])

    def state(self) -> dict[str, Tensor]:
        """All that `restore` needs."""
        return {"models": self._models}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a kept state."""
        self._models = state["models"].to(self._models)

    def _work(self, learner: int, heard: int, steps: int) -> LearnerSpec:
        """What the twin of a learner does in a round in which so many users took so many steps."""
        spec = self._learners[learner]
        batch = spec.batch_size if spec.batch_size == "full" else spec.batch_size * heard
        return spec.model_copy(update={"batch_size": batch, "local_steps": steps, "local_epochs": None})


def _relative(ours: Tensor, twins: Tensor) -> NDArray[np.float64]:
    """How far *ours* are from *twins*, in norms of those; 0 for equals, NaN where there is no norm to measure with."""
    apart, norm = (torch.linalg.vector_norm(one, dim=1).cpu().numpy() for one in (ours - twins, twins))
    known = np.divide(apart, norm, out=np.full_like(apart, np.nan), where=norm > 0)
    return np.where(apart == 0, 0.0, known)
