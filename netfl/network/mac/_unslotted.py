"""What the MACs without slots share: attempts that may overlap, and a loop that wakes up when somebody sends."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.mac._slotted import collapse_if_equal

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

Users = NDArray[np.int64]


class RetryState:
    """What has become of the attempts of a cell's users, which nobody waits for.

    Args:
        cell: the cell.

    Attributes:
        failures: those of the frame at hand that have failed, ``[size]``.
        over_s: when each user's last attempt is over, ``[size]``.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self.failures = np.zeros(cell.size, np.int64)
        self.over_s = np.full(cell.size, -np.inf)
        self._ready_s = np.full(cell.size, np.nan)
        self._sent = np.zeros(cell.size, np.bool_)
        self._heard: dict[int, tuple[NDArray[np.bool_], int]] = {}

    def send(self, users: Users, limit: int | None, duration_s: NDArray[np.float64], **how: NDArray[np.int64]) -> None:
        """Let *users* send, for *duration_s* each."""
        self.over_s[users] = self._cell.env.now + duration_s
        self._sent[users] = True
        one = {key: collapse_if_equal(each) for key, each in how.items()}
        heard = self._cell.attempt(users, limit=limit, duration_s=collapse_if_equal(duration_s), **one)
        told = np.asarray(heard.value)  # filled in as the attempts end
        self._heard.update((user, (told, place)) for place, user in enumerate(users.tolist()))

    def changes(self) -> Users:
        """The users who have a frame to plan anew, as it is another one or its last attempt has failed."""
        users = np.unique(self._cell.changes())
        ready_s, sent = self._cell.ready_s[users], self._sent[users]
        other = ready_s != self._ready_s[users]
        for place in np.flatnonzero(sent):
            heard, which = self._heard.pop(int(users[place]))
            other[place] |= heard[which]
        self._sent[users] = False
        self._ready_s[users] = ready_s
        self.failures[users] = np.where(other, 0, self.failures[users] + sent)
        return np.asarray(users[other | sent])


def serve_free(
    cell: Cell, tries: RetryState, plan: Callable[[Users], NDArray[np.float64]], send: Callable[[Users], None]
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: everybody sends when its time has come, whatever the others do.

    Args:
        cell: the cell.
        tries: that of the cell.
        plan: ``plan(users)`` gives when each user sends next; infinity for never.
        send: ``send(users)`` lets them.
    """
    next_s = np.full(cell.size, np.inf)
    while True:
        users = tries.changes()
        if users.size:
            next_s[users] = plan(users)
        at_s = float(next_s.min())
        if at_s > cell.env.now:
            yield cell.wait_for_change(by_s=at_s)
        else:
            due = np.flatnonzero(next_s <= cell.env.now)
            next_s[due] = np.inf
            send(due)
