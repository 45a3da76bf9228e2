"""Random crops and flips of the images of a mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from netfl.learning.tensors import tensor
from netfl.streams import RandomField, Streams

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.data import Dataset
    from netfl.learning.data._augmentation import Augment
    from netfl.learning.minibatches import Batches

_REPEAT_BITS = _WORD_BITS = 32


class Augmentation:
    """Random crops and flips of images ``[channels, rows, columns]``.

    The draw of an example is keyed by (replica, user, base version, repeat, number of the example in the update), so it
    does not depend on the other users, or on the batching of updates.  Learners of one replica that use the same
    mini-batches see the same images.

    A move is a number: with crop c, ``move = (flip · (2c + 1) + down) · (2c + 1) + right``, where *down* and *right*
    select one of the 2c + 1 offsets of the crop.

    Args:
        augment: the options.
        shape: channels, rows and columns of an image.
        streams: of each replica.
        device: of the images.
    """

    def __init__(
        self, augment: Augment, shape: tuple[int, ...], streams: Sequence[Streams], device: torch.device
    ) -> None:
        self._keys = np.array([stream.field("augment").key for stream in streams], np.uint64)
        self._offsets = 2 * augment.crop + 1
        self._moves = self._offsets**2 * (1 + augment.flip)
        _, height, width = shape
        self._outside = height * width
        rows, columns = (_windows(count, augment.crop, self._outside) for count in (height, width))
        self._rows = tensor(np.where(rows < self._outside, rows * width, self._outside)).to(device)
        self._columns = tensor(np.concatenate([columns, columns[:, ::-1]])).to(device)

    @classmethod
    def of(cls, data: Dataset, streams: Sequence[Streams], device: torch.device) -> Augmentation | None:
        """Build the augmentation of *data*; ``None`` if it has none."""
        return None if data.augment is None else cls(data.augment, data.train_x.shape[1:], streams, device)

    def draw(self, cohort: Cohort, batches: Batches) -> Tensor:
        """Draw the moves of all examples of *batches*, ``[steps, users, width]``."""
        order, counts = batches.order, batches.counts
        replicas, users, bases = (column[order, None, None] for column in (cohort.replicas, cohort.users, cohort.bases))
        repeats = 0 if cohort.repeats is None else cohort.repeats[order, None, None].astype(np.uint64)
        index = (bases.astype(np.uint64) << np.uint64(_REPEAT_BITS)) | repeats
        before = np.cumsum(counts, axis=1) - counts
        number = before[..., None] + np.arange(batches.places.shape[2])
        keys = self._keys[replicas].T.swapaxes(1, 3)
        word = RandomField((keys[0], keys[1])).words(users, index, number)[0]  # NumPy broadcasts the keys
        drawn = (word * np.uint64(self._moves)) >> np.uint64(_WORD_BITS)
        return tensor(drawn.astype(np.int64).swapaxes(0, 1).copy()).to(self._rows.device)

    def apply(self, x: Tensor, moves: Tensor) -> Tensor:
        """Move each image of *x*, ``[n, channels, rows, columns]``, by its number of *moves*, ``[n]``."""
        down, right = moves // self._offsets % self._offsets, moves % self._offsets
        right = right + moves // self._offsets**2 * self._offsets
        pixels = (self._rows[down][:, :, None] + self._columns[right][:, None, :]).clamp_(max=self._outside)
        framed = functional.pad(x.flatten(2), (0, 1))
        return framed.gather(2, pixels.view(len(x), 1, -1).expand(-1, x.shape[1], -1)).view(x.shape)


def _windows(count: int, crop: int, outside: int) -> NDArray[np.int64]:
    """Return the source of each of *count* lines for each of the 2 crop + 1 offsets, ``[offsets, count]``."""
    lines = np.arange(count) + np.arange(-crop, crop + 1)[:, None]
    return np.where((lines >= 0) & (lines < count), lines, outside)
