"""Slotted ALOHA: who has something to send does so in each slot with a fixed probability."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._bench import successes
from netfl.network.mac._slots import Slots, serve_slots, too_short
from netfl.types import Law
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.cell import Cell


class SlottedAloha(Mac):
    """Whoever has something to send does so in each slot with probability p, until it gets through.

    Two or more in one slot collide.  With n users that always have something to send, a slot brings a success with
    probability n p (1-p)^(n-1), independently of all others (Abramson, AFIPS 1970; Roberts, ACM CCR 5(2), 1975).
    Drawn are not the slots but the gaps between a user's attempts, which are geometric: an idle stretch costs nothing.

    Example::

        kind: slotted_aloha
        probability: 0.05
        max_attempts: 50
    """

    probability: Annotated[float, Field(gt=0, le=1)]
    """p, with which a user that has something to send does so in a slot."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of one update."""

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """A slot that is too short."""
        yield from too_short(self.slot, airtime_s)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Draw for each user how many slots it lets pass before its next attempt."""
        gaps = cell.streams.field("gap")
        draws, turn = np.zeros(cell.size, np.int64), np.full(cell.size, -1)

        def choose(users: Slots, first: Slots) -> Slots:
            over = turn[users] < first  # a gap that is not over has no memory of when it began: it serves on
            again = users[over]
            turn[again] = first[over] - 1 + gaps.geometric(self.probability, cell.ids[again], draws[again])
            draws[again] += 1
            return turn[users]

        return serve_slots(cell, self.slot or cell.airtime_s, choose, self.max_attempts)

    def laws(self) -> tuple[Law, ...]:
        """The throughput of a saturated cell, with about as many users as it takes to send once a slot."""
        users = min(round(1 / self.probability), 100)
        share = users * self.probability * (1 - self.probability) ** (users - 1)
        return (
            Law(
                "successes per slot",
                f"n p (1-p)^(n-1) with n = {users} users that always have something to send (Abramson 1970)",
                lambda streams, size: successes(self, users, self.slot or 1.0, streams, size),
                mean=share,
                variance=share * (1 - share),
            ),
        )
