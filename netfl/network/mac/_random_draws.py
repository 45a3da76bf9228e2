"""Random numbers of users, one after the other, made some ahead as many cost hardly more than one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Users = NDArray[np.int64]
_AHEAD = 16


class BufferedDraws:
    """What each user of a cell draws next; what it draws does not depend on who else does, or when.

    Args:
        draw: ``draw(ids, index)`` gives the index-th draw of each user, for arrays of one shape.
        ids: the users' numbers in the whole network.
    """

    def __init__(self, draw: Callable[[Users, Users], NDArray[Any]], ids: Users) -> None:
        self._draw, self._ids = draw, ids
        self._made = np.zeros(len(ids), np.int64)
        self._ahead = np.empty((len(ids), _AHEAD))

    def next(self, users: Users) -> NDArray[np.float64]:
        """The next draw of each of *users*, ``[n]``."""
        made = self._made[users]
        place = made % _AHEAD
        empty = place == 0
        if empty.any():
            who = users[empty]
            index = self._made[who][:, None] + np.arange(_AHEAD)
            self._ahead[who] = self._draw(np.broadcast_to(self._ids[who][:, None], index.shape), index)
        self._made[users] = made + 1
        return np.asarray(self._ahead[users, place])
