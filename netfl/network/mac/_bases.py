"""Bases of MACs in slots and of schedulers.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import BufferedDraws, Mac
from netfl.network.periods import after_rounding
from netfl.network.radio.cell import Cell
from netfl.types import Ints
from netfl.units import Seconds


class SlottedMac(Mac):
    """A MAC in slots, each of which holds one frame; see `netfl.network.radio.cell.SlottedCell`."""

    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of the largest frame in the slowest mode."""

    def airtime_faults(self, airtime_s: float) -> Iterator[Fault]:
        if self.slot is not None and self.slot < airtime_s:
            problem = f"an update takes {airtime_s:.6g} s on the air"
            yield Fault("slot", problem, self.slot, "make it longer, or leave it out")


class TowerScheduler(Mac):
    """A tower that polls one user at a time: no collisions, and no idle time while there is a backlog."""

    poll: Annotated[Seconds, Field(ge=0)] = 0.0
    """Duration of one poll."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    @abstractmethod
    def picker(self, cell: Cell) -> Callable[[Ints], int]:
        """Return the function that selects the user that sends next from the numbers of the backlog."""

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Serve the users that the picker selects; one that is cut off during its poll does not answer."""
        pick = self.picker(cell)
        while True:
            cell.changes()  # discard them
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.wait_for_backlog()
                continue
            user = np.array([pick(backlog)])
            if self.poll:
                yield cell.env.timeout(self.poll)
            if cell.ready_s[user[0]] <= after_rounding(cell.env.now):
                yield cell.attempt(user, limit=self.max_attempts)


def next_in_turn(backlog: Ints, last: int) -> int:
    """Return the first user of the sorted *backlog* after *last*, cyclically.

    >>> [next_in_turn(np.array([1, 4, 6]), last) for last in (0, 1, 5, 6)]
    [1, 4, 6, 1]
    """
    return int(backlog[np.searchsorted(backlog, last, side="right") % len(backlog)])


def channel_picker(cell: Cell, channels: int) -> Callable[[Ints], Ints]:
    """Return the function that draws the channel of each user's next attempt."""
    uniforms = BufferedDraws(cell.streams.field("channel").uniform, cell.ids)
    return lambda users: (channels * uniforms.next(users)).astype(np.int64)
