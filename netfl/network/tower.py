"""Downlink side of a tower: it passes the versions that reach it on to the users of its cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.network.clock import call_after
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.tx_queue import Users
from netfl.network.users import UserPopulation

_NOT_SELECTED = np.iinfo(np.int64).max
"""Version of users who are to receive none."""


class Tower:
    """The versions that a tower has for its users, or will have.

    Args:
        cell: Cell of the tower.
        population: Its users; ``None`` where they send traffic only.
        medium: Medium, which decides who receives a version.
        isolated_cells: Cells of single users that have a medium of their own.

    Attributes:
        name: Name of the tower.
        cells: All its cells.
        copies: Number of copies of each version that are on their way to users.
    """

    def __init__(
        self, cell: Cell, population: UserPopulation | None, medium: Medium, isolated_cells: Sequence[Cell] = ()
    ) -> None:
        self.cell, self.name, self._population, self._medium = cell, cell.tower.name, population, medium
        self.cells = (*isolated_cells, cell)
        self._number_of = {int(user): number for number, user in enumerate(cell.ids)} if isolated_cells else {}
        self.copies: Counter[int] = Counter()
        self._newest, self._newest_s = np.full(cell.size, -1), np.zeros(cell.size)
        self._connected_s = np.full(cell.size, -np.inf)  # the end of the outage that is known of each user

    def schedule_broadcast(self, version: int, at_s: float, users: Users | None = None) -> None:
        """Send *version* to *users*, by default all, at *at_s*; older ones that would come no sooner are skipped."""
        receivers = np.arange(self.cell.size) if users is None else users
        self._newest[receivers], self._newest_s[receivers] = version, at_s
        self.copies[version] += 1
        call_after(self.cell.env, at_s - self.cell.env.now, lambda _: self._broadcast(version, receivers))

    def announce(self, version: int, users: Users) -> None:
        """Note that a copy of *version* sets out for *users*; `deliver` or `drop` follows."""
        self._newest[users] = version
        self.copies[version] += 1

    def deliver(self, version: int, users: Users) -> None:
        """Let *users* receive *version* now, except those who are not selected or have a newer one."""
        if self._population is not None:
            users = users[(self._population.version[users] <= version) & (self._newest[users] < _NOT_SELECTED)]
            now_s = self.cell.env.now
            self._population.receive_version(version, users, np.full(len(users), now_s), now_s)
            self.wake(users)

    def drop(self, version: int, users: Users) -> None:
        """End a copy of *version*, which *users* do not receive."""
        self._end_copy(version)
        if self._population is not None:
            users = users[self._newest[users] < _NOT_SELECTED]
            self._population.miss_version(version, users, self.cell.env.now)
            self.wake(users)

    def dismiss(self, users: Users) -> None:
        """Let *users*, who are not selected, abandon their updates."""
        if self._population is not None:
            self._newest_s[users] = 0.0
            self._newest[users] = _NOT_SELECTED
            self._population.dismiss(users, self.cell.env.now)
            self.wake(users)

    def wake(self, users: Users) -> None:
        """Report changed frames of *users* to their MACs."""
        self.cell.wake(users)
        for cell in self.cells[:-1]:
            if self._number_of[int(cell.ids[0])] in users:
                cell.wake(np.zeros(1, np.int64))

    def versions(self) -> set[int]:
        """Return the versions that its users have, or will have."""
        versions: set[int] = set() if self._population is None else self._population.versions()
        return versions | set(self.copies)

    def idle_users(self) -> Users:
        """Return the users without an open update."""
        return np.arange(0) if self._population is None else np.flatnonzero(~self._population.queue.is_open)

    def record_trainings(self) -> None:
        """Record the trainings that have ended by now."""
        if self._population is not None:
            self._population.record_trainings(self.cell.env.now)

    def finish(self) -> None:
        """End all frames of its cells at the end of the run."""
        self.cell.finish([transmission for cell in self.cells[:-1] for transmission in cell.transmissions])

    def _end_copy(self, version: int) -> None:
        self.copies[version] -= 1
        if not self.copies[version]:
            del self.copies[version]

    def _broadcast(self, version: int, users: Users) -> None:
        """Send a version to *users*, except those whom a newer one has reached."""
        now_s = self.cell.env.now
        self._end_copy(version)
        users = users[(self._newest[users] <= version) | (self._newest_s[users] > now_s)]
        if self._population is None or not users.size:
            return
        self._population.receive_version(version, users, self._due_s(users, now_s), now_s)
        self.wake(users)

    def _due_s(self, users: Users, now_s: float) -> NDArray[np.float64]:
        """Return when each of *users* receives what the tower sends now."""
        ids, tower, due_s = self.cell.ids[users], self.cell.tower.number, np.maximum(self._connected_s[users], now_s)
        unknown = np.flatnonzero(due_s == now_s)
        away = unknown[~self._medium.connected(ids[unknown], tower, now_s)]
        if away.size:
            due_s[away] = self._medium.connected_from(ids[away], tower, now_s)
            if self._medium.usage_independent:
                self._connected_s[users[away]] = due_s[away]
        return np.asarray(due_s)
