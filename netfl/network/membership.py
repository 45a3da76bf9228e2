"""Membership: which tower has a user at a time, and which slot the user has in that tower's cell.

A user begins at its tower of the start: the nearest at time 0, or the one that its association chooses.  The cell of a
tower has a slot for each of its *candidates*, the users that may ever be there: those of the start and visitors.  So
arrays by slot keep their lengths, constants of users lie in the slots of each tower, and only the state of a user moves
with it: its *row*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.errors import ModelError
from netfl.network.clock import Clock
from netfl.network.layout import Layout
from netfl.types import Bools, Floats, Ints, Users


class Row(Protocol):
    """The state of users by their slots, which moves with them: a `netfl.network.tower.Tower` has all of it.

    The population of a tower, its queues and the devices of its MAC take and put their parts.  What a tower knows by
    the numbers of users in the network does not move.
    """

    def has_work(self, slots: Users) -> Bools:
        """Return whether anything is under way of or to the user of each of *slots*, ``[n]``."""

    def is_bound(self, slots: Users) -> Bools:
        """Return whether the user of each of *slots* cannot leave now, ``[n]``."""

    def take_row(self, slots: Users) -> dict[str, Any]:
        """Return the state of the users of *slots*, who leave, and have these slots forget it."""

    def put_row(self, slots: Users, row: Mapping[str, Any]) -> None:
        """Let the users of *slots*, who come, have the state that another tower has taken out."""

    def drop_waiting(self, slots: Users, tower: str) -> None:
        """End the updates that users of *slots*, who come from another *tower*, wait to send."""


class _Moves(NamedTuple):
    """Moves of users at one time, in rising order of the users, with the towers that they left."""

    time_s: float
    users: Users
    sources: Ints

    def restore(self, towers: Ints, users: Users, times_s: Floats) -> None:
        """Replace those of *towers*, which *users* had afterwards, that they had not yet at *times_s*, ``[n]``."""
        places = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
        is_before = (self.users[places] == users) & (times_s < self.time_s)
        towers[is_before] = self.sources[places[is_before]]


class Membership:
    """The tower of each user, by its index in `netfl.network.layout.Layout.towers`.

    Args:
        layout: the towers, and where users start.
        env: the clock.
        visitors: users of other towers that may come to a tower, by its index.
        start: the tower of each user at the start, ``[users]``; ``None`` for the nearest.

    Attributes:
        users: number of users of the network.
        moved: number of moves so far.
    """

    def __init__(
        self, layout: Layout, env: Clock, visitors: Mapping[int, Users] | None = None, start: Ints | None = None
    ) -> None:
        self._layout = layout
        self._env = env
        self.users = layout.users
        self.moved = 0
        self._tower_now = layout.tower_at_start
        if start is not None:
            self._tower_now = start.copy()
        self._is_of_layout = start is None
        self._moves: list[_Moves] = []  # in the order of time
        self._rows: dict[int, Row] = {}

        # slots: those of the start in one array, and in an array of the tower where there are visitors
        self._candidates = [np.flatnonzero(self._tower_now == tower) for tower in range(len(layout.towers))]
        self._slot_at_start = np.zeros(layout.users, np.int64)
        for candidates in self._candidates:
            self._slot_at_start[candidates] = np.arange(len(candidates))
        self._slot_of: dict[int, Ints] = {}  # of all users, -1 for those without one
        for tower, users in (visitors or {}).items():
            self._candidates[tower] = np.union1d(self._candidates[tower], users)
            self._slot_of[tower] = np.full(layout.users, -1)
            self._slot_of[tower][self._candidates[tower]] = np.arange(len(self._candidates[tower]))

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
        for moves in reversed(self._moves):
            if moves.time_s <= earliest_s:
                break
            moves.restore(towers, users, times_s)
        return towers

    def distances_m(self, users: Users, time_s: ArrayLike) -> Floats:
        """Return the distance of each of *users* at *time_s* to the tower that it has then, ``[n]``."""
        if self._is_of_layout:
            return self._layout.distances_m(users, time_s)
        return self._layout.distances_to_m(self.tower_at(users, time_s), users, time_s)

    def candidates(self, tower: int) -> Users:
        """Return all users that may ever be at *tower*, in rising order: those of the slots of its cell, ``[size]``."""
        return self._candidates[tower]

    def slots(self, users: Users, tower: int) -> Ints:
        """Return the slots of *users*, who are candidates of *tower*, in its cell, ``[n]``."""
        if tower in self._slot_of:
            return self._slot_of[tower][users]
        return self._slot_at_start[users]

    def is_member(self, tower: int) -> Bools:
        """Return whether the candidate of each slot of *tower* is there now, ``[size]``."""
        return np.asarray(self._tower_now[self._candidates[tower]] == tower)

    def members(self, tower: int) -> Ints:
        """Return the slots whose candidates are at *tower* now, in rising order."""
        return np.flatnonzero(self.is_member(tower))

    def has_work(self, users: Users) -> Bools:
        """Return whether anything is under way of or to each of *users*, ``[n]``."""
        return self._at_towers(users, lambda row, slots: row.has_work(slots))

    def is_bound(self, users: Users) -> Bools:
        """Return whether each of *users* cannot leave its tower now, ``[n]``."""
        return self._at_towers(users, lambda row, slots: row.is_bound(slots))

    def move(self, users: ArrayLike, to: ArrayLike, *, drops: bool = False) -> None:
        """Let *users* be at towers *to* from now on, with their state.

        Args:
            users: a user, or several.
            to: the tower of all of them, or of each.
            drops: whether updates that wait to be sent end here; else they go along.

        Raises:
            ModelError: a user is no candidate of its tower, or it sends, or a version is on its way to it.
        """
        given: Users = np.atleast_1d(np.asarray(users, np.int64))
        chosen: Ints = np.broadcast_to(np.asarray(to, np.int64), given.shape)
        differs = np.flatnonzero(self._tower_now[given] != chosen)
        if not differs.size:
            return
        places = differs[np.argsort(given[differs])]
        movers = given[places]
        targets = chosen[places]
        sources = self._tower_now[movers]
        self._check_slots(movers, targets)
        self._check_unbound(movers, targets)

        rows = []
        leaving = []
        for source, places in _groups(sources):
            rows.append(self._rows[source].take_row(self.slots(movers[places], source)))
            leaving.append(places)
        row = concatenate_rows(rows)
        in_row = np.concatenate(leaving)  # the place among the movers of each user in the row
        for target, places in _groups(targets[in_row]):
            self._rows[target].put_row(self.slots(movers[in_row[places]], target), select_row(row, places))
        if self._is_of_layout:  # the array is that of the layout
            self._tower_now = self._tower_now.copy()
            self._is_of_layout = False
        self._tower_now[movers] = targets
        self.moved += len(movers)
        self._moves.append(_Moves(float(self._env.now), movers, sources))
        if drops:
            self._drop_waiting(movers, sources, targets)

    def _drop_waiting(self, users: Users, sources: Ints, targets: Ints) -> None:
        """End the updates of *users* that waited at their *sources*."""
        for source, leaving in _groups(sources):
            for target, group in _groups(targets[leaving]):
                slots = self.slots(users[leaving[group]], target)
                self._rows[target].drop_waiting(slots, self._layout.towers[source])

    def _at_towers(self, users: Users, state_of: Callable[[Row, Users], Bools]) -> Bools:
        """Return a state of *users*, which the tower of each knows of its slot, ``[n]``."""
        states = np.empty(len(users), np.bool_)
        for tower, places in _groups(self._tower_now[users]):
            states[places] = state_of(self._rows[tower], self.slots(users[places], tower))
        return states

    def _check_slots(self, users: Users, targets: Ints) -> None:
        """Check that *users* have slots at their *targets*."""
        for target, places in _groups(targets):
            strangers = users[places][~np.isin(users[places], self._candidates[target])]
            if strangers.size:
                name = self._layout.towers[target]
                raise self._error(f"it has no slot at {name}; name it among the visitors of this tower", strangers[0])

    def _check_unbound(self, users: Users, targets: Ints) -> None:
        """Check that *users* can leave."""
        bound = np.flatnonzero(self.is_bound(users))
        if bound.size:
            name = self._layout.towers[targets[bound[0]]]
            problem = f"it cannot move to {name} while it sends, or a version is on its way; move it afterwards"
            raise self._error(problem, users[bound[0]])

    def _error(self, problem: str, user: np.int64) -> ModelError:
        return ModelError("membership", problem, int(user), float(self._env.now))


def _groups(towers: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each of *towers* once, with its places among them."""
    order = np.argsort(towers, kind="stable")
    names, first = np.unique(towers[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, first[1:]), strict=False)


def concatenate_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of several towers or cells as one."""
    combined: dict[str, Any] = {}
    for name, values in rows[0].items():
        parts = [row[name] for row in rows]
        combined[name] = concatenate_rows(parts) if isinstance(values, Mapping) else np.concatenate(parts)
    return combined


def select_row(row: Mapping[str, Any], places: Ints) -> dict[str, Any]:
    """Return the part of a row at *places*."""
    selected: dict[str, Any] = {}
    for name, values in row.items():
        selected[name] = select_row(values, places) if isinstance(values, Mapping) else values[places]
    return selected
