"""The training examples of all users of all replicas, where training finds them."""

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
    from netfl.learning.data import Dataset
    from netfl.learning.minibatches import Batches
    from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class BatchRows:
    """What makes up mini-batches.

    Args:
        rows: of the pool's examples, ``[steps, users, width]``.
        moves: what its augmentation makes of each, of the same shape; ``None`` for nothing.
    """

    rows: Tensor
    moves: Tensor | None


class UserDatasets:
    """The training examples of all replicas on the device, and which of them each user holds.

    A data set that replicas share is held once.  What `augmentation` says becomes of them when they are trained on.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        device: torch.device,
        dtype: torch.dtype,
        streams: Sequence[Streams],
    ) -> None:
        self.augmentation = Augmentation.of(datasets[0], streams, device)
        distinct = list({id(one): one for one in datasets}.values())
        ends = np.cumsum([0, *(len(one.train_y) for one in distinct)])
        at = {id(one): int(end) for one, end in zip(distinct, ends, strict=False)}
        held = [rows + at[id(one)] for one, split in zip(datasets, splits, strict=True) for rows in split]
        self._rows = np.concatenate(held)
        self.sizes = np.array([len(rows) for rows in held]).reshape(len(datasets), -1)
        self._starts = (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)
        self.x = _joined([one.train_x for one in distinct]).to(device, dtype)
        self.y = _joined([one.train_y for one in distinct]).to(device)
        self._room = self.x[:0]

    def drawn(self, cohort: Cohort, batches: Batches) -> BatchRows:
        """What makes up the mini-batches of *cohort*."""
        starts = self._starts[cohort.replicas, cohort.users][batches.order]
        rows = tensor(self._rows[starts[:, None] + batches.places.swapaxes(0, 1)]).to(self.x.device)
        return BatchRows(rows, None if self.augmentation is None else self.augmentation.moves(cohort, batches))

    def whole(self) -> UserDatasets:
        """The same examples, those of all users of a replica in the hands of one."""
        pool = copy(self)
        pool.sizes, pool._starts = self.sizes.sum(1, keepdims=True), self._starts[:, :1]
        return pool

    def room(self, examples: int) -> Tensor:
        """Room for so many examples, the same in memory from round to round."""
        if len(self._room) < examples:
            self._room = self.x.new_empty((examples, *self.x.shape[1:]))
        return self._room[:examples]

    def held(self, replica: int, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of all that *users* of *replica* hold, user by user, and how many each of them holds."""
        sizes, starts = self.sizes[replica, users], self._starts[replica, users]
        return self._rows[np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())], sizes

    def examined(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Examples *rows* and their labels, some at a time, and which of *rows* they are."""
        for part in evaluation_slices(len(rows)):
            own = tensor(rows[part]).to(self.x.device)
            yield part, self.x[own], self.y[own]


def _joined(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    """Arrays as one tensor, without a copy of a single one."""
    return tensor(parts[0] if len(parts) == 1 else np.concatenate(parts))
