"""Evaluation of every lane's model on the test and the validation examples of its replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batch_limits import evaluation_slices
from netfl.learning.performance import (
    NAMES,
    Floats,
    UserPerformance,
    accuracy_spread,
    class_metrics,
    objective_metrics,
    user_metrics,
)
from netfl.learning.tensors import tensor
from netfl.learning.validation_split import user_weights, users_have_test_data

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.data import Dataset, Examples
    from netfl.learning.objective import Objective


# Examples that models are tried on: how many each gets right and what it loses, by groups.


class EvaluationSet:
    """Examples on the device, sorted into groups in one or more ways, such as by label and by user.

    Args:
        x: the examples, ``[examples, *shape]``.
        y: their labels.
        ways: for each way of grouping, the group of each example, from 0, and the number of groups.
        like: a tensor of the type and on the device to work with.
    """

    def __init__(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.int64],
        ways: Sequence[tuple[NDArray[np.int64], int]],
        like: Tensor,
    ) -> None:
        self._x, self._y = tensor(x).to(like), tensor(y).to(like.device)
        self._groups = [tensor(groups).to(like.device) for groups, _ in ways]
        self.counts = [np.bincount(groups, minlength=size).astype(float) for groups, size in ways]

    def performance(self, network: Architecture, theta: Tensor) -> list[UserPerformance]:
        """How well the models *theta*, ``[models, parameters]``, do, for each way of grouping."""
        stack, models = network.open(theta, trained=False), len(theta)
        sums = [theta.new_zeros((2, models, len(counts)), dtype=torch.float64) for counts in self.counts]
        for rows in evaluation_slices(len(self._y)):
            x, labels = self._x[rows], self._y[rows].expand(models, -1)
            right = stack.scores(x.expand(models, *x.shape)).argmax(2) == labels
            found = torch.stack([right.to(sums[0].dtype), stack.losses(labels).to(sums[0].dtype)])
            for groups, total in zip(self._groups, sums, strict=True):
                total.scatter_add_(2, groups[rows].expand(2, models, -1), found)
        return [_performance(total.cpu().numpy(), counts) for total, counts in zip(sums, self.counts, strict=True)]


def merge_performance(parts: Sequence[tuple[NDArray[np.int64], UserPerformance]]) -> UserPerformance:
    """The performance of all lanes, from those of some lanes each."""
    order = np.argsort(np.concatenate([lanes for lanes, _ in parts]))
    names = ("accuracy", "loss", "counts")
    return UserPerformance(
        *(np.concatenate([getattr(performance, name) for _, performance in parts])[order] for name in names)
    )


def _performance(sums: NDArray[Any], counts: NDArray[np.float64]) -> UserPerformance:
    """Sums over the examples of groups as their means."""
    accuracy, loss = sums / np.maximum(counts, 1.0)
    return UserPerformance(accuracy, loss, np.broadcast_to(counts, accuracy.shape))


class Evaluation:
    """The test examples of all replicas, and what each user meets of them.

    Where users are those of the data and have test examples of their own, a user's figures are those of its own test
    examples.  Else what a user meets is taken to be its own mix of labels over the whole test set,
    ``Σ_c mix_kc figure_c``: the exact expectation where users differ in their labels only.  Labels that the test set
    has no example of are left out of the mix.

    Args:
        datasets: of each replica.
        splits: for each replica the training rows of each user.
        replicas: of each lane.
        rare: the rare classes.
        like: a tensor of the type and on the device to work with.
        validation: the validation examples of each replica; empty where nothing is validated.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        replicas: Sequence[int],
        rare: Sequence[int],
        like: Tensor,
        validation: Sequence[Examples] = (),
    ) -> None:
        self._replicas, self._rare = np.array(replicas), rare
        users = len(splits[0])
        pairs = [*zip(datasets, splits, strict=True)]
        own = [users_have_test_data(data, split) for data, split in pairs]
        self._tests = [
            (lanes, _tests(datasets[replica], users if own[replica] else 0, like))
            for lanes, replica in self._alike([(id(data), flag) for data, flag in zip(datasets, own, strict=True)])
        ]
        self._validations = [
            (lanes, _validation(validation[replica], users, like))
            for lanes, replica in self._alike([id(one) for one in validation])
        ]
        self._personal = all(one.user is not None for one in validation)
        self._mixes = [_mixes(data, split) for data, split in pairs]
        self._weights = np.stack([user_weights(data, split) for data, split in pairs])

    def metrics(
        self,
        network: Architecture,
        versions: Tensor,
        objectives: Sequence[Objective],
        heard: NDArray[np.int64],
        levels: Sequence[float],
    ) -> Mapping[str, Floats]:
        """All figures by name, each ``[lanes]``.

        Args:
            network: what the versions are parameters of.
            versions: of each lane, ``[lanes, parameters + 1]``.
            objectives: of each lane.
            heard: deliveries so far, ``[replicas, users]``.
            levels: at which the CVaR is told.
        """
        classes, users = self._tested(network, versions[:, :-1])
        t = versions[:, -1].cpu().double().numpy()
        return {
            **dict(class_metrics(classes, self._rare)),
            **dict(user_metrics(users)),
            **dict(accuracy_spread(users)),
            **dict(objective_metrics(objectives, users, heard[self._replicas].astype(float), t, levels)),
            **dict(self._validated(network, versions[:, :-1])),
        }

    def _tested(self, network: Architecture, theta: Tensor) -> tuple[UserPerformance, UserPerformance]:
        """How well models do on each label, and for each user."""
        found = [
            (lanes, examples.performance(network, theta[tensor(lanes).to(theta.device)]))
            for lanes, examples in self._tests
        ]
        classes = merge_performance([(lanes, performance[0]) for lanes, performance in found])
        return classes, merge_performance(
            [
                (lanes, performance[1] if len(performance) > 1 else self._met(lanes, performance[0]))
                for lanes, performance in found
            ]
        )

    def _met(self, lanes: NDArray[np.int64], classes: UserPerformance) -> UserPerformance:
        """What users meet whose mixes of labels are all that is known of them; they weigh what they train on."""
        whose = self._replicas[lanes]
        accuracy, loss = np.empty((2, *self._weights[whose].shape))
        for replica in np.unique(whose).tolist():
            own, mixes = whose == replica, self._mixes[replica].T
            accuracy[own], loss[own] = classes.accuracy[own] @ mixes, classes.loss[own] @ mixes
        return UserPerformance(accuracy, loss, self._weights[whose])

    def _validated(self, network: Architecture, theta: Tensor) -> Iterator[tuple[str, Floats]]:
        """Accuracy and loss on the validation examples, of all of them and of each user's."""
        if not self._validations:
            return
        found = [
            (lanes, examples.performance(network, theta[tensor(lanes).to(theta.device)])[0])
            for lanes, examples in self._validations
        ]
        performance = merge_performance(found)
        yield from zip((f"validation_{name}" for name in NAMES), performance.whole(), strict=True)
        if self._personal:
            yield from user_metrics(performance, "validation_")

    def _alike(self, keys: Sequence[object]) -> list[tuple[NDArray[np.int64], int]]:
        """The lanes whose replicas have one key, together, and one of those replicas; nothing without keys."""
        found: dict[object, list[int]] = {}
        for lane, replica in enumerate(self._replicas.tolist() if keys else ()):
            found.setdefault(keys[replica], []).append(lane)
        return [(np.array(lanes), int(self._replicas[lanes[0]])) for lanes in found.values()]


def _tests(data: Dataset, users: int, like: Tensor) -> EvaluationSet:
    """The test examples by their labels and, if *users* have their own, by them."""
    ways = [(data.test_y, data.classes)]
    if users and data.test_user is not None:
        ways.append((data.test_user, users))
    return EvaluationSet(data.test_x, data.test_y, ways, like)


def _validation(own: Examples, users: int, like: Tensor) -> EvaluationSet:
    """The validation examples by user, or all together."""
    return EvaluationSet(own.x, own.y, [(np.zeros_like(own.y), 1) if own.user is None else (own.user, users)], like)


def _mixes(data: Dataset, split: Sequence[NDArray[np.int64]]) -> Floats:
    """The shares of the labels in each user's data, ``[users, classes]``, of those labels that can be tested."""
    counts = np.stack([np.bincount(data.train_y[rows], minlength=data.classes) for rows in split])
    counts *= np.bincount(data.test_y, minlength=data.classes) > 0
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))
