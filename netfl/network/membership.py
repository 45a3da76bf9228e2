"""Membership: which tower has a user at a time, and which slot the user has in that tower's cell.

A user begins at its tower of the start, the nearest at time 0.  The cell of a tower has a slot for each of its
*candidates*, the users that may ever be there: those of the start and visitors.  So arrays by slot keep their lengths,
constants of users lie in the slots of each tower, and only the state of a user moves with it: its *row*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.errors import ModelError
from netfl.network.clock import Clock
from netfl.network.layout import Layout
from netfl.types import Bools, Floats, Ints, Users


class Row(Protocol):
    """The state of users by their slots, which moves with them: a `netfl.network.tower.Tower` has all of it.

    The population of a tower and its queues take and put their parts.  What a tower knows by the numbers of users in
    the network does not move.  A MAC carries nothing: it may keep what it knows of a slot until its user comes back.
    """

    def has_work(self, slots: Users) -> Bools:
        """Return whether anything is under way of or to the user of each of *slots*, ``[n]``."""

    def take_row(self, slots: Users) -> dict[str, Any]:
        """Return the state of the users of *slots*, who leave, and have these slots forget it."""

    def put_row(self, slots: Users, row: Mapping[str, Any]) -> None:
        """Let the users of *slots*, who come, have the state that another tower has taken out."""


class _Move(NamedTuple):
    """A move of a user from one tower to another."""

    time_s: float
    user: int
    source: int
    target: int


class Membership:
    """The tower of each user, by its index in `netfl.network.layout.Layout.towers`.

    Args:
        layout: the towers, and where users start.
        env: the clock.
        visitors: users of other towers that may come to a tower, by its index.

    Attributes:
        users: number of users of the network.
    """

    def __init__(self, layout: Layout, env: Clock, visitors: Mapping[int, Users] | None = None) -> None:
        self._layout = layout
        self._env = env
        self.users = layout.users
        self._tower_now = layout.tower_at_start
        self._moves: list[_Move] = []  # in the order of time
        self._rows: dict[int, Row] = {}

        # slots: those of the start in one array, and searched for where there are visitors
        self._visitors = visitors or {}
        self._candidates = [np.flatnonzero(self._tower_now == tower) for tower in range(len(layout.towers))]
        self._slot_at_start = np.zeros(layout.users, np.int64)
        for candidates in self._candidates:
            self._slot_at_start[candidates] = np.arange(len(candidates))
        for tower, users in self._visitors.items():
            self._candidates[tower] = np.union1d(self._candidates[tower], users)

    def hold(self, tower: int, row: Row) -> None:
        """Let *row* have the state of the users at *tower*."""
        self._rows[tower] = row

    def tower_at(self, users: Users, time_s: ArrayLike) -> Ints:
        """Return the tower that each of *users* has at *time_s*, one time for all or one for each, ``[n]``.

        At the instant of a move it is the new one.  Of a later time it is the tower that is known now.
        """
        towers = self._tower_now[users]
        if not self._moves:
            return towers
        times_s = np.broadcast_to(np.asarray(time_s, float), towers.shape)
        earliest_s = times_s.min(initial=np.inf)
        for move in reversed(self._moves):
            if move.time_s <= earliest_s:
                break
            towers[(users == move.user) & (times_s < move.time_s)] = move.source
        return towers

    def distances_m(self, users: Users, time_s: ArrayLike) -> Floats:
        """Return the distance of each of *users* at *time_s* to the tower that it has then, ``[n]``."""
        if not self._moves:
            return self._layout.distances_m(users, time_s)
        return self._layout.distances_to_m(self.tower_at(users, time_s), users, time_s)

    def candidates(self, tower: int) -> Users:
        """Return all users that may ever be at *tower*, in rising order: those of the slots of its cell, ``[size]``."""
        return self._candidates[tower]

    def slots(self, users: Users, tower: int) -> Ints:
        """Return the slots of *users*, who are candidates of *tower*, in its cell, ``[n]``."""
        if tower in self._visitors:
            return np.searchsorted(self._candidates[tower], users)
        return self._slot_at_start[users]

    def is_member(self, tower: int) -> Bools:
        """Return whether the candidate of each slot of *tower* is there now, ``[size]``."""
        return np.asarray(self._tower_now[self._candidates[tower]] == tower)

    def members(self, tower: int) -> Ints:
        """Return the slots whose candidates are at *tower* now, in rising order."""
        return np.flatnonzero(self.is_member(tower))

    def move(self, user: int, to: int) -> None:
        """Let *user*, who has nothing under way, be at tower *to* from now on, with its state.

        Raises:
            ModelError: the user is no candidate of this tower, or has an update, or a version is on its way to it.
        """
        users = np.array([user])
        source = int(self._tower_now[user])
        if to == source:
            return
        name = self._layout.towers[to]
        if user not in self._candidates[to]:
            problem = f"it has no slot at {name}; name it among the visitors of this tower"
            raise self._error(problem, user)
        slots = self.slots(users, source)
        if self._rows[source].has_work(slots).any():
            problem = f"it cannot move to {name} with an update or a version under way; move it when both have ended"
            raise self._error(problem, user)

        row = self._rows[source].take_row(slots)
        self._rows[to].put_row(self.slots(users, to), row)
        if not self._moves:  # the array is that of the layout
            self._tower_now = self._tower_now.copy()
        self._tower_now[user] = to
        self._moves.append(_Move(float(self._env.now), user, source, to))

    def _error(self, problem: str, user: int) -> ModelError:
        return ModelError("membership", problem, user, float(self._env.now))
