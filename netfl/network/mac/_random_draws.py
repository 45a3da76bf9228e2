"""Random draws of users, generated in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.network.mac import Floats, Ints

_BLOCK = 16


class BufferedDraws:
    """The sequence of draws of each user of a cell, independent of when other users draw.

    Args:
        draw: ``draw(ids, index)`` returns the index-th draw of each user, for arrays of one shape.
        ids: numbers of the users in the network.
    """

    def __init__(self, draw: Callable[[Ints, Ints], NDArray[Any]], ids: Ints) -> None:
        self._draw, self._ids = draw, ids
        self._count = np.zeros(len(ids), np.int64)
        self._buffer = np.empty((len(ids), _BLOCK))

    def next(self, users: Ints) -> Floats:
        """Return the next draw of each of *users*, ``[n]``."""
        count = self._count[users]
        offset = count % _BLOCK
        is_used_up = offset == 0
        if is_used_up.any():
            refilled = users[is_used_up]
            index = self._count[refilled][:, None] + np.arange(_BLOCK)
            self._buffer[refilled] = self._draw(np.broadcast_to(self._ids[refilled][:, None], index.shape), index)
        self._count[users] = count + 1
        return np.asarray(self._buffer[users, offset])
