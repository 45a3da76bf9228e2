"""Gains of links over time: static, block fading, and a function of the distance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.layout import Layout
from netfl.network.periods import period_of, periods_of

Loss = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""``loss(distance_m)``: the loss in dB at each distance, ``[n]``."""
LinkLoss = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]]
"""``loss(users, distance_m)``: the loss in dB of each user's link at its distance, ``[n]``."""
MinLoss = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""``min_loss(users)``: the smallest loss in dB that each user's link can have, ``[n]``."""

_AHEAD, _MAX_CACHED = 64, 4096
"""Blocks that are drawn ahead for a user, and users for whom they are kept."""
_NO_DRAWS = np.empty(0)


class LinkGain(ABC):
    """Gains that a channel model gives the links of one network."""

    @abstractmethod
    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Return the power gain (negative for a loss) of each user's link to its tower at *time_s*, in dB, ``[n]``.

        The gain is a function of (user, time): repeated calls, in any order, return the same values.
        """

    @abstractmethod
    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the gain that each link exceeds with a probability under 1e-9 at any one time, in dB, ``[n]``.

        A user whose SNR at this gain is below the reception threshold is unreachable, which is reported as an error.
        """

    @property
    def hold_s(self) -> float:
        """Length of the blocks, counted from time 0, in which the gain is (nearly) constant, in s.

        Infinity for a gain that does not change during a transmission.
        """
        return math.inf


class StaticGain(LinkGain):
    """One gain for each user that does not change with time.

    Args:
        gain_db: gains in dB, ``[users]``.
    """

    def __init__(self, gain_db: NDArray[np.float64]) -> None:
        self._gain_db = gain_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Return each user's gain, ``[n]``."""
        return self._gain_db[users]

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return each user's gain, ``[n]``."""
        return self._gain_db[users]


class BlockGain(LinkGain):
    """Block fading: one draw for each user and each coherence time.  Block k of all users starts at k coherence times.

    Args:
        draw_db: ``draw_db(users, blocks)`` returns the gains in dB, ``[n]``.
        coherence_s: length of a block.
        peak_db: gain that is exceeded with a probability under 1e-9.
    """

    def __init__(
        self,
        draw_db: Callable[[NDArray[np.int64], NDArray[np.uint64]], NDArray[np.float64]],
        coherence_s: float,
        peak_db: float,
    ) -> None:
        self._draw_db, self._coherence_s, self._peak_db = draw_db, coherence_s, peak_db
        self._drawn_ahead: dict[int, tuple[int, NDArray[np.float64]]] = {}

    @property
    def hold_s(self) -> float:
        """Coherence time."""
        return self._coherence_s

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Return the draws of the block that contains *time_s*, ``[n]``."""
        if isinstance(time_s, float):
            number = period_of(time_s, self._coherence_s)
            return self._single(users, number) if len(users) == 1 else self._draw_db(users, np.array(number, np.uint64))
        block = periods_of(time_s, self._coherence_s).astype(np.uint64)
        return self._single(users, int(block)) if len(users) == 1 and block.size == 1 else self._draw_db(users, block)

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the same gain for all users, ``[n]``."""
        return np.full(len(users), self._peak_db)

    def _single(self, users: NDArray[np.int64], block: int) -> NDArray[np.float64]:
        """Return the draw of one user; for successive blocks, several are drawn at once and kept."""
        user = int(users[0])
        first, gains_db = self._drawn_ahead.get(user, (-_AHEAD, _NO_DRAWS))
        if not 0 <= block - first < len(gains_db):
            is_near = 0 <= block - first < 2 * _AHEAD
            if len(self._drawn_ahead) >= _MAX_CACHED:
                self._drawn_ahead.clear()
            blocks = np.arange(block, block + (_AHEAD if is_near else 1), dtype=np.uint64)
            first, gains_db = self._drawn_ahead[user] = block, self._draw_db(np.full(len(blocks), user), blocks)
        return gains_db[block - first : block - first + 1]


class _MovingGain(LinkGain):
    """Gains that follow the distance of moving users."""

    def __init__(self, layout: Layout, loss_db: LinkLoss, min_loss_db: MinLoss) -> None:
        self._layout, self._loss_db, self._min_loss_db = layout, loss_db, min_loss_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        return -self._loss_db(users, self._layout.distances_m(users, time_s))

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        return -self._min_loss_db(users)


def distance_gain(layout: Layout, loss_db: Loss, min_loss_db: float | None = None) -> LinkGain:
    """Return the gains of links whose loss follows from their distance, computed once if no user moves.

    Args:
        layout: positions of users and towers.
        loss_db: the loss in dB at each distance, ``[n]``; finite at any distance from 0 on.
        min_loss_db: the smallest loss; by default the loss at distance 0.
    """
    bound = None if min_loss_db is None else lambda users: np.full(len(users), min_loss_db)
    return link_gain(layout, lambda _, distance_m: loss_db(distance_m), bound)


def link_gain(layout: Layout, loss_db: LinkLoss, min_loss_db: MinLoss | None = None) -> LinkGain:
    """Return the gains of links whose loss follows from the user and the distance; see `distance_gain`."""
    if not layout.moving:
        return StaticGain(-loss_db(np.arange(layout.users), layout.distance_m))
    return _MovingGain(layout, loss_db, min_loss_db or (lambda users: loss_db(users, np.zeros(len(users)))))
