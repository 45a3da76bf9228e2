"""All that is told of the learners' versions: evaluations, and what was asked for besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.centralized import CentralizedBaseline
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    Figures = Mapping[str, NDArray[np.float64]]
    from netfl.learning.architecture import Architecture
    from netfl.learning.cohort import Cohort
    from netfl.learning.evaluation import Evaluation
    from netfl.learning.local_training import LearnerGroup, LocalResult
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.server_state import LaneServers
    from netfl.learning.spec import EvaluateSpec, LearnerSpec
    from netfl.learning.user_data import UserDatasets


# The gradient of the mean training loss of models.


def gradient_norms(network: Architecture, pool: UserDatasets, replica: int, models: Tensor) -> NDArray[np.float64]:
    """``‖∇F‖`` of *models*, where F is the mean loss over all training examples of a replica's users, ``[models]``.

    A step of size 1 down the slope of some examples says what their part of the gradient is.  In float64, for the step
    is small beside the parameters.

    Args:
        network: what the models are parameters of.
        pool: the examples.
        replica: whose users' examples.
        models: ``[models, parameters]``.
    """
    rows, _ = pool.held(replica, np.arange(pool.sizes.shape[1]))
    theta, count = models.double(), len(models)
    slope, after = torch.zeros_like(theta), torch.empty_like(theta)
    for _, x, y in pool.examined(rows):
        stack, labels = network.open(theta), y.expand(count, -1)
        stack.scores(x.double().expand(count, *x.shape))
        stack.losses(labels)
        stack.descend(torch.full_like(labels, 1.0 / len(rows), dtype=theta.dtype))
        stack.store(after)
        slope += theta - after
    return np.asarray(torch.linalg.vector_norm(slope, dim=1).cpu().numpy())


class Metrics:
    """The metrics of all lanes, which follow what is delivered and trained.

    Args:
        evaluate: what is to be told.
        evaluation: on test and validation examples.
        network: what learners train.
        pool: what they train on.
        specs: the learner of each lane.
        servers: of all lanes.
        origins: version 0 of each lane, ``[lanes, parameters + 1]``.
        team: all learners of the run, where the lanes are a part of it.
    """

    def __init__(
        self,
        evaluate: EvaluateSpec,
        evaluation: Evaluation,
        network: Architecture,
        pool: UserDatasets,
        specs: Sequence[LearnerSpec],
        servers: LaneServers,
        origins: Tensor,
        team: Sequence[LearnerSpec] = (),
    ) -> None:
        self._asked, self._evaluation = frozenset(evaluate.metrics), evaluation
        self._network, self._pool, self._servers = network, pool, servers
        self._objectives = [spec.objective for spec in specs]
        theirs = {level for spec in (*specs, *team) for level in spec.objective.levels}
        self._levels = sorted(theirs | {*evaluate.levels})
        self._replicas, users = pool.sizes.shape
        self._of = np.arange(len(specs)) % self._replicas
        self._heard, self._ages = np.zeros((self._replicas, users), np.int64), np.zeros((3, self._replicas))
        own = specs[:: self._replicas]
        self._twins = CentralizedBaseline(own, network, pool, origins) if "weight_divergence" in self._asked else None

    def hear(self, index: int, cohort: Cohort) -> None:
        """Round *index* brought *cohort*."""
        np.add.at(self._heard, (cohort.replicas, cohort.users), 1)
        ages = index - 1.0 - cohort.bases
        np.add.at(self._ages[0], cohort.replicas, 1.0)
        np.add.at(self._ages[1], cohort.replicas, ages)
        np.maximum.at(self._ages[2], cohort.replicas, ages)

    def train(
        self, index: int, cohort: Cohort, shuffles: BatchSampler, group: LearnerGroup, trained: LocalResult
    ) -> None:
        """In round *index* the learners of *group* made *trained* of *cohort*."""
        if self._twins is not None:
            self._twins.step(index, cohort, shuffles, group, trained.steps.cpu().double().numpy())

    def figures(self, newest: Tensor, index: int) -> Figures:
        """The figures of the versions *newest*, ``[lanes, parameters + 1]``.

        They are NaN for lanes that are lost, and a lane is lost whose loss is not finite.
        """
        models = self._servers.reported(newest)
        metrics = dict(self._evaluation.metrics(self._network, models, self._objectives, self._heard, self._levels))
        metrics |= dict(self._besides(models))
        for lane in np.flatnonzero(~np.isfinite(metrics["loss"])):
            self._servers.lose_broken(int(lane), index)
        for values in metrics.values():
            values[[*self._servers.lost]] = np.nan
        return metrics

    def state(self) -> dict[str, Any]:
        """All that `restore` needs."""
        own = {"heard": tensor(self._heard.copy()), "ages": tensor(self._ages.copy())}
        return own if self._twins is None else own | {"twins": self._twins.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a kept state."""
        self._heard, self._ages = (np.array(state[name].numpy()) for name in ("heard", "ages"))
        if self._twins is not None:
            self._twins.restore(state["twins"])

    def _besides(self, models: Tensor) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """What was asked for."""
        if "staleness" in self._asked:
            count, total, most = self._ages[:, self._of]
            some = count > 0
            yield "staleness_mean", np.divide(total, count, out=np.full(len(count), np.nan), where=some)
            yield "staleness_max", np.where(some, most, np.nan)
            self._ages[:] = 0.0
        if "weight" in self._asked:
            worth = np.full((len(self._of), self._heard.shape[1]), np.nan)
            for lane, own in self._servers.worth().items():
                worth[lane] = own.cpu().double().numpy()
            yield from ((f"weight/user:{user}", column) for user, column in enumerate(worth.T))
        if "gradient_norm" in self._asked:
            norms = np.empty(len(self._of))
            for replica in range(self._replicas):
                lanes = np.flatnonzero(self._of == replica)
                theta = models[tensor(lanes).to(models.device), :-1]
                norms[lanes] = gradient_norms(self._network, self._pool, replica, theta)
            yield "gradient_norm", norms
        if self._twins is not None:
            yield from self._twins.divergence(models)
