"""The store of what devices keep between their updates: rows of numbers, by name, lane and user.

Three holders stand on it: rules of aggregation with a row for each user, such as `netfl.learning.aggregation.mifa`; the
error feedback of codecs (`netfl.learning.update_coding`); and rules of devices (`netfl.learning.device_rules`).

The rows of one name in one lane are a `UserRows`, which the store lends to its holder.  The holder reads and writes
them in place: nothing is copied out and back.  The store knows their size, and has them in the checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netfl.types import SERVER

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from netfl.learning.cohort import Cohort

CODEC_ERRORS = "codec.errors"
"""Name of the rows of error feedback."""
_OF_AGGREGATION = "aggregation."
"""Prefix of the names of rows in the state of an aggregation."""
_GROWTH = 1.5
"""Factor by which a table grows: each row is copied about twice, and a third of the table is empty at most."""


class UserPlaces:
    """The place of each user in tables, counted from 1 in the order in which users get one; 0 for a user without one.

    Args:
        users: number of users.
    """

    def __init__(self, users: int) -> None:
        self.users = users
        self.end = 1
        """One after the last place."""
        self._places = np.zeros(users, np.int64)
        self._on_device: Tensor | None = None
        self._changed_users: list[int] = []  # since the places were copied to the device
        self._last_users: Tensor | None = None
        self._last_places: Tensor | None = None

    @classmethod
    def of_all(cls, users: int) -> UserPlaces:
        """Return places for all users, in their order."""
        places = cls(users)
        places._places += np.arange(1, users + 1)
        places.end = users + 1
        return places

    def add(self, user: int) -> int:
        """Return the place of *user*, which gets one if it has none."""
        place = self._places.item(user)
        if place:
            return place
        place = self.end
        self._places[user] = place
        self.end += 1
        self._last_users = None  # places that are remembered may be out of date
        if self._on_device is not None:
            self._changed_users.append(user)
        return place

    def of_user(self, user: int) -> int:
        """Return the place of *user*."""
        return self._places.item(user)

    def of(self, users: Tensor) -> Tensor:
        """Return the places of *users*, ``[k]``, on their device.

        They are remembered for this tensor, which may not be written into: all lanes of a replica ask for the same.
        """
        if users is not self._last_users or self._last_places is None:
            self._last_places = self._copied(users.device)[users]
            self._last_users = users
        return self._last_places

    def in_order(self) -> Tensor:
        """Return the users that have a place, in the order of their places."""
        from netfl.learning.tensors import tensor

        users = np.flatnonzero(self._places)
        return tensor(users[np.argsort(self._places[users])])

    def clear(self) -> None:
        """Take all places back."""
        self.end = 1
        self._places[:] = 0
        self._on_device = None
        self._changed_users.clear()
        self._last_users = None

    def _copied(self, device: torch.device) -> Tensor:
        """Return the places of all users on *device*."""
        from netfl.learning.tensors import upload

        if self._on_device is None:
            self._on_device = upload(self._places, device)  # a CPU shares the memory
        elif self._changed_users:
            changed = np.array(self._changed_users)
            self._on_device[upload(changed, device)] = upload(self._places[changed], device)
            self._changed_users.clear()
        return self._on_device


class UserRows:
    """A row of numbers for each user of a lane, 0 at the start; a user without a place takes no memory.

    ``rows.table[rows.places.of_user(user)]`` is a view of the row of a user: write into it where the user has a place.
    Users without a place share row 0, which stays 0, and must not be written into.

    Args:
        like: of the type, on the device and of the length of a row, ``[…, size]``.
        places: of the users, which other tables may share.
    """

    def __init__(self, like: Tensor, places: UserPlaces) -> None:
        self.places = places
        self._table = like.new_zeros(0, like.shape[-1])
        self._capacity = 0

    @property
    def table(self) -> Tensor:
        """The row of each place, ``[at least places.end, size]``; another tensor once users have got a place."""
        if self._capacity < self.places.end:
            self._grow()
        return self._table

    @property
    def is_empty(self) -> bool:
        """True if no row has been read or written."""
        return self._capacity == 0

    def __len__(self) -> int:
        """Return the number of users, with a place or without."""
        return self.places.users

    def __getitem__(self, users: Tensor) -> Tensor:
        """Return a copy of the rows of *users*, ``[k, size]``."""
        return self.table[self.places.of(users)]

    def state(self) -> dict[str, Tensor]:
        """Return users and rows for `restore`.  The rows are not a copy."""
        return {"users": self.places.in_order(), "rows": self.table[1 : self.places.end]}

    def restore(self, users: Tensor, rows: Tensor) -> None:
        """Set the *rows* of *users*, ``[k, size]``, which get places."""
        from netfl.learning.tensors import upload

        device = self._table.device
        places = np.array([self.places.add(user) for user in users.tolist()], np.int64)
        self.table[upload(places, device)] = rows.to(device)

    def clear(self) -> None:
        """Drop all rows and places."""
        self.places.clear()
        self._table = self._table.new_zeros(0, self._table.shape[1])
        self._capacity = 0

    def _grow(self) -> None:
        """Make a table that has a row for each place."""
        capacity = max(self.places.end, int(_GROWTH * self._capacity))
        self._capacity = min(capacity, self.places.users + 1)
        grown = self._table.new_empty(self._capacity, self._table.shape[1])
        grown[: len(self._table)] = self._table
        grown[len(self._table) :] = 0.0
        self._table = grown


class DeviceStore:
    """The rows that the devices of all lanes keep.

    The rows of aggregations share the places of a replica, which `add` gives to the users that deliver: a GPU reads the
    rows of users without a question to the host.  Other rows have places of their own, which their holder gives.

    Args:
        users: number of users.
        replicas: their number; lanes lie learner by learner, and within a learner replica by replica.
    """

    def __init__(self, users: int, replicas: int) -> None:
        self.users = users
        self._places = [UserPlaces(users) for _ in range(replicas)]
        self._rows: defaultdict[int, dict[str, UserRows]] = defaultdict(dict)  # by lane and name
        self._has_aggregations = False

    def rows(self, name: str, lane: int, like: Tensor) -> UserRows:
        """Return the rows of *name* in *lane*; if there are none yet, new ones in the form of *like*."""
        rows = self._rows[lane].get(name)
        if rows is None:
            rows = UserRows(like, UserPlaces(self.users))
            self._rows[lane][name] = rows
        return rows

    def named(self, prefix: str, lane: int) -> dict[str, UserRows]:
        """Return the rows in *lane* whose names begin with *prefix*, by the rest of their names."""
        of_lane = self._rows.get(lane, {})
        return {name.removeprefix(prefix): rows for name, rows in of_lane.items() if name.startswith(prefix)}

    def adopt(self, lane: int, state: Mapping[str, Any], node: int = SERVER) -> None:
        """Hold the `UserRows` in the first *state* of an aggregation at a node, with what a checkpoint has of them.

        They get the places of the replica, unless the rule has written rows already.
        """
        prefix = _OF_AGGREGATION if node == SERVER else f"{_OF_AGGREGATION}{node}."
        for name, rows in state.items():
            if not isinstance(rows, UserRows):
                continue
            if rows.is_empty:
                rows.places = self._places[lane % len(self._places)]
            restored = self._rows[lane].get(prefix + name)
            if restored is not None:
                rows.restore(**restored.state())
            self._rows[lane][prefix + name] = rows
            self._has_aggregations = True

    def add(self, cohort: Cohort) -> None:
        """Give the users of *cohort* a place in the tables of aggregations."""
        if self._has_aggregations:
            for replica, user in zip(cohort.replicas.tolist(), cohort.users.tolist(), strict=True):
                self._places[replica].add(user)

    def state(self) -> dict[int, dict[str, dict[str, Tensor]]]:
        """Return the state for `restore`: users and rows, by lane and name."""
        state = {}
        for lane, of_lane in self._rows.items():
            state[lane] = {name: rows.state() for name, rows in of_lane.items()}
        return state

    def restore(self, state: Mapping[int, Mapping[Any, Any]], device: torch.device) -> None:
        """Restore a `state`, or one of before the store: the errors of a codec by lane and user."""
        for of_lane in self._rows.values():
            for rows in of_lane.values():
                rows.clear()
        for lane, saved in state.items():
            for name, kept in _by_name(saved).items():
                rows_on_device = kept["rows"].to(device)
                self.rows(name, lane, rows_on_device).restore(kept["users"], rows_on_device)


def rows_in_memory(users: int, deliveries: float) -> int:
    """Return for how many users a table has memory at most, after so many *deliveries*."""
    return int(min(users, _GROWTH * deliveries))


def _by_name(saved: Mapping[Any, Any]) -> Mapping[str, Mapping[str, Tensor]]:
    """Return what a checkpoint has of a lane, by name."""
    if all(isinstance(key, str) for key in saved):
        return saved
    import torch

    return {CODEC_ERRORS: {"users": torch.tensor([*saved]), "rows": torch.stack([*saved.values()])}}
