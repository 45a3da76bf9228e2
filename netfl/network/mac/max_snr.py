"""Opportunistic access: the one with the best channel sends."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.mac._scheduled import TowerScheduler, Users
from netfl.network.mac._test_bench import service_turns
from netfl.streams import Streams
from netfl.types import Law, StatisticClaim

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS = 6


class MaxSnr(TowerScheduler):
    """Of those that have something to send the one with the highest SNR does so; the tower measures that for nothing.

    Best for the sum rate and unfair: whoever is far away waits until all others are silent or faded (R. Knopp and P. A.
    Humblet, IEEE ICC 1995).  With n users under independent Rayleigh fading of one mean, who all have something to
    send, the winner's power gain is the largest of n exponentials: P(gain ≤ x) = (1 - e^-x)^n, with mean 1 + 1/2 + …
    + 1/n and variance 1 + 1/4 + … + 1/n² (Tse and Viswanath, Fundamentals of Wireless Communication, §6.6), and
    each wins equally often.  Among equals the lowest number wins.

    Example::

        kind: max_snr
        max_attempts: 20
    """

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """The best now."""

        def pick(backlog: Users) -> int:
            return int(backlog[cell.snr_db(backlog).argmax()])

        return self._serve(cell, pick)

    def laws(self) -> tuple[Law, ...]:
        """The winner and its gain."""
        n, still = _LAW_USERS, self.model_copy(update={"poll": 0.0})
        terms = 1.0 / np.arange(1, n + 1)
        setting = f"of n = {n} users under independent Rayleigh fading of mean 1 that always have something to send"

        def winners(streams: Streams, size: int) -> NDArray[np.float64]:
            wins, _ = service_turns(still, n, 1.0, streams, size // 4)
            return np.asarray(wins[:, None] == np.arange(n), float)

        return (
            Law(
                "power gain of the winner",
                f"P(gain ≤ x) = (1 - e^-x)^n {setting}",
                lambda streams, size: service_turns(still, n, 1.0, streams, size)[1],
                mean=float(terms.sum()),
                variance=float(np.square(terms).sum()),
                cdf=lambda x: (-np.expm1(-np.asarray(x))) ** n,
                figures=(StatisticClaim("share of the turns", "1/n each", winners, [1.0 / n] * n),),
            ),
        )
