"""Block fading: a gain that is drawn anew for each user in each block of time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.channel import LinkGain
from netfl.network.periods import period_of, periods_of

_AHEAD, _USERS = 64, 4096
"""Blocks that are drawn ahead, and users for whom they are kept."""
_NONE = np.empty(0)


class BlockGain(LinkGain):
    """Gains that hold for one coherence time; block k of all users is the time from k to k+1 coherence times.

    Args:
        draw_db: gives the gains of (users, blocks).
        coherence_s: length of a block.
        peak_db: exceeded with a probability under 1e-9.
    """

    def __init__(
        self,
        draw_db: Callable[[NDArray[np.int64], NDArray[np.uint64]], NDArray[np.float64]],
        coherence_s: float,
        peak_db: float,
    ) -> None:
        self._draw_db, self._coherence_s, self._peak_db = draw_db, coherence_s, peak_db
        self._ahead: dict[int, tuple[int, NDArray[np.float64]]] = {}

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The draw of the block that *time_s* lies in."""
        if isinstance(time_s, float):
            number = period_of(time_s, self._coherence_s)
            return self._alone(users, number) if len(users) == 1 else self._draw_db(users, np.array(number, np.uint64))
        block = periods_of(time_s, self._coherence_s).astype(np.uint64)
        return self._alone(users, int(block)) if len(users) == 1 and block.size == 1 else self._draw_db(users, block)

    @property
    def hold_s(self) -> float:
        """The coherence time."""
        return self._coherence_s

    def _alone(self, users: NDArray[np.int64], block: int) -> NDArray[np.float64]:
        """The draw of one user: one that asks block after block is answered from draws made ahead, all at once."""
        user = int(users[0])
        first, gains_db = self._ahead.get(user, (-_AHEAD, _NONE))
        if not 0 <= block - first < len(gains_db):
            near = 0 <= block - first < 2 * _AHEAD
            if len(self._ahead) >= _USERS:
                self._ahead.clear()
            blocks = np.arange(block, block + (_AHEAD if near else 1), dtype=np.uint64)
            first, gains_db = self._ahead[user] = block, self._draw_db(np.full(len(blocks), user), blocks)
        return gains_db[block - first : block - first + 1]

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same for all users."""
        return np.full(len(users), self._peak_db)


# A gain that does not change with time.


class StaticGain(LinkGain):
    """One gain for each user, for good."""

    def __init__(self, gain_db: NDArray[np.float64]) -> None:
        self._gain_db = gain_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Each user's gain."""
        return self._gain_db[users]

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same."""
        return self._gain_db[users]
