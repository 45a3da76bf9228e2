'''The MAC family: how the users of one cell share its medium.

A MAC is one SimPy process per cell, written as a generator over a `netfl.network.radio.cell.Cell`: wait until
somebody has
something to send, decide who sends, let them, and begin again.  It holds its state in local variables, as arrays over
the cell's users, who are numbered 0 … ``cell.size - 1``.  What it may use of the cell:

- ``cell.ready_s``: from when on each user has a frame to send, an update or a packet; infinity if none.  The future is
  in it, too.
- ``cell.backlog()``: who has one now and is not sending.  ``yield cell.work()``: wait until somebody has.
- ``heard = yield cell.attempt(users)``: these users send, all at once; at the end of it comes whose frame was received.
  It takes each frame's airtime, or the ``duration_s`` that you give; ``limit`` is how many attempts a frame has,
  ``channel`` and ``mode`` (of the reception) are one for all or one for each.  A MAC with slots gives ``begin_s``, the
  exact start of the slot, so that slots in a row do not add up their rounding.  Whoever was not received stays in the
  backlog; whoever is cut off leaves it until it is back.
- Attempts may overlap: a MAC need not wait for the end of one before it begins the next.  Whatever is on one channel at
  the same time meets, and the medium says what becomes of it: all collide, the strongest is captured, or each is held
  against its SINR.
- ``cell.changes()``: whose ``ready_s`` is new, or whose attempt has failed, since you last asked; ``yield
  cell.wait_for_change(by_s)``: wait for that, or until *by_s*: for a MAC that plans ahead from ``ready_s`` and wants to
  be woken only for what it has planned or when its plan no longer holds.
- What a scheduler measures of users now: ``cell.snr_db(users)``, ``cell.modes(users)`` (those that they would send in),
  ``cell.airtimes_s(users)`` (how long their next frames would take), ``cell.sizes(users)`` (in bits; one figure where
  all are alike) and ``cell.connected(users)``.
- What the network tells of users as each round opens, what `Mac.heeds` names: ``cell.user_metrics``, an array by name
  (``norm``, ``loss``, ``age``) over the cell's users, NaN where it is not known; empty before it tells anything.
- What it says of itself, beside its keys: `Mac.rate_bps`, where it knows the bit rate; `Mac.most_bits`, what one of its
  frames can hold (larger updates are then sent in packets); `Mac.senses`, whether its users listen before they send.
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

import math
from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import simpy

from netfl.errors import Fault
from netfl.registry import Spec
from netfl.types import QUESTIONS

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


class Mac(Spec):
    """The contract of a MAC."""

    @abstractmethod
    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Own the medium of *cell* for the whole run."""

    @property
    def rate_bps(self) -> float | None:
        """The bit rate of what it sends, where the MAC says that itself; ``None``: the reception says it."""
        return None

    @property
    def most_bits(self) -> float | None:
        """The largest payload of one frame, where there is a limit: a larger update is sent in packets."""
        return None

    @property
    def bandwidth_hz(self) -> float | None:
        """The bandwidth that its airtimes are of, where the MAC says that itself: the radio must agree."""
        return None

    @property
    def senses(self) -> bool:
        """Whether its users listen before they send: they hear those of their own cell, and no others."""
        return False

    @property
    def heeds(self) -> frozenset[str]:
        """The figures of users that it goes by: of `netfl.types.QUESTIONS`, which closes the loop, and ``age``."""
        return frozenset()

    @property
    def asking(self) -> bool:
        """Whether it asks the learners."""
        return bool(self.heeds & {*QUESTIONS})

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """A bound on the frames of a cell that leave it each second, received one at a time or given up.

        Args:
            airtime_s: how long they are on the air in the mean, at the least.
            longest_s: how long the longest frame is that there is.
        """
        return math.inf

    def longest_s(self, bits: float, slowest_bps: float) -> float:
        """Return how long a frame is on the air at the most, in s.

        Args:
            bits: its payload.
            slowest_bps: the bit rate of the slowest mode of the reception, for a MAC that does not set the rate itself.
        """
        return bits / (self.rate_bps or slowest_bps)

    def warnings(self, fastest_s: float, slowest_s: float) -> Iterator[str]:
        """Return what is allowed but rarely wanted.

        Args:
            fastest_s: how long the largest frame is on the air in the fastest mode of the reception.
            slowest_s: the same in the slowest mode.
        """
        yield from ()

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """What is wrong with this MAC where one update is *airtime_s* on the air; keys relative to this model."""
        yield from ()
