"""Evaluation of models: losses, and accuracies or errors, on test, validation and training examples; other metrics.

`LearningMetrics` collects what a learner reports.  `Evaluation` evaluates the model of every lane, and
`netfl.learning.performance` turns the results into metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batch_limits import evaluation_slices
from netfl.learning.blocks import Concepts, members_by_block, turned
from netfl.learning.centralized import relative_distance
from netfl.learning.evaluation_sets import of_test_set, on_validation
from netfl.learning.performance import (
    UserPerformance,
    accuracy_spread,
    block_metrics,
    class_metrics,
    metric_on_set,
    objective_metrics,
    user_metrics,
)
from netfl.learning.tensors import read_together, runs_on_gpu, tensor, upload
from netfl.learning.user_data import labels_on
from netfl.learning.validation_split import user_weights, users_have_test_data
from netfl.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture, BatchedModel
    from netfl.learning.centralized import CentralizedBaseline
    from netfl.learning.cohort import Cohort
    from netfl.learning.data import Dataset, Examples
    from netfl.learning.objective import Objective
    from netfl.learning.server_state import LaneServers
    from netfl.learning.spec import EvaluateSpec
    from netfl.learning.user_data import ReplicaData, UserDatasets

_MODELS_AT_ONCE = 32
"""Models of users that are evaluated at once on all test examples."""
Key = tuple[str | int, ...]
"""Place of a value of an evaluation; a value is on the device until all are read together."""


def user_losses(architecture: Architecture, data: UserDatasets, replica: int, users: Ints, models: Tensor) -> Tensor:
    """Return the mean losses F_k of *models*, ``[models, parameters]``, on the data of *users*: ``[users, models]``.

    They are float64 on the device of the models, and are not read by the host.
    """
    rows, sizes = data.rows_held(replica, users)
    count = len(models)
    model = architecture.open(models, trained=False)
    parts = []
    for _, x, y in data.slices(replica, rows, count, architecture.largest_layer):
        model.scores(x.expand(count, *x.shape))
        parts.append(model.losses(y.expand(count, *y.shape)).double())
    losses = torch.cat(parts, dim=1)  # of each example, user by user, [models, examples]
    if runs_on_gpu(losses.device):
        lengths = upload(sizes, losses.device)
        sums = torch.segment_reduce(losses.T.contiguous(), "sum", lengths=lengths, axis=0, unsafe=True)
        return sums / lengths[:, None]
    first_examples = np.cumsum(sizes) - sizes
    user_sums = np.add.reduceat(losses.numpy(), first_examples, axis=1)
    return tensor((user_sums / sizes).T)


def gradient_norms(architecture: Architecture, data: UserDatasets, replica: int, models: Tensor) -> Tensor:
    """Return ``‖∇F‖`` of *models*, ``[models, parameters]``; F is the mean loss over a replica's training examples.

    The gradient is the difference that a step of size 1 makes.  It is computed in float64, because the step is small
    compared with the parameters.
    """
    users = np.arange(data.sizes.shape[1])
    rows, _ = data.rows_held(replica, users)
    count = len(models)
    theta = models.double()
    after = torch.empty_like(theta)
    gradient = torch.zeros_like(theta)
    for _, x, y in data.slices(replica, rows, count, architecture.largest_layer):
        model = architecture.open(theta)  # each slice starts from θ
        model.scores(x.double().expand(count, *x.shape))
        model.losses(y.expand(count, *y.shape))
        model.descend(theta.new_full((count, len(x)), 1.0 / len(rows)))
        model.store(after)
        gradient += theta - after  # the share of these examples in ∇F
    return torch.as_tensor(torch.linalg.vector_norm(gradient, dim=1))


class UserEvaluation(Protocol):
    """Evaluation of a model of each user, such as `netfl.learning.own_evaluation.OwnEvaluation`."""

    def measure(self, versions: Tensor, index: int) -> Iterator[tuple[Key, Tensor]]:
        """Yield the values on the device from which `metrics` follow, for *versions* after round *index*."""

    def metrics(self, measured: Mapping[Key, Floats]) -> Iterator[tuple[str, Floats]]:
        """Yield the metrics of all lanes, ``[lanes]`` each."""


class LearningMetrics:
    """The metrics of all lanes."""

    def __init__(
        self,
        options: EvaluateSpec,
        evaluation: Evaluation,
        servers: LaneServers,
        baseline: CentralizedBaseline | None,
        levels: Sequence[float],
        own_models: UserEvaluation | None = None,
    ) -> None:
        self._names = frozenset(options.metrics)
        self._evaluation = evaluation
        self._servers = servers
        self._baseline = baseline
        self._levels = levels
        self._own_models = own_models
        self._objectives = [spec.objective for spec in servers.specs]
        self._lane_replicas = evaluation.lane_replicas
        replicas = len(set(self._lane_replicas.tolist()))
        self._deliveries = np.zeros((replicas, evaluation.users), np.int64)
        self._ages = np.zeros((3, replicas))  # count, sum and maximum since the last evaluation
        self._measured_in = -1  # number of the versions of the last evaluation, and the values of their models
        self._of_models: dict[Key, Floats] = {}

    def add_deliveries(self, index: int, cohort: Cohort) -> None:
        """Count the deliveries of round *index*, and their staleness."""
        np.add.at(self._deliveries, (cohort.replicas, cohort.users), 1)
        if "staleness" not in self._names:
            return
        ages = index - 1.0 - cohort.clocks
        np.add.at(self._ages[0], cohort.replicas, 1.0)
        np.add.at(self._ages[1], cohort.replicas, ages)
        np.maximum.at(self._ages[2], cohort.replicas, ages)

    def evaluate(self, newest: Tensor, index: int, changed_in: int) -> Mapping[str, Floats]:
        """Return the metrics of the versions *newest*, ``[lanes, parameters + 1]``, after round *index*.

        They have been the same since the version *changed_in*.  A lane whose loss is not finite has diverged; the
        metrics of diverged lanes are NaN.
        """
        measured = self._measure(newest, index, changed_in)
        metrics = dict(self._evaluation.metrics(measured, self._objectives, self._deliveries, self._levels))
        metrics |= dict(self._optional_metrics(measured))
        for lane in np.flatnonzero(~np.isfinite(metrics["loss"])):
            self._servers.mark_diverged(int(lane), index, f"loss after round {index}")
        diverged = self._servers.diverged_lanes
        reported = self._servers.reported_values
        if reported is not None:
            metrics |= reported.metrics(measured["reported",], index, diverged)
        for values in metrics.values():
            values[[*diverged]] = np.nan
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        state: dict[str, Any] = {"deliveries": tensor(self._deliveries.copy()), "ages": tensor(self._ages.copy())}
        if self._baseline is not None:
            state["twins"] = self._baseline.state()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self._deliveries = np.array(state["deliveries"].numpy())
        self._ages = np.array(state["ages"].numpy())
        self._measured_in = -1
        if self._baseline is not None:
            self._baseline.restore(state["twins"])

    def _measure(self, newest: Tensor, index: int, changed_in: int) -> dict[Key, Floats]:
        """Return the values from which all metrics follow; models that stay as they were are not measured again."""
        versions = self._servers.reported(newest)
        of_state = dict(self._measure_state(versions, index))
        if self._servers.reports_newest and changed_in <= self._measured_in:
            measured = read_together(of_state)
        else:
            of_models = self._evaluation.measure(versions)
            if "gradient_norm" in self._names:
                of_models["gradient_norm",] = self._evaluation.gradient_norms(versions)
            measured = read_together({**of_models, **of_state})
            self._of_models = {key: measured[key] for key in of_models}  # on the host, where they need little memory
        self._measured_in = index
        return measured | {key: values.copy() for key, values in self._of_models.items()}  # metrics change them

    def _measure_state(self, versions: Tensor, index: int) -> Iterator[tuple[Key, Tensor]]:
        """Yield the values on the device that follow from what servers, baselines and devices keep, too."""
        if "weight" in self._names:
            for lane, weights in self._servers.user_weights().items():
                yield ("weight", lane), weights
        if self._baseline is not None:
            for metric, pair in self._baseline.distances(versions):
                yield ("baseline", metric), pair
        if self._own_models is not None:
            yield from self._own_models.measure(versions, index)
        if self._servers.reported_values is not None:
            yield ("reported",), self._servers.reported_values.measure()

    def _optional_metrics(self, measured: Mapping[Key, Floats]) -> Iterator[tuple[str, Floats]]:
        if "staleness" in self._names:
            count, total, maximum = self._ages[:, self._lane_replicas]
            has_deliveries = count > 0
            yield "staleness_mean", np.divide(total, count, out=np.full(len(count), np.nan), where=has_deliveries)
            yield "staleness_max", np.where(has_deliveries, maximum, np.nan)
            self._ages[:] = 0.0  # the next evaluation counts from here
        if "weight" in self._names:
            users = self._deliveries.shape[1]
            weights = np.full((len(self._lane_replicas), users), np.nan)  # NaN where an aggregation has no weights
            for (lane,), values in select_values(measured, "weight").items():
                weights[int(lane)] = values
            for user, of_user in enumerate(weights.T):
                yield f"weight/user:{user}", of_user
        if "gradient_norm" in self._names:
            yield "gradient_norm", measured["gradient_norm",]
        for (metric,), pair in select_values(measured, "baseline").items():
            yield str(metric), relative_distance(*pair)
        if self._own_models is not None:
            yield from self._own_models.metrics(measured)


@dataclass(frozen=True, slots=True)
class Grouping:
    """One way to evaluate examples, in groups of which each has a result, such as by label or by user.

    Args:
        x: examples, ``[examples, *shape]``.
        y: labels, ``[examples]``, or targets, ``[examples, outputs]``.
        groups: group of each example, from 0, ``[examples]``.
        size: number of groups.
    """

    x: NDArray[np.float32]
    y: Ints | NDArray[np.float32]
    groups: Ints
    size: int


class EvaluationSet:
    """Examples on the device, evaluated in one or more ways.

    Args:
        groupings: the ways; those with the same examples, or the same labels, as an object, share them.
        like: a tensor with the type and device of the examples.
    """

    def __init__(self, groupings: Sequence[Grouping], like: Tensor) -> None:
        # distinct examples and labels, and for each grouping the number of its own
        examples = {id(grouping.x): grouping.x for grouping in groupings}
        self._x = [tensor(np.ascontiguousarray(x)).to(like) for x in examples.values()]
        self._example_numbers = [list(examples).index(id(grouping.x)) for grouping in groupings]
        labels = {id(grouping.y): labels_on([grouping.y], like) for grouping in groupings}
        self._labels = list(labels.values())
        self._label_numbers = [list(labels).index(id(grouping.y)) for grouping in groupings]
        # of each grouping
        self._groups = [tensor(grouping.groups).to(like.device) for grouping in groupings]
        self._counts = [np.bincount(each.groups, minlength=each.size).astype(float) for each in groupings]
        self._divisors = [upload(np.maximum(counts, 1.0), like.device) for counts in self._counts]
        self._rows_of_owners = self._rows_by_group(groupings[-1], like)
        is_regression = self._labels[0].ndim == 2
        self.names = ("loss", "mse", "mae") if is_regression else ("accuracy", "loss")

    def sums(self, architecture: Architecture, theta: Tensor) -> list[Tensor]:
        """Evaluate the models *theta*, ``[models, size]``, on the device.

        Returns:
            For each way of grouping the sums over the examples of each group, ``[metrics, models, groups]``.
        """
        models = len(theta)
        model = architecture.open(theta, trained=False)
        shapes = [(len(self.names), models, len(counts)) for counts in self._counts]
        sums = [theta.new_zeros(shape, dtype=torch.float64) for shape in shapes]
        for rows in _slices(len(self._x[0]), models, architecture, theta):
            for example_number, examples in enumerate(self._x):
                x = examples[rows]
                scores = model.scores(x.expand(models, *x.shape))
                values: dict[int, Tensor] = {}  # of these examples, by the number of their labels
                for number, total in enumerate(sums):
                    if self._example_numbers[number] != example_number:
                        continue  # a grouping of other examples
                    label_number = self._label_numbers[number]
                    if label_number not in values:
                        values[label_number] = self._values(model, scores, self._labels[label_number][rows])
                    groups = self._groups[number][rows].expand(len(self.names), models, -1)
                    total.scatter_add_(2, groups, values[label_number])
        return sums

    def means(self, architecture: Architecture, theta: Tensor) -> list[Tensor]:
        """Return the means over the examples of each group, ``[metrics, models, groups]``, for each way of grouping."""
        sums = self.sums(architecture, theta)
        return [total / divisor for total, divisor in zip(sums, self._divisors, strict=True)]

    def means_of_owners(self, architecture: Architecture, theta: Tensor) -> Tensor:
        """Return the means over the examples of each group of the last way, ``[metrics, groups]``.

        Each group has a model of its own in *theta*, ``[groups, size]``.
        """
        x = self._x[self._example_numbers[-1]]
        y = self._labels[self._label_numbers[-1]]
        means = theta.new_zeros(len(self.names), len(theta), dtype=torch.float64)
        for group, rows in self._rows_of_owners.items():
            model = architecture.open(theta[group : group + 1], trained=False)
            for part in _slices(len(rows), 1, architecture, theta):
                rows_at_once = rows[part]
                scores = model.scores(x[rows_at_once][None])
                values = self._values(model, scores, y[rows_at_once])[:, 0]  # of the only model, [metrics, examples]
                means[:, group] += values.sum(1) / len(rows)
        return means

    @staticmethod
    def _rows_by_group(grouping: Grouping, like: Tensor) -> dict[int, Tensor]:
        """Return the examples of each group that has some, in their order, on the device."""
        groups, counts = np.unique(grouping.groups, return_counts=True)
        order = upload(np.argsort(grouping.groups, kind="stable"), like.device)
        return dict(zip(groups.tolist(), order.split_with_sizes(counts.tolist()), strict=True))

    def _values(self, model: BatchedModel, scores: Tensor, y: Tensor) -> Tensor:
        """Return the metrics of all examples of a slice with the labels *y*, ``[metrics, models, examples]``."""
        y = y.expand(len(scores), *y.shape)
        if y.ndim == 2:
            predicted = scores.contiguous().argmax(2)  # 10 times faster than across columns, for few classes
            values = [predicted == y, model.losses(y)]
        else:
            error = scores - y
            values = [model.losses(y), error.square().mean(2), error.abs().mean(2)]
        return torch.stack([value.to(torch.float64) for value in values])

    def performance(self, sums: Sequence[Floats]) -> list[UserPerformance]:
        """Return the performance that follows from `sums`, one for each way of grouping."""
        results = []
        for total, counts in zip(sums, self._counts, strict=True):
            means = total / np.maximum(counts, 1.0)  # [metrics, models, groups]
            by_name = dict(zip(self.names, means, strict=True))
            results.append(UserPerformance(by_name, np.broadcast_to(counts, total.shape[1:])))
        return results


class Evaluation:
    """The test and validation examples of all replicas.

    If the users are those of the data and have test examples, the metrics of a user are those of its test examples.
    Otherwise they follow from its mix of labels over the whole test set, ``Σ_c mix_kc metric_c``: the exact expectation
    if users differ in their labels only.  Labels without test examples are left out of the mix.

    All examples together are evaluated as in the data, for a user as this user sees and labels them.
    """

    def __init__(
        self,
        architecture: Architecture,
        data: UserDatasets,
        replicas: Sequence[ReplicaData],
        learners: int,
        rare_classes: Sequence[int],
    ) -> None:
        self._architecture = architecture
        self._data = data
        self._rare = rare_classes
        self.users = len(replicas[0].split)
        self.lane_replicas = np.tile(np.arange(len(replicas)), learners)
        self._has_own = [users_have_test_data(replica.dataset, replica.split) for replica in replicas]
        self._tests = self._open_test_sets([replica.dataset for replica in replicas])
        validation = [replica.validation for replica in replicas if replica.validation is not None]
        self._validations = self._open_validation_sets(validation)
        self._validates_users = all(examples.user is not None for examples in validation)
        self._concepts = [_concepts_of_users(replica.dataset, self.users) for replica in replicas]
        self._blocks = _block_lanes(replicas, self.users, self.lane_replicas)
        self._mixes = [_label_mixes(replica.dataset, replica.split) for replica in replicas]
        self._weights = np.stack([user_weights(replica.dataset, replica.split) for replica in replicas])
        self._variances = [_target_variance(replica.dataset) for replica in replicas]
        self._sets = {
            name: Evaluation(architecture, data, on_test_set(replicas, name), learners, rare_classes)
            for name in replicas[0].dataset.test_sets
        }

    def measure(self, versions: Tensor) -> dict[Key, Tensor]:
        """Evaluate *versions*, ``[lanes, parameters + 1]``; return the values on the device that `metrics` needs."""
        theta = versions[:, :-1]
        measured: dict[Key, Tensor] = {("t",): versions[:, -1]}
        for kind, sets in (("test", self._tests), ("validation", self._validations)):
            for number, (lanes, examples) in enumerate(sets):
                models = theta[upload(lanes, theta.device)]
                for grouping, sums in enumerate(examples.sums(self._architecture, models)):
                    measured[kind, number, grouping] = sums
        for name, evaluation in self._sets.items():
            for key, values in evaluation.measure(versions).items():
                measured["set", name, *key] = values
        return measured

    def metrics(
        self,
        measured: Mapping[Key, Floats],
        objectives: Sequence[Objective],
        deliveries: Ints,
        levels: Sequence[float],
    ) -> Mapping[str, Floats]:
        """Return the metrics of all lanes by name, each ``[lanes]``.

        Args:
            measured: values of `measure`.
            objectives: of each lane.
            deliveries: number of deliveries so far, ``[replicas, users]``.
            levels: α of the reported CVaR.
        """
        t = measured["t",]
        classes, users = self._test(measured)
        lane_deliveries = deliveries[self.lane_replicas].astype(float)
        return {
            **self._test_metrics(classes, users),
            **dict(objective_metrics(objectives, users, lane_deliveries, t, levels)),
            **dict(self._validate(measured)),
            **dict(self._metrics_of_sets(measured)),
        }

    def of_users(self, models: Tensor, replica: int) -> Tensor:
        """Return the performance of a model of each user on the test data of this user, ``[metrics, users]``.

        Args:
            models: of all users of a replica, ``[users, size]``.
            replica: the replica.
        """
        examples = self._test_set(replica)
        if self._has_own[replica]:
            return examples.means_of_owners(self._architecture, models)
        parts = []
        for start in range(0, len(models), _MODELS_AT_ONCE):
            users = slice(start, start + _MODELS_AT_ONCE)
            means = examples.means(self._architecture, models[users])  # by label, of each concept
            parts.append(self._of_mixes(torch.stack(means), replica, users))
        return torch.cat(parts, dim=1)

    def of_version(self, model: Tensor, replica: int) -> Tensor:
        """Return the performance of one *model*, ``[size]``, as `of_users` does for a model of each user."""
        means = self._test_set(replica).means(self._architecture, model[None])
        if self._has_own[replica]:
            return means[-1][:, 0]
        return self._of_mixes(torch.stack(means), replica, slice(0, self.users))

    def user_performance(self, values: Floats) -> UserPerformance:
        """Return the performance that `of_users` has found, ``[metrics, lanes, users]``, in all lanes."""
        names = self._tests[0][1].names
        return UserPerformance(dict(zip(names, values, strict=True)), self._weights[self.lane_replicas])

    def gradient_norms(self, versions: Tensor) -> Tensor:
        """Return the `gradient_norms` of all lanes, ``[lanes]``."""
        norms = versions.new_empty(len(versions), dtype=torch.float64)
        for replica in range(len(self._weights)):
            lanes = upload(np.flatnonzero(self.lane_replicas == replica), versions.device)
            norms[lanes] = gradient_norms(self._architecture, self._data, replica, versions[lanes, :-1])
        return norms

    def _test_set(self, replica: int) -> EvaluationSet:
        """Return the test examples of a replica."""
        lane = int(np.flatnonzero(self.lane_replicas == replica)[0])
        return next(examples for lanes, examples in self._tests if lane in lanes)

    def _of_mixes(self, by_label: Tensor, replica: int, users: slice) -> Tensor:
        """Return the expectation over the labels of each of *users*, ``[metrics, users]``.

        Args:
            by_label: means of each concept, ``[concepts, metrics, users or 1, labels]``.
            replica: the replica.
            users: of this replica.
        """
        mixes = upload(self._mixes[replica][users], by_label.device)
        concepts = upload(self._concepts[replica][users], by_label.device)
        expected = (by_label * mixes).sum(3)  # [concepts, metrics, users]
        return expected.gather(0, concepts.expand(1, expected.shape[1], -1))[0]

    def _test(self, measured: Mapping[Key, Floats]) -> tuple[UserPerformance, UserPerformance]:
        """Return the performance on the test examples, by label and by user."""
        by_class = []
        by_user = []
        for number, (lanes, examples) in enumerate(self._tests):
            sums = [*select_values(measured, "test", number).values()]
            classes, *further = examples.performance(sums)  # as of `_test_groupings`
            by_class.append((lanes, classes))
            if self._has_own[self.lane_replicas[lanes[0]]]:
                by_user.append((lanes, further[0]))
            else:
                by_user.append((lanes, self._expected_performance(lanes, [classes, *further])))
        return merge_performance(by_class), merge_performance(by_user)

    def _test_metrics(self, classes: UserPerformance, users: UserPerformance) -> dict[str, Floats]:
        """Return the metrics that follow from the performance of `_test` alone."""
        return {
            **dict(class_metrics(classes, self._rare)),
            **self._explained_variance(classes),
            **dict(block_metrics(users, self._blocks)),
            **dict(user_metrics(users)),
            **dict(accuracy_spread(users)),
        }

    def _metrics_of_sets(self, measured: Mapping[Key, Floats]) -> Iterator[tuple[str, Floats]]:
        """Yield the metrics on further test sets, such as ``accuracy@raw/class:9``."""
        for name, evaluation in self._sets.items():
            classes, users = evaluation._test(select_values(measured, "set", name))
            for metric, values in evaluation._test_metrics(classes, users).items():
                yield metric_on_set(metric, name), values

    def _explained_variance(self, performance: UserPerformance) -> dict[str, Floats]:
        """Return R² of a regression, ``1 - mse / variance of the test targets``."""
        if "mse" not in performance.means:
            return {}
        variances = np.array(self._variances)[self.lane_replicas]
        return {"r2": 1 - performance.whole()["mse"] / variances}

    def _expected_performance(self, lanes: Ints, classes: Sequence[UserPerformance]) -> UserPerformance:
        """Return the expected performance for each user's mix of labels, from that by label for each concept."""
        replicas = self.lane_replicas[lanes]
        weights = self._weights[replicas]  # [lanes, users]
        means = {name: np.zeros(weights.shape) for name in classes[0].means}
        for replica in np.unique(replicas).tolist():
            in_replica = replicas == replica
            mixes = self._mixes[replica].T  # [labels, users]
            for name, values in means.items():
                for concept, performance in enumerate(classes):
                    with np.errstate(invalid="ignore"):  # the losses of a lane that diverges are infinite
                        expected = performance.means[name][in_replica] @ mixes
                    has_concept = self._concepts[replica] == concept
                    values[in_replica] = np.where(has_concept, expected, values[in_replica])
        return UserPerformance(means, weights)

    def _validate(self, measured: Mapping[Key, Floats]) -> Iterator[tuple[str, Floats]]:
        """Yield the means over all validation examples, and over each user's."""
        if not self._validations:
            return
        parts = []
        for number, (lanes, examples) in enumerate(self._validations):
            sums = [*select_values(measured, "validation", number).values()]
            (performance,) = examples.performance(sums)
            parts.append((lanes, performance))
        merged = merge_performance(parts)
        for name, values in merged.whole().items():
            yield f"validation_{name}", values
        if self._validates_users:
            yield from user_metrics(merged, "validation_")

    def _open_test_sets(self, datasets: Sequence[Dataset]) -> list[tuple[Ints, EvaluationSet]]:
        """Upload the test examples of *datasets*, of a replica each; return them with the lanes that they test."""
        keys = [_test_key(dataset, has_own) for dataset, has_own in zip(datasets, self._has_own, strict=True)]
        test_sets = []
        for replica, lanes in self._shared_lanes(keys):
            groupings = _test_groupings(datasets[replica], self.users, has_own=self._has_own[replica])
            test_sets.append((lanes, EvaluationSet(groupings, self._data.x)))
        return test_sets

    def _open_validation_sets(self, validation: Sequence[Examples]) -> list[tuple[Ints, EvaluationSet]]:
        """Upload *validation* examples, of a replica each if there are any; return them with their lanes."""
        if not validation:
            return []
        validation_sets = []
        for replica, lanes in self._shared_lanes([id(examples) for examples in validation]):
            examples = validation[replica]
            if examples.user is not None:
                grouping = Grouping(examples.x, examples.y, examples.user, self.users)
            else:  # all are one group
                grouping = Grouping(examples.x, examples.y, np.zeros(len(examples.y), np.int64), 1)
            validation_sets.append((lanes, EvaluationSet([grouping], self._data.x)))
        return validation_sets

    def _shared_lanes(self, keys: Sequence[object]) -> list[tuple[int, Ints]]:
        """Group the lanes whose replicas have equal *keys*; return a replica and the lanes of each group."""
        groups: dict[object, list[int]] = {}
        for lane, replica in enumerate(self.lane_replicas.tolist()):
            groups.setdefault(keys[replica], []).append(lane)
        return [(int(self.lane_replicas[lanes[0]]), np.array(lanes)) for lanes in groups.values()]


def _slices(examples: int, models: int, architecture: Architecture, theta: Tensor) -> Iterator[slice]:
    """Cut so many *examples* into slices that the device of *theta* evaluates at once for so many *models*."""
    layer_bytes = architecture.largest_layer * theta.element_size()
    if runs_on_gpu(theta.device):
        return evaluation_slices(examples, models, layer_bytes)
    return evaluation_slices(examples, layer_bytes=layer_bytes)


def select_values(measured: Mapping[Key, Floats], *prefix: str | int) -> dict[Key, Floats]:
    """Return the values whose key starts with *prefix*, by the rest of the key."""
    count = len(prefix)
    return {key[count:]: values for key, values in measured.items() if key[:count] == prefix}


def on_test_set(replicas: Sequence[ReplicaData], name: str) -> list[ReplicaData]:
    """Return *replicas* with a further test set in place of their test examples, without validation examples."""
    datasets = {id(replica.dataset): of_test_set(replica.dataset, name) for replica in replicas}
    return [replace(replica, dataset=datasets[id(replica.dataset)], validation=None) for replica in replicas]


def on_validation_examples(replicas: Sequence[ReplicaData]) -> list[ReplicaData]:
    """Return *replicas* with their validation examples in place of their test examples."""
    datasets = {}
    evaluated = []
    for replica in replicas:
        assert replica.validation is not None
        key = (id(replica.dataset), id(replica.validation))  # replicas may share both
        if key not in datasets:
            datasets[key] = on_validation(replica.dataset, replica.validation)
        evaluated.append(replace(replica, dataset=datasets[key], validation=None))
    return evaluated


def merge_performance(parts: Sequence[tuple[Ints, UserPerformance]]) -> UserPerformance:
    """Merge the performance of some lanes each into that of all lanes, in order."""
    order = np.argsort(np.concatenate([lanes for lanes, _ in parts]))
    performances = [performance for _, performance in parts]
    means = {}
    for name in performances[0].means:
        means[name] = np.concatenate([performance.means[name] for performance in performances])[order]
    counts = np.concatenate([performance.counts for performance in performances])[order]
    return UserPerformance(means, counts)


def _test_key(dataset: Dataset, has_own: bool) -> object:
    """Return what the evaluation of the test examples depends on; replicas with equal keys share it."""
    key = (id(dataset.test_x), id(dataset.test_y), has_own)
    concepts = dataset.concepts
    if concepts is None:
        return key
    labels_and_turns = (concepts.labels.tobytes(), concepts.quarter_turns.tobytes())
    if has_own:  # test examples are as their users see and label them
        return *key, labels_and_turns, concepts.of_user.tobytes()
    return *key, labels_and_turns


def _test_groupings(dataset: Dataset, users: int, *, has_own: bool) -> list[Grouping]:
    """Return the ways to evaluate test examples: by label, and by user or, for each further concept, by label again.

    Args:
        dataset: the data.
        users: the number of users.
        has_own: whether users have their own test examples.
    """
    x = dataset.test_x
    y = dataset.test_y
    groups = dataset.test_groups
    concepts = dataset.concepts
    by_label = Grouping(x, y, groups, dataset.groups)
    if has_own and dataset.test_user is not None:
        if concepts is not None:
            x, y = _as_users_see(dataset, concepts, dataset.test_user)
        return [by_label, Grouping(x, y, dataset.test_user, users)]
    groupings = [by_label]
    if concepts is not None:
        views = {turns: turned(x, turns) for turns in np.unique(concepts.quarter_turns).tolist()}
        for turns, labels in zip(concepts.quarter_turns[1:].tolist(), concepts.labels[1:], strict=True):
            groupings.append(Grouping(views[turns], labels[groups], groups, dataset.groups))
    return groupings


def _as_users_see(dataset: Dataset, concepts: Concepts, owners: Ints) -> tuple[NDArray[np.float32], Ints]:
    """Return the test examples and their labels, each as the user that owns it sees and labels it."""
    x = dataset.test_x
    if concepts.quarter_turns.any():
        x = x.copy()
        for user in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == user)
            x[rows] = concepts.seen_by(user, x[rows])
    return x, concepts.labels_by(owners, dataset.test_groups)


def _concepts_of_users(dataset: Dataset, users: int) -> Ints:
    """Return the number of each user's concept, ``[users]``; 0 if all give the labels of the data."""
    if dataset.concepts is None:
        return np.zeros(users, np.int64)
    return dataset.concepts.of_user


def _block_lanes(replicas: Sequence[ReplicaData], users: int, lane_replicas: Ints) -> dict[str, Bools]:
    """Return which users are in each block, in the replica of each lane, ``[lanes, users]``."""
    members = [members_by_block(replica.dataset.blocks, users) for replica in replicas]
    names = dict.fromkeys(name for of_replica in members for name in of_replica)
    nobody = np.zeros(users, bool)
    blocks = {}
    for name in names:
        of_replicas = np.stack([of_replica.get(name, nobody) for of_replica in members])
        blocks[name] = of_replicas[lane_replicas]
    return blocks


def _label_mixes(data: Dataset, split: Sequence[Ints]) -> Floats:
    """Return the shares of the data's labels at each user, ``[users, classes]``, over labels with test examples."""
    groups = data.train_groups
    counts = np.stack([np.bincount(groups[rows], minlength=data.groups) for rows in split])
    is_tested = np.bincount(data.test_groups, minlength=data.groups) > 0
    counts *= is_tested
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def _target_variance(data: Dataset) -> float:
    """Return the variance of the test targets, averaged over the outputs; NaN for labels and for equal targets."""
    if not data.is_regression:
        return float("nan")
    variance = float(data.test_y.astype(float).var(axis=0).mean())
    return variance if variance > 0 else float("nan")
