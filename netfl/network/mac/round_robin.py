"""Round robin: the users of the backlog send in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netfl.network.mac._bases import TowerScheduler, UserScheduler, next_in_turn
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_LAW_USERS = 5


class RoundRobin(TowerScheduler):
    """The users of the backlog send in turn, in the order of their numbers; the others are skipped.

    Each of n saturated users sends every n (poll + T) for frames of T, at equal distances.  With ``poll: 0`` the tower
    is never idle while there is a backlog, and the mean wait in a cell is that
    of a single queue: T ρ / (2 (1 - ρ)) for Poisson arrivals that keep it busy for a share ρ of the time (conservation:
    L. Kleinrock, Queueing Systems II, 1976, §3.4).

    Idle time changes nothing: the turn continues after the user that was served last.

    Example::

        kind: round_robin
        poll: 1 ms
        max_attempts: 20
    """

    has_fixed_order: ClassVar[bool] = True

    def scheduler(self, cell: Cell) -> UserScheduler:
        return _InTurn()

    def laws(self) -> tuple[Law, ...]:
        airtime_s = self.poll or 1.0
        gap_s = _LAW_USERS * (self.poll + airtime_s)

        def gaps(streams: Streams, size: int) -> Floats:
            bench = MacTestBench(BenchSetup(self, _LAW_USERS, airtime_s, streams), saturated_users)
            while len(bench.deliveries) < size + _LAW_USERS:
                bench.env.step()
            ends_s = np.array([received_s for _, _, received_s in bench.deliveries])
            return np.asarray(np.round((ends_s[_LAW_USERS:] - ends_s[:-_LAW_USERS]) / gap_s, 9) * gap_s)

        statement = f"n (poll + T), n = {_LAW_USERS} users that always have something to send, T = {airtime_s:g} s"
        return (Law("time from turn to turn, s", statement, gaps, mean=gap_s, variance=0.0),)


@dataclass(slots=True)
class _InTurn(UserScheduler):
    """Pick the next user after the last one, cyclically."""

    last: int = -1

    def pick(self, backlog: Ints) -> int:
        self.last = next_in_turn(backlog, self.last)
        return self.last
