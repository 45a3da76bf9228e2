'''The MAC family: how the users of one cell share its medium.

A MAC is one SimPy process per cell, written as a generator over a `netfl.network.cell.Cell`: wait until somebody has
something to send, decide who sends, let them, and begin again.  It holds its state in local variables, as arrays over
the cell's users, who are numbered 0 … ``cell.size - 1``.  What it may use of the cell:

- ``cell.ready_s``: from when on each user has an update to send; infinity if none.  The future is in it, too.
- ``cell.backlog()``: who has one now.  ``yield cell.work()``: wait until somebody has.
- ``heard = yield cell.attempt(users)``: these users send, all at once; it takes ``cell.airtime_s`` (or the
  ``duration_s`` that you give), and gives back whose update was received.  ``limit`` is how many attempts an
  update has.  Whoever was not received stays in the backlog; whoever is cut off leaves it until it is back.
- ``cell.changes()`` and ``yield cell.change(by_s)``, for a MAC that plans ahead from ``ready_s`` and wants to be
  woken only for what it has planned or when its plan no longer holds.
- ``cell.streams``: where to draw from; ``cell.env``: the clock; ``cell.ids``: the users' numbers in the whole network.

A complete MAC, which asks the users of the backlog in turn::

    class Polling(Mac):
        """A tower that polls whoever has something to send, in turn.

        Example::

            kind: mylab.polling:Polling
            poll: 1 ms
        """

        poll: Annotated[Seconds, Field(ge=0)] = 0.001
        """Time that one poll takes."""

        def serve(self, cell):
            turn = 0
            while True:
                yield cell.work()
                backlog = cell.backlog()
                turn = min(backlog, key=lambda user: (user - turn - 1) % cell.size)
                yield cell.env.timeout(self.poll)
                yield cell.attempt(np.array([turn]))

        def laws(self):
            return (Law.none("draws nothing"),)
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import simpy

from netfl.errors import Fault
from netfl.registry import Spec

if TYPE_CHECKING:
    from netfl.network.cell import Cell


class Mac(Spec):
    """The contract of a MAC."""

    @abstractmethod
    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Own the medium of *cell* for the whole run."""

    @property
    def rate_bps(self) -> float | None:
        """The bit rate of what it sends, where the MAC says that itself; ``None``: the reception says it."""
        return None

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """What is wrong with this MAC where one update is *airtime_s* on the air; keys relative to this model."""
        yield from ()
