"""Membership: which tower has a user at a time, and which slot the user has in that tower's cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.layout import Layout
from netfl.types import Bools, Floats, Ints, Users


class Membership:
    """The tower of each user, by its index in `netfl.network.layout.Layout.towers`.

    A user begins at its tower of the start, the nearest at time 0, and stays there.

    Args:
        layout: the towers, and where users start.

    Attributes:
        users: number of users of the network.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.users = layout.users
        self._tower_of = layout.tower_at_start
        self._candidates = [np.flatnonzero(self._tower_of == tower) for tower in range(len(layout.towers))]
        self._slot_of = np.zeros(layout.users, np.int64)
        for candidates in self._candidates:
            self._slot_of[candidates] = np.arange(len(candidates))

    def tower_at(self, users: Users, time_s: ArrayLike) -> Ints:
        """Return the tower that each of *users* has at *time_s*, one time for all or one for each, ``[n]``."""
        return self._tower_of[users]

    def distances_m(self, users: Users, time_s: ArrayLike) -> Floats:
        """Return the distance of each of *users* at *time_s* to the tower that it has then, ``[n]``."""
        return self._layout.distances_m(users, time_s)

    def candidates(self, tower: int) -> Users:
        """Return all users that may ever be at *tower*, in rising order: those of the slots of its cell, ``[size]``."""
        return self._candidates[tower]

    def slots(self, users: Users, tower: int) -> Ints:
        """Return the slots of *users*, who are candidates of *tower*, in its cell, ``[n]``."""
        return self._slot_of[users]

    def is_member(self, tower: int) -> Bools:
        """Return whether the candidate of each slot of *tower* is there now, ``[size]``."""
        return np.asarray(self._tower_of[self.candidates(tower)] == tower)

    def members(self, tower: int) -> Ints:
        """Return the slots whose candidates are at *tower* now, in rising order."""
        return np.flatnonzero(self.is_member(tower))
