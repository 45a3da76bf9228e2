"""The metrics that a learner reports at an evaluation, and the counts that they need of deliveries and training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from netfl.learning.performance import Floats
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from netfl.learning.centralized import CentralizedBaseline
    from netfl.learning.cohort import Cohort
    from netfl.learning.evaluation import Evaluation
    from netfl.learning.local_training import LearnerGroup
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.server_state import LaneServers
    from netfl.learning.spec import EvaluateSpec


class LearningMetrics:
    """The metrics of all lanes.

    Args:
        options: the optional metrics.
        evaluation: on test and validation examples.
        servers: of all lanes.
        baseline: for the weight divergence, if that is reported.
        levels: α of the reported CVaR.
    """

    def __init__(
        self,
        options: EvaluateSpec,
        evaluation: Evaluation,
        servers: LaneServers,
        baseline: CentralizedBaseline | None,
        levels: Sequence[float],
    ) -> None:
        self._names, self._evaluation, self._servers = frozenset(options.metrics), evaluation, servers
        self._baseline, self._levels = baseline, levels
        self._objectives = [spec.objective for spec in servers.specs]
        self._lane_replicas = evaluation.lane_replicas
        replicas = len(set(self._lane_replicas.tolist()))
        self._deliveries = np.zeros((replicas, evaluation.users), np.int64)
        self._ages = np.zeros((3, replicas))  # count, sum and maximum since the last evaluation

    def add_deliveries(self, index: int, cohort: Cohort) -> None:
        """Count the deliveries of round *index*, and their staleness."""
        np.add.at(self._deliveries, (cohort.replicas, cohort.users), 1)
        ages = index - 1.0 - cohort.bases
        np.add.at(self._ages[0], cohort.replicas, 1.0)
        np.add.at(self._ages[1], cohort.replicas, ages)
        np.maximum.at(self._ages[2], cohort.replicas, ages)

    def add_training(
        self, index: int, cohort: Cohort, sampler: BatchSampler, group: LearnerGroup, steps: Tensor
    ) -> None:
        """Train the baselines of *group* in round *index* as its users did, by *steps*, ``[users]``."""
        if self._baseline is not None:
            self._baseline.step(index, cohort, sampler, group, steps.cpu().double().numpy())

    def evaluate(self, newest: Tensor, index: int) -> Mapping[str, Floats]:
        """Return the metrics of the versions *newest*, ``[lanes, parameters + 1]``, after round *index*.

        A lane whose loss is not finite has diverged; the metrics of diverged lanes are NaN.
        """
        versions = self._servers.reported(newest)
        metrics = dict(self._evaluation.metrics(versions, self._objectives, self._deliveries, self._levels))
        metrics |= dict(self._optional_metrics(versions))
        for lane in np.flatnonzero(~np.isfinite(metrics["loss"])):
            self._servers.mark_infinite_loss(int(lane), index)
        for values in metrics.values():
            values[[*self._servers.diverged_lanes]] = np.nan
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        state = {"heard": tensor(self._deliveries.copy()), "ages": tensor(self._ages.copy())}
        return state if self._baseline is None else state | {"twins": self._baseline.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self._deliveries, self._ages = (np.array(state[name].numpy()) for name in ("heard", "ages"))
        if self._baseline is not None:
            self._baseline.restore(state["twins"])

    def _optional_metrics(self, versions: Tensor) -> Iterator[tuple[str, Floats]]:
        if "staleness" in self._names:
            count, total, maximum = self._ages[:, self._lane_replicas]
            some = count > 0
            yield "staleness_mean", np.divide(total, count, out=np.full(len(count), np.nan), where=some)
            yield "staleness_max", np.where(some, maximum, np.nan)
            self._ages[:] = 0.0
        if "weight" in self._names:
            weights = np.full((len(self._lane_replicas), self._deliveries.shape[1]), np.nan)
            for lane, values in self._servers.user_weights().items():
                weights[lane] = values.cpu().double().numpy()
            yield from ((f"weight/user:{user}", column) for user, column in enumerate(weights.T))
        if "gradient_norm" in self._names:
            yield "gradient_norm", self._evaluation.gradient_norms(versions)
        if self._baseline is not None:
            yield from self._baseline.divergence(versions)
