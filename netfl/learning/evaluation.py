"""Evaluation of every lane's model on the test examples of its replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netfl.errors import ModelError
from netfl.learning.figures import Floats, over_classes, over_objectives, over_users
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from netfl.learning.data import Dataset
    from netfl.learning.network import Network
    from netfl.learning.objective import Objective

_ROWS_AT_ONCE = 512


class Evaluation:
    """The test examples of all replicas and the mix of labels of each user.

    What a user meets is taken to be its own mix of labels over the whole test set, ``Σ_c mix_kc figure_c``: the exact
    expectation where users differ in their labels only.

    Args:
        datasets: of each replica.
        splits: for each replica the training rows of each user.
        replicas: of each lane.
        rare: the rare classes.
        like: a tensor of the type and on the device to work with.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        replicas: Sequence[int],
        rare: Sequence[int],
        like: Tensor,
    ) -> None:
        self._replicas, self._rare = np.array(replicas), rare
        distinct = {id(data): data for data in datasets}
        held = np.array([id(datasets[replica]) for replica in replicas])
        self._sets = [(np.flatnonzero(held == name), _TestSet(data, like)) for name, data in distinct.items()]
        self._mixes = np.stack([_mixes(data, split) for data, split in zip(datasets, splits, strict=True)])

    def metrics(
        self, network: Network, versions: Tensor, objectives: Sequence[Objective], heard: NDArray[np.int64]
    ) -> Mapping[str, Floats]:
        """All figures by name, each ``[lanes]``.

        Args:
            network: what the versions are parameters of.
            versions: of each lane, ``[lanes, parameters + 1]``.
            objectives: of each lane.
            heard: deliveries so far, ``[replicas, users]``.
        """
        lanes = len(versions)
        accuracy, loss, counts = np.empty((3, lanes, self._mixes.shape[2]))
        for mine, test in self._sets:
            accuracy[mine], loss[mine] = test.figures(network, versions[tensor(mine).to(versions.device), :-1])
            counts[mine] = test.counts
        mixes = self._mixes[self._replicas]
        accuracy_users, loss_users = (np.einsum("luc,lc->lu", mixes, figures) for figures in (accuracy, loss))
        rho = _shares(heard)[self._replicas]
        t = versions[:, -1].cpu().double().numpy()
        return {
            **dict(over_classes(accuracy, loss, counts, self._rare)),
            **dict(over_users(accuracy_users, loss_users)),
            **dict(over_objectives(objectives, loss_users, rho, t)),
        }


class _TestSet:
    """The test examples of one data set, on the device."""

    def __init__(self, data: Dataset, like: Tensor) -> None:
        self.counts = np.bincount(data.test_y, minlength=data.classes).astype(float)
        if not self.counts.all():
            missing = int(np.argmin(self.counts))
            raise ModelError("evaluate", f"the test set holds no example of class {missing}")
        self._x = tensor(data.test_x).to(like)
        self._y = tensor(data.test_y).to(like.device)

    def figures(self, network: Network, theta: Tensor) -> tuple[Floats, Floats]:
        """Accuracy and mean loss of each class, ``[lanes, classes]``, of models ``[lanes, parameters]``."""
        stack, models = network.open(theta), len(theta)
        right, loss = theta.new_zeros((2, models, len(self.counts)), dtype=torch.float64)
        for x, y in zip(torch.split(self._x, _ROWS_AT_ONCE), torch.split(self._y, _ROWS_AT_ONCE), strict=True):
            labels = y.expand(models, -1)
            found = stack.scores(x.expand(models, *x.shape)).argmax(2)
            right.scatter_add_(1, labels, (found == y).to(right.dtype))
            loss.scatter_add_(1, labels, stack.losses(labels).to(loss.dtype))
        return right.cpu().numpy() / self.counts, loss.cpu().numpy() / self.counts


def _mixes(data: Dataset, split: Sequence[NDArray[np.int64]]) -> Floats:
    """The shares of the labels in each user's data, ``[users, classes]``."""
    counts = np.stack([np.bincount(data.train_y[rows], minlength=data.classes) for rows in split])
    return np.asarray(counts / counts.sum(1, keepdims=True))


def _shares(heard: NDArray[np.int64]) -> Floats:
    """The shares of each replica's deliveries, equal before the first, ``[replicas, users]``."""
    counts = heard + (heard.sum(1, keepdims=True) == 0)
    return np.asarray(counts / counts.sum(1, keepdims=True))
