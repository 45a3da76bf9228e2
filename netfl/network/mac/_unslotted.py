"""MACs without slots: attempts may overlap, and the process wakes up only when a user sends."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from netfl.network.mac import Bools, Floats, Ints
from netfl.network.mac._slotted import collapse_if_equal

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


class RetryState:
    """Failures and end times of the attempts of a cell's users, whose ends the MAC does not wait for.

    Attributes:
        failures: failed attempts of the current frame, ``[size]``.
        over_s: end of each user's last attempt, ``[size]``.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self.failures = np.zeros(cell.size, np.int64)
        self.over_s = np.full(cell.size, -np.inf)
        self._ready_s = np.full(cell.size, np.nan)
        self._has_sent = np.zeros(cell.size, np.bool_)
        self._results: dict[int, tuple[Bools, int]] = {}

    def send(self, users: Ints, limit: int | None, duration_s: Floats, **options: Ints) -> None:
        """Let *users* send for *duration_s* each; *options* are the channel and the mode of each."""
        self.over_s[users] = self._cell.env.now + duration_s
        self._has_sent[users] = True
        collapsed = {key: collapse_if_equal(values) for key, values in options.items()}
        end = self._cell.attempt(users, limit=limit, duration_s=collapse_if_equal(duration_s), **collapsed)
        received = np.asarray(end.value)  # filled in as the attempts end
        self._results.update((user, (received, place)) for place, user in enumerate(users.tolist()))

    def changes(self) -> Ints:
        """Return the users to plan again: with another frame, or after a failed attempt."""
        users = np.unique(self._cell.changes())
        ready_s, has_sent = self._cell.ready_s[users], self._has_sent[users]
        is_new = ready_s != self._ready_s[users]
        for place in np.flatnonzero(has_sent):
            received, index = self._results.pop(int(users[place]))
            is_new[place] |= received[index]
        self._has_sent[users] = False
        self._ready_s[users] = ready_s
        self.failures[users] = np.where(is_new, 0, self.failures[users] + has_sent)
        return np.asarray(users[is_new | has_sent])


def serve_unslotted(
    cell: Cell, retries: RetryState, plan: Callable[[Ints], Floats], send: Callable[[Ints], None]
) -> Generator[simpy.Event, Any, None]:
    """Let each user of *cell* send at its planned time, independently of the others.

    Args:
        cell: the cell.
        retries: attempts of this cell.
        plan: ``plan(users)`` returns the time of the next attempt of each; infinity for none.
        send: ``send(users)`` starts their attempts.
    """
    next_s = np.full(cell.size, np.inf)
    while True:
        users = retries.changes()
        if users.size:
            next_s[users] = plan(users)
        start_s = float(next_s.min())
        if start_s > cell.env.now:
            yield cell.wait_for_change(by_s=start_s)
        else:
            due = np.flatnonzero(next_s <= cell.env.now)
            next_s[due] = np.inf
            send(due)
