"""Of whom the server may still hope to hear in the open round."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NONE = -1


class OutstandingUpdates:
    """For each user the version that the update starts from which may still come; of every user only the newest.

    Args:
        users: how many there are.

    Attributes:
        count: users of whom an update may still come.
        least: the oldest version from which one counts.
    """

    def __init__(self, users: int) -> None:
        self._base = np.full(users, _NONE, np.int64)
        self.count = self.least = 0

    def drop(self, least: int) -> None:
        """There is no hope of updates from versions before *least* any more."""
        self._base[self._base < least] = _NONE
        self.count = int(np.count_nonzero(self._base != _NONE))

    def have(self, users: NDArray[np.int64], base: ArrayLike, *, anew: bool = True) -> None:
        """Hope for updates of *users*, distinct ones, from *base*, if they count, and for none from older versions.

        Args:
            users: who.
            base: one version for all, or one for each.
            anew: whether that is so for users of whom there is no hope, too.
        """
        new = np.broadcast_to(base, users.shape)
        better = (new > self._base[users]) & (new >= self.least) & (anew | ~self.none(users))
        self.count += int(np.count_nonzero(self.none(users[better])))
        self._base[users[better]] = new[better]

    def turn(self, users: NDArray[np.int64], base: ArrayLike, other: NDArray[np.int64]) -> None:
        """Where there is hope for updates of *users* from *base*, it turns to those from *other*, ``[n]``."""
        hoped = self._base[users] == base
        self._base[users[hoped]] = other[hoped]

    def none(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether there is no hope of each of *users*, ``[n]``."""
        return np.asarray(self._base[users] == _NONE)

    def lose(self, users: NDArray[np.int64], base: ArrayLike) -> bool:
        """Give up hope for updates of *users* from *base*, if there is any: whether that was the last."""
        gone = users[self._base[users] == base]
        self._base[gone] = _NONE
        self.count -= len(gone)
        return bool(len(gone)) and self.count == 0
