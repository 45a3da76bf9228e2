"""The training examples of all users of all replicas, on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.augmentation import Augmentation
from netfl.learning.batch_limits import evaluation_slices
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.data import Dataset, Examples
    from netfl.learning.minibatches import Batches
    from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class ReplicaData:
    """Data and random streams with which one replica learns.

    Args:
        replica: its number in the run.
        dataset: may be the same object in several replicas.
        split: the training rows of each user.
        streams: random streams for learning.
        validation: validation examples, if the run validates.
        participation: shares of the rounds in which users' updates are delivered, ``[users]``, if known.
    """

    replica: int
    dataset: Dataset
    split: Sequence[NDArray[np.int64]]
    streams: Streams
    validation: Examples | None = None
    participation: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The examples of mini-batches.

    Args:
        rows: of `UserDatasets.x`, ``[steps, users, width]``.
        moves: the augmentation of each example, of the same shape; ``None`` without augmentation.
    """

    rows: Tensor
    moves: Tensor | None


class UserDatasets:
    """Training examples, and the rows that each user holds.  A data set that replicas share is stored once.

    Args:
        replicas: of the run.
        device: where the examples are.
        dtype: of the examples.
    """

    def __init__(self, replicas: Sequence[ReplicaData], device: torch.device, dtype: torch.dtype) -> None:
        datasets = [replica.dataset for replica in replicas]
        streams = [replica.streams for replica in replicas]
        self.augmentation = Augmentation.of(datasets[0], streams, device)
        distinct = list({id(dataset): dataset for dataset in datasets}.values())
        ends = np.cumsum([0, *(len(dataset.train_y) for dataset in distinct)])
        offset = {id(dataset): int(end) for dataset, end in zip(distinct, ends, strict=False)}
        held = [rows + offset[id(replica.dataset)] for replica in replicas for rows in replica.split]
        self._rows = np.concatenate(held)
        self.sizes = np.array([len(rows) for rows in held]).reshape(len(datasets), -1)
        self._starts = (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)
        self.x = _concatenate([dataset.train_x for dataset in distinct]).to(device, dtype)
        self.y = _concatenate([dataset.train_y for dataset in distinct]).to(device)
        self._buffer = self.x[:0]

    def rows_of(self, cohort: Cohort, batches: Batches) -> BatchRows:
        """Return the examples in the mini-batches of *cohort*."""
        starts = self._starts[cohort.replicas, cohort.users][batches.order]
        rows = tensor(self._rows[starts[:, None] + batches.places.swapaxes(0, 1)]).to(self.x.device)
        return BatchRows(rows, None if self.augmentation is None else self.augmentation.draw(cohort, batches))

    def pooled(self) -> UserDatasets:
        """Return the same examples with a single user in each replica, who holds all of them."""
        pooled = copy(self)
        pooled.sizes, pooled._starts = self.sizes.sum(1, keepdims=True), self._starts[:, :1]
        return pooled

    def buffer(self, examples: int) -> Tensor:
        """Return memory for so many *examples*, the same from round to round."""
        if len(self._buffer) < examples:
            self._buffer = self.x.new_empty((examples, *self.x.shape[1:]))
        return self._buffer[:examples]

    def rows_held(self, replica: int, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that *users* of *replica* hold, user by user, and the number of rows of each user."""
        sizes, starts = self.sizes[replica, users], self._starts[replica, users]
        return self._rows[np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())], sizes

    def slices(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield slices of *rows* with their examples and labels."""
        for part in evaluation_slices(len(rows)):
            selected = tensor(rows[part]).to(self.x.device)
            yield part, self.x[selected], self.y[selected]


def _concatenate(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    """Join arrays to one tensor; a single array is not copied."""
    return tensor(parts[0] if len(parts) == 1 else np.concatenate(parts))
