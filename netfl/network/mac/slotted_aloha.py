"""Slotted ALOHA: each user of the backlog sends in each slot with some probability."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from netfl.network.mac._slotted import Aloha
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


class SlottedAloha(Aloha):
    """Each user of the backlog sends in each slot with probability p, until its update is received.

    Two or more frames in one slot collide.  With n saturated users a slot has a success with probability
    n p (1-p)^(n-1), independently of all others (Abramson, AFIPS 1970; Roberts, ACM CCR 5(2), 1975).
    The model draws the gaps between a user's attempts, which are geometric, so idle slots cost no time.

    p is fixed (``probability``) or ``adaptive``:

    - ``known``: p = 1/n, the optimum, for a tower that knows the backlog and announces it.
    - ``pseudo_bayesian``: p = min(1, 1/v); every user estimates n by v, which becomes max(λ, v + λ - 1) after a slot
      that was idle or had a success and v + λ + 1/(e - 2) after a collision, λ = 1/e.  Stable for Poisson arrivals
      below 1/e per slot (Rivest, IEEE Trans. IT 33(3), 1987; Bertsekas and Gallager, Data Networks, 2nd ed., §4.2.3).
      A frame that fades alone looks like an idle slot.
    - ``backoff``: p = 2^-k after k failures of the current update, k at most 10: binary exponential backoff (ibid.,
      §4.2.3).  A user that is cut off starts over.

    Example::

        kind: slotted_aloha
        probability: 0.05
        max_attempts: 50
    """

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Serve *cell* on one channel."""
        return self._serve(cell, 1)

    def laws(self) -> tuple[Law, ...]:
        """Claim the throughput of a saturated cell, or under Poisson arrivals."""
        return self._laws(1, "n p (1-p)^(n-1)", " (Abramson 1970)")
