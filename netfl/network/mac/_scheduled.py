"""MACs in which the tower selects one user after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.network.mac import Ints, Mac
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


class TowerScheduler(Mac):
    """A tower that polls one user at a time: no collisions, and no idle time while there is a backlog."""

    poll: Annotated[Seconds, Field(ge=0)] = 0.0
    """Duration of one poll."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    def max_frames_hz(self, airtime_s: float, max_airtime_s: float) -> float:
        """Return the rate of consecutive polls and frames."""
        return 1.0 / (self.poll + airtime_s)

    def _serve(self, cell: Cell, pick: Callable[[Ints], int]) -> Generator[simpy.Event, Any, None]:
        """Serve the user of the backlog that *pick* selects; one that is cut off meanwhile does not answer."""
        while True:
            cell.changes()  # discard them
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.work()
                continue
            user = np.array([pick(backlog)])
            if self.poll:
                yield cell.env.timeout(self.poll)
            if cell.ready_s[user[0]] <= cell.env.now:
                yield cell.attempt(user, limit=self.max_attempts)


def next_in_turn(backlog: Ints, last: int) -> int:
    """Return the first user of the sorted *backlog* after *last*, cyclically.

    >>> [next_in_turn(np.array([1, 4, 6]), last) for last in (0, 1, 5, 6)]
    [1, 4, 6, 1]
    """
    return int(backlog[np.searchsorted(backlog, last, side="right") % len(backlog)])
