"""Links of users to all towers, as an association sees them: distances and mean signals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netfl.network.layout import Layout
from netfl.network.radio.link_budget import LinkBudget
from netfl.types import Floats, Ints

_ROUNDING = 1e-9
"""Relative difference of distances that may be rounding."""
_SPARE = 3
"""Towers that are looked at beside those that are asked for, as rounding may change the order of equal distances."""


class TowerLinks:
    """Distances and mean signals of pairs of a user and a tower, which is an index in `Layout.towers`.

    Args:
        layout: positions of users and towers.
        budget: signals of all links; ``None`` without a radio.

    Attributes:
        users: number of users of the network.
        towers: names of the towers, in the order of their indices.
        last_heard: ``last_heard(users, serving)`` returns the tower that has received the last frame of each of
            *users*, at its tower of *serving*, with the strongest signal, ``[n]``; -1 if none has heard any.
    """

    def __init__(self, layout: Layout, budget: LinkBudget | None) -> None:
        from scipy.spatial import cKDTree

        self.users = layout.users
        self.towers = layout.towers
        self._layout = layout
        self._budget = budget
        self._tree = cKDTree(layout.tower_xy_m)
        self.last_heard: Callable[[Ints, Ints], Ints] = lambda users, serving: np.full(len(users), -1)

    def positions_m(self, users: Ints, time_s: float) -> Floats:
        """Return the positions of *users*, ``[n, 2]``."""
        return self._layout.positions_m(users, time_s)

    def distances_m(self, users: Ints, towers: Ints, time_s: float) -> Floats:
        """Return the distance of each of *users* to its one of *towers*, ``[n]``."""
        return self._layout.distances_to_m(towers, users, time_s)

    def nearest(self, users: Ints, time_s: float) -> Ints:
        """Return the nearest tower of each of *users*, the first of several at the same distance, ``[n]``."""
        return self.nearest_few(users, time_s, 1)[:, 0]

    def nearest_few(self, users: Ints, time_s: float, count: int) -> Ints:
        """Return the *count* nearest towers of each of *users*, or all if there are fewer, by distance, ``[n, count]``.

        Of towers at the same distance the first comes first.
        """
        positions_m = self.positions_m(users, time_s)
        near = min(count + _SPARE, len(self.towers))
        distances_m, towers = self._tree.query(positions_m, k=[*range(1, near + 1)])

        # the tree leaves the order of equal distances open
        is_close = np.diff(distances_m, axis=1) <= _ROUNDING * distances_m[:, 1:]
        rows = np.flatnonzero(is_close.any(axis=1))
        if rows.size:
            by_index = np.sort(towers[rows], axis=1)
            ways_m = positions_m[rows, None] - self._layout.tower_xy_m[by_index]
            order = np.argsort(np.hypot(ways_m[..., 0], ways_m[..., 1]), axis=1, kind="stable")
            towers[rows] = np.take_along_axis(by_index, order, axis=1)
        nearest: Ints = towers[:, :count]
        return nearest

    def signals_dbm(self, users: Ints, towers: Ints, time_s: float) -> Floats:
        """Return the mean power of each of *users* at its one of *towers*, without fast fading, ``[n]``.

        It has the gains of antennas, the path loss and the shadowing.
        """
        if self._budget is None:
            raise ValueError("signals need a radio; override `Association.follows_signal`")
        signals_dbm = np.empty(len(users))
        by_tower = np.argsort(towers, kind="stable")
        first = np.searchsorted(towers[by_tower], np.arange(len(self.towers) + 1))
        for tower, name in enumerate(self.towers):
            there = by_tower[first[tower] : first[tower + 1]]
            if there.size:
                signals_dbm[there] = self._budget.mean_signal_dbm(users[there], time_s, name)
        return signals_dbm
