"""Slotted ALOHA: who has something to send does so in each slot with some probability."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from netfl.network.mac._slotted import Aloha
from netfl.network.mac._test_bench import carried_load_law, slot_successes
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS, _LAW_LOAD = 50, 0.3


class SlottedAloha(Aloha):
    """Whoever has something to send does so in each slot with probability p, until it gets through.

    Two or more in one slot collide.  With n users that always have something to send, a slot brings a success with
    probability n p (1-p)^(n-1), independently of all others (Abramson, AFIPS 1970; Roberts, ACM CCR 5(2), 1975).
    Drawn are not the slots but the gaps between a user's attempts, which are geometric: an idle stretch costs nothing.

    p is fixed (``probability``) or ``adaptive``:

    - ``known``: p = 1/n, the best there is, of a tower that knows how many have something to send and tells them.
    - ``pseudo_bayesian``: p = min(1, 1/v); everybody estimates n by v, which becomes max(λ, v + λ - 1) after a slot
      that was idle or brought a success and v + λ + 1/(e - 2) after a collision, λ = 1/e.  Stable for Poisson arrivals
      below 1/e in a slot (Rivest, IEEE Trans. IT 33(3), 1987; Bertsekas and Gallager, Data Networks, 2nd ed., §4.2.3).
      An attempt that fades alone is too faint to be told from an idle slot.
    - ``backoff``: p = 2^-k after k failures of the update at hand, 10 at most: binary exponential (the same, §4.2.3).
      Whoever is cut off begins afresh.

    Example::

        kind: slotted_aloha
        probability: 0.05
        max_attempts: 50
    """

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """All on one channel."""
        return self._serve(cell, 1)

    def laws(self) -> tuple[Law, ...]:
        """The throughput of a saturated cell, or under Poisson arrivals."""
        if self.adaptive == "backoff":
            return (Law.none("how often k failures come in a row has no closed form, and grows without bounds with n"),)
        if self.adaptive == "pseudo_bayesian":
            return (carried_load_law(self, self.slot or 1.0, _LAW_USERS, _LAW_LOAD),)
        users = _LAW_USERS if self.probability is None else min(round(1 / self.probability), 100)
        p = 1.0 / users if self.probability is None else self.probability
        share = users * p * (1 - p) ** (users - 1)
        return (
            Law(
                "successes per slot",
                f"n p (1-p)^(n-1) with n = {users} users that always have something to send (Abramson 1970)",
                lambda streams, size: slot_successes(self, users, self.slot or 1.0, streams, size),
                mean=share,
                variance=share * (1 - share),
            ),
        )
