"""All that is told of the learners' versions: evaluations, and what was asked for besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.slopes import gradient_norms
from netfl.learning.tensors import tensor
from netfl.learning.twin import Twins

if TYPE_CHECKING:
    from netfl.learning.batches import Shuffles
    from netfl.learning.cohort import Cohort
    from netfl.learning.evaluation import Evaluation
    from netfl.learning.network import Network
    from netfl.learning.pool import Pool
    from netfl.learning.servers import Servers
    from netfl.learning.settings import EvaluateSpec, LearnerSpec
    from netfl.learning.training import Group, Trained

    Figures = Mapping[str, NDArray[np.float64]]


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

    def __init__(  # noqa: PLR0913, PLR0917 - it sees everything
        self,
        evaluate: EvaluateSpec,
        evaluation: Evaluation,
        network: Network,
        pool: Pool,
        specs: Sequence[LearnerSpec],
        servers: Servers,
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
        self._twins = Twins(own, network, pool, origins) if "weight_divergence" in self._asked else None

    def hear(self, index: int, cohort: Cohort) -> None:
        """Round *index* brought *cohort*."""
        np.add.at(self._heard, (cohort.replicas, cohort.users), 1)
        ages = index - 1.0 - cohort.bases
        np.add.at(self._ages[0], cohort.replicas, 1.0)
        np.add.at(self._ages[1], cohort.replicas, ages)
        np.maximum.at(self._ages[2], cohort.replicas, ages)

    def train(self, index: int, cohort: Cohort, shuffles: Shuffles, group: Group, trained: Trained) -> None:
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
