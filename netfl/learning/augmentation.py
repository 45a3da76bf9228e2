"""Random crops and flips of the pictures of a mini-batch.

The draws of an example are keyed by (replica, user, base version, turn, number of the example in the update).  No draw
depends on who else trains, or on how updates are batched.  Learners of one replica that use the same mini-batches see
the same pictures.
"""

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

_TURN_BITS = _WORD_BITS = 32


class Augmentation:
    """Random crops and flips of pictures ``[channels, rows, columns]``.

    A move is a number: with crop c, ``move = (flip · (2c + 1) + down) · (2c + 1) + right``, where *down* and *right*
    say at which of the 2c + 1 places the picture is cut out.

    Args:
        augment: what is asked for.
        shape: channels, rows and columns of a picture.
        streams: of each replica.
        device: where pictures are.
    """

    def __init__(
        self, augment: Augment, shape: tuple[int, ...], streams: Sequence[Streams], device: torch.device
    ) -> None:
        self._keys = np.array([one.field("augment").key for one in streams], np.uint64)
        self._places = 2 * augment.crop + 1
        self._moves = self._places**2 * (1 + augment.flip)
        _, height, width = shape
        self._outside = height * width
        rows, columns = (_windows(count, augment.crop, self._outside) for count in (height, width))
        self._rows = tensor(np.where(rows < self._outside, rows * width, self._outside)).to(device)
        self._columns = tensor(np.concatenate([columns, columns[:, ::-1]])).to(device)

    @classmethod
    def of(cls, data: Dataset, streams: Sequence[Streams], device: torch.device) -> Augmentation | None:
        """What *data* ask for; ``None`` for nothing."""
        return None if data.augment is None else cls(data.augment, data.train_x.shape[1:], streams, device)

    def moves(self, cohort: Cohort, batches: Batches) -> Tensor:
        """The moves of all examples of *batches*, ``[steps, users, width]``."""
        order, counts = batches.order, batches.counts
        replicas, users, bases = (one[order, None, None] for one in (cohort.replicas, cohort.users, cohort.bases))
        turns = 0 if cohort.turns is None else cohort.turns[order, None, None].astype(np.uint64)
        index = (bases.astype(np.uint64) << np.uint64(_TURN_BITS)) | turns
        before = np.cumsum(counts, axis=1) - counts
        seen = before[..., None] + np.arange(batches.places.shape[2])
        keys = self._keys[replicas].T.swapaxes(1, 3)
        word = RandomField((keys[0], keys[1])).words(users, index, seen)[0]  # NumPy broadcasts them
        drawn = (word * np.uint64(self._moves)) >> np.uint64(_WORD_BITS)
        return tensor(drawn.astype(np.int64).swapaxes(0, 1).copy()).to(self._rows.device)

    def moved(self, x: Tensor, moves: Tensor) -> Tensor:
        """Pictures *x*, ``[n, channels, rows, columns]``, each moved by its number of *moves*, ``[n]``."""
        down, right = moves // self._places % self._places, moves % self._places
        right = right + moves // self._places**2 * self._places
        pixels = (self._rows[down][:, :, None] + self._columns[right][:, None, :]).clamp_(max=self._outside)
        framed = functional.pad(x.flatten(2), (0, 1))
        return framed.gather(2, pixels.view(len(x), 1, -1).expand(-1, x.shape[1], -1)).view(x.shape)


def _windows(count: int, crop: int, outside: int) -> NDArray[np.int64]:
    """Where each of *count* lines comes from, for each of the 2 crop + 1 places, ``[places, count]``."""
    lines = np.arange(count) + np.arange(-crop, crop + 1)[:, None]
    return np.where((lines >= 0) & (lines < count), lines, outside)
