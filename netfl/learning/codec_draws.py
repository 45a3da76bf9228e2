"""Random numbers of codecs, which updates have by their user and base."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.tensors import upload
from netfl.types import Ints


class CodecDraws:
    """Random numbers of updates: functions of (replica, node, user, base version, repeat), the same in all lanes.

    An update has the words of Philox4x64 for the stream ``codec`` of its replica, counted by user, repeat and base, as
    mini-batches are.  The host draws them, on any device, so that they are the same on all.

    Args:
        keys: of the streams, ``[updates, 2]``.
        users: ``[updates]``.
        bases: the versions from which the updates started, ``[updates]``.
        repeats: earlier deliveries of the same user from the same base, ``[updates]``.
        like: tensor of the type and on the device of the numbers.
    """

    def __init__(self, keys: NDArray[np.integer[Any]], users: Ints, bases: Ints, repeats: Ints, like: Tensor) -> None:
        self._updates = [*zip(keys.tolist(), users.tolist(), repeats.tolist(), bases.tolist(), strict=True)]
        self._dtype = like.dtype
        self._device = like.device
        self._uniform = like.new_empty(len(users), 1, 0)  # of the last call: lanes that are coded in turn share it

    def uniform(self, count: int) -> Tensor:
        """Return independent uniform numbers from [0, 1), with 24 random bits; not to be written into.

        The result is ``[updates, 1, count]``.
        """
        if self._uniform.shape[-1] != count:
            shares = (self._words(count) >> np.uint32(8)).astype(np.float32)
            shares *= np.float32(2.0**-24)
            self._uniform = upload(shares, self._device, self._dtype)[:, None]
        return self._uniform

    def choose(self, places: int, count: int) -> Tensor:
        """Return *count* different numbers below *places* in rising order, all sets equally likely.

        These are the places with the smallest words; among equal words the first.  The result is ``[updates, 1,
        count]``, int64.
        """
        chosen = np.empty((len(self._updates), count), np.int64)
        for words, row in zip(self._words(places), chosen, strict=True):
            largest = np.partition(words, count - 1)[count - 1]
            smaller = np.flatnonzero(words < largest)
            tied = np.flatnonzero(words == largest)[: count - len(smaller)]
            row[:] = np.sort(np.concatenate([smaller, tied]))
        return upload(chosen, self._device)[:, None]

    def _words(self, count: int) -> NDArray[np.uint32]:
        """Return independent whole numbers below 2³², ``[updates, count]``."""
        pairs = -(-count // 2)  # Philox makes words of 64 bits, two of 32 bits each
        words = np.empty((len(self._updates), pairs), "<u8")
        for row, (key, user, repeat, base) in enumerate(self._updates):
            words[row] = np.random.Philox(key=key, counter=[0, user, repeat, base]).random_raw(pairs)
        return words.view("<u4")[:, :count]
