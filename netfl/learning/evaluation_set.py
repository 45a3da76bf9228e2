"""Examples that models are tried on: how many each gets right and what it loses, by groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.figures import Performance
from netfl.learning.tensors import tensor
from netfl.learning.ways import examined

if TYPE_CHECKING:
    from netfl.learning.network import Network


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

    def performance(self, network: Network, theta: Tensor) -> list[Performance]:
        """How well the models *theta*, ``[models, parameters]``, do, for each way of grouping."""
        stack, models = network.open(theta, trained=False), len(theta)
        sums = [theta.new_zeros((2, models, len(counts)), dtype=torch.float64) for counts in self.counts]
        for rows in examined(len(self._y)):
            x, labels = self._x[rows], self._y[rows].expand(models, -1)
            right = stack.scores(x.expand(models, *x.shape)).argmax(2) == labels
            found = torch.stack([right.to(sums[0].dtype), stack.losses(labels).to(sums[0].dtype)])
            for groups, total in zip(self._groups, sums, strict=True):
                total.scatter_add_(2, groups[rows].expand(2, models, -1), found)
        return [_performance(total.cpu().numpy(), counts) for total, counts in zip(sums, self.counts, strict=True)]


def together(parts: Sequence[tuple[NDArray[np.int64], Performance]]) -> Performance:
    """The performance of all lanes, from those of some lanes each."""
    order = np.argsort(np.concatenate([lanes for lanes, _ in parts]))
    names = ("accuracy", "loss", "counts")
    return Performance(
        *(np.concatenate([getattr(performance, name) for _, performance in parts])[order] for name in names)
    )


def _performance(sums: NDArray[Any], counts: NDArray[np.float64]) -> Performance:
    """Sums over the examples of groups as their means."""
    accuracy, loss = sums / np.maximum(counts, 1.0)
    return Performance(accuracy, loss, np.broadcast_to(counts, accuracy.shape))
