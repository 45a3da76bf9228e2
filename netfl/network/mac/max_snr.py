"""Opportunistic access: the user with the best channel sends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.network.mac import TieBreaker
from netfl.network.mac._bases import TowerScheduler, UserScheduler
from netfl.network.radio.bench import BenchSetup, diversity_gain_law, service_turns
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, StatisticClaim

_LAW_USERS = 6


class MaxSnr(TowerScheduler):
    """The user of the backlog with the highest SNR sends; the tower measures the SNR at no cost.

    This maximises the sum rate and is unfair: distant users wait until all others are idle or faded (R. Knopp and P. A.
    Humblet, IEEE ICC 1995).  For n saturated users under independent Rayleigh fading of equal mean, the winner's power
    gain is the largest of n exponentials: P(gain ≤ x) = (1 - e^-x)^n, with mean 1 + 1/2 + …
    + 1/n and variance 1 + 1/4 + … + 1/n² (Tse and Viswanath, Fundamentals of Wireless Communication, §6.6), and
    each user wins equally often.  Ties are decided by a uniform draw.  Idle time changes nothing: the scheduler
    remembers nothing.

    Example::

        kind: max_snr
        max_attempts: 20
    """

    @property
    def observes(self) -> tuple[str, ...]:
        return ("snr_db",)

    def scheduler(self, cell: Cell) -> UserScheduler:
        return _BestSnr(cell, TieBreaker(cell))

    def laws(self) -> tuple[Law, ...]:
        n = _LAW_USERS
        model = self.model_copy(update={"poll": 0.0})

        def is_winner(streams: Streams, size: int) -> Floats:
            winners, _ = service_turns(BenchSetup(model, n, 1.0, streams), size // 4)
            return np.asarray(winners[:, None] == np.arange(n), float)

        setting = f"of n = {n} users under independent Rayleigh fading of mean 1 that always have something to send"
        shares = StatisticClaim("share of the turns", "1/n each", is_winner, [1.0 / n] * n)
        return (diversity_gain_law(model, n, 1.0, f"P(gain ≤ x) = (1 - e^-x)^n {setting}", (shares,)),)


@dataclass(slots=True)
class _BestSnr(UserScheduler):
    """Pick the user with the highest SNR."""

    cell: Cell
    ties: TieBreaker

    def pick(self, backlog: Ints) -> int:
        return self.ties.pick_largest(backlog, self.cell.snr_db(backlog))
