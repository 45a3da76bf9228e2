"""What the MACs have in common in which the tower says who sends next, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.mac import Mac
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

Users = NDArray[np.int64]


class TowerScheduler(Mac):
    """A tower that asks one user after the other; nothing collides, and it never idles while somebody has a frame."""

    poll: Annotated[Seconds, Field(ge=0)] = 0.0
    """Time that asking one takes."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One after the other."""
        return 1.0 / (self.poll + airtime_s)

    def _serve(self, cell: Cell, pick: Callable[[Users], int]) -> Generator[simpy.Event, Any, None]:
        """Own *cell*: of the backlog sends whom *pick* names; who is cut off does not answer, and is asked no more."""
        while True:
            cell.changes()  # none is of interest
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.work()
                continue
            user = np.array([pick(backlog)])
            if self.poll:
                yield cell.env.timeout(self.poll)
            if cell.ready_s[user[0]] <= cell.env.now:
                yield cell.attempt(user, limit=self.max_attempts)


def next_in_turn(backlog: Users, last: int) -> int:
    """The first of *backlog*, which is in order, after *last*, and around.

    >>> [next_in_turn(np.array([1, 4, 6]), last) for last in (0, 1, 5, 6)]
    [1, 4, 6, 1]
    """
    return int(backlog[np.searchsorted(backlog, last, side="right") % len(backlog)])
