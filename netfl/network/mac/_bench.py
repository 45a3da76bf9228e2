"""One cell on a clear medium, for holding MACs to their closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from netfl.network.cell import Cell
from netfl.network.ledger import Ledger
from netfl.network.mac import Mac
from netfl.network.medium import ClearMedium
from netfl.network.message import Message
from netfl.network.updates import Updates
from netfl.streams import Streams

Again = Callable[[NDArray[np.int64], float], NDArray[np.float64]]
"""``again(users, now)``: when the next updates of users whose last have just ended are ready."""


class _Bench:
    """A cell whose users get another update when the last has been heard or given up.

    Attributes:
        heard: of every update that got through: when it was ready, began to be sent, and was heard.
    """

    def __init__(self, mac: Mac, users: int, airtime_s: float, streams: Streams, again: Again) -> None:
        self.env, self._again, self.heard = simpy.Environment(0.0), again, list[tuple[float, float, float]]()
        self._ready_s = np.zeros(users)
        ledger = Ledger(self, users, lambda: None)
        self._updates = Updates(np.arange(users), np.zeros(users), "tower:0", ledger)
        medium = ClearMedium(1.0, airtime_s)
        tower = ("tower:0", users)
        cell = Cell(self.env, tower, self._updates, medium=medium, streams=streams, ledger=ledger, uplink=self._uplink)
        cell.expect(0, 0.0)
        self.env.process(mac.serve(cell))

    def wants(self, kind: str) -> bool:
        """No steps are recorded."""
        return False

    def event(self, kind: str, time_s: ArrayLike, *, user: ArrayLike = -1, **told: Any) -> None:
        """An update failed for good."""
        self._refill(np.atleast_1d(np.asarray(user, np.int64)))

    def figures(self, values: Mapping[str, float]) -> None:
        """None."""

    def _uplink(self, message: Message) -> None:
        """An update got through."""
        self.heard.append((self._ready_s[message.user], message.sent_s, self.env.now))
        self._refill(np.array([message.user]))

    def _refill(self, users: NDArray[np.int64]) -> None:
        """The next updates of *users*."""
        self._ready_s[users] = self._again(users, self.env.now)
        self._updates.start(users, self._ready_s[users])


def successes(mac: Mac, users: int, airtime_s: float, streams: Streams, slots: int) -> NDArray[np.float64]:
    """For each slot of one airtime, 1 if an update got through in it, else 0; all users always have one to send."""
    bench = _Bench(mac, users, airtime_s, streams, lambda who, now: np.full(len(who), now))
    bench.env.run(until=(slots + 0.5) * airtime_s)
    ends = np.array([heard_s for _, _, heard_s in bench.heard])
    return np.bincount(np.rint(ends / airtime_s).astype(np.int64) - 1, minlength=slots).astype(float)


def waits(mac: Mac, users: int, airtime_s: float, streams: Streams, size: int) -> NDArray[np.float64]:
    """How long updates wait that are ready at instants independent of the frames of one airtime per user."""
    rng, frame_s = streams.rng("instants"), users * airtime_s
    bench = _Bench(mac, users, airtime_s, streams, lambda who, now: now + frame_s * rng.random(len(who)))
    while len(bench.heard) < size + users:
        bench.env.step()
    return np.array([sent_s - ready_s for ready_s, sent_s, _ in bench.heard if ready_s > 0])
