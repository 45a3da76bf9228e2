"""The ledger: what happens to every update is written here once, and from here into the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.message import TRAFFIC, Message
from netfl.network.meter import Meter
from netfl.types import Recorder


class Ledger:
    """Fates and events of one replica, and how many updates the open round may still hope for.

    Args:
        recorder: where events go.
        users: the number of users.
        exhausted: called when no update of the open round's version can come any more.
        nodes: the number of nodes that may send traffic; 0 for none.
        tells_packets: whether the fates of packets are recorded as those of updates are.

    Attributes:
        round: the open round.
        alive: updates of the open round's version that may still reach the server.
        reached: how many times a user has received a version in the open round.
        uplink_bits: bits put on the air in the open round.
        flying: updates between the air and the server, in the order in which they left the air.
        meter: counts of the packets of traffic.
    """

    def __init__(
        self,
        recorder: Recorder,
        users: int,
        exhausted: Callable[[], None],
        *,
        nodes: int = 0,
        tells_packets: bool = False,
    ) -> None:
        self._recorder, self._users, self._exhausted = recorder, users, exhausted
        self.meter = Meter(nodes)
        self._tells_packets = tells_packets
        self._packets: dict[tuple[str, str], list[tuple[float, int, float]]] = {}
        self.round = self.alive = self.reached = 0
        self.uplink_bits = 0.0
        self.flying: dict[Message, None] = {}

    def open(self, round: int) -> None:
        """Round *round* opens: every user may still answer it."""
        self.round, self.alive, self.reached, self.uplink_bits = round, self._users, 0, 0.0

    def wants(self, kind: str) -> bool:
        """Whether events of *kind* are recorded."""
        return self._recorder.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, **told: Any) -> None:
        """Record a step on the way, if such steps are recorded; *told* as in `Recorder.event`."""
        if self._recorder.wants(kind):
            self._recorder.event(kind, time_s, round=self.round, **told)

    def received(self, time_s: ArrayLike, users: ArrayLike, base: int, node: str) -> None:
        """Users have received version *base*: for each, an update begins."""
        self.reached += np.size(users)
        self.event("received", time_s, user=users, node=node, value=base)

    def end(  # noqa: PLR0913 - the columns of the table
        self, fate: str, time_s: ArrayLike, users: ArrayLike, base: ArrayLike, *, node: str = "", detail: str = ""
    ) -> None:
        """Updates end: *users*' that were trained from *base*, which is recorded as the event's value."""
        if np.size(users):
            self._recorder.event(fate, time_s, round=self.round, user=users, node=node, value=base, detail=detail)
            self.strand(base)

    def land(self, message: Message, fate: str, time_s: float, *, node: str = "") -> None:
        """A message ends."""
        if message.base == TRAFFIC:
            if fate == "delivered":
                self.meter.deliver(message.user, message.bits, message.born_s, time_s)
            else:
                self.meter.lose(message.user, fate)
            if self._tells_packets:
                told = self._packets.setdefault((fate, node), [])
                told.append((time_s, message.user, time_s - message.born_s))
            return
        del self.flying[message]
        self.end(fate, time_s, message.user, message.base, node=node)

    def offer(self, sender: int, bits: float, born_s: float) -> None:
        """A packet of traffic has come to *sender*."""
        if born_s >= self.meter.since_s:
            self.meter.offer(sender, 1, bits)

    def tell_packets(self) -> None:
        """Hand the fates of packets to the record: the value is the time from a packet's coming to its end."""
        packets, self._packets = self._packets, {}
        for (fate, node), rows in packets.items():
            times_s, senders, delays_s = zip(*rows, strict=True)
            users = np.where(np.array(senders) < self._users, senders, -1)
            self._recorder.event(fate, times_s, round=self.round, user=users, node=node, value=delays_s)

    def strand(self, base: ArrayLike) -> None:
        """Updates from these versions, one each, can come no more: they end, or their users never return."""
        lost = int(np.count_nonzero(np.asarray(base) == self.round - 1))
        self.alive -= lost
        if lost and self.alive == 0:
            self._exhausted()
