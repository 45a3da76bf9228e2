"""The ledger: what happens to every update is written here once, and from here into the record."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import ModelError
from netfl.network.counters import PacketCounter
from netfl.network.message import TRAFFIC, BroadcastMessage, Message
from netfl.network.outstanding_updates import OutstandingUpdates
from netfl.network.transport.transfer import Segment
from netfl.types import Recorder

Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


class EventLog:
    """Fates and events of one replica, and how many updates the open round may still hope for.

    Args:
        recorder: where events go.
        users: the number of users.
        exhausted: called when no update of the open round's version can come any more.
        nodes: the number of nodes that may send traffic; 0 for none.
        patience: failed attempts of updates in one round without a delivery after which the run ends.
        tells_packets: whether the fates of packets are recorded as those of updates are.

    Attributes:
        round: the open round.
        hopes: of whom something that counts may still come.
        reached: how many times a user has received a version in the open round.
        uplink_bits: bits put on the air in the open round.
        downlink_bits: bits of the broadcasts of the open round.
        vain: attempts that have failed in the open round since anybody was heard.
        bases: how many updates that have no fate yet start from each version.
        ended: called with users whose updates have ended, before nobody may be left to hope for; who sends them
            something new puts new hope into them.
        flying: updates between the air and the server, in the order in which they left the air.
        meter: counts of the packets of traffic.
        figures: what those who send updates have counted, for the end of the run.
    """

    def __init__(
        self,
        recorder: Recorder,
        users: int,
        exhausted: Callable[[], None],
        *,
        nodes: int = 0,
        tells_packets: bool = False,
        patience: float = np.inf,
    ) -> None:
        self._recorder, self._users, self._exhausted, self._patience = recorder, users, exhausted, patience
        self.meter = PacketCounter(nodes)
        self._tells_packets = tells_packets
        self._packets: dict[tuple[str, str], array[float]] = {}
        self.round = self.reached = 0
        self.hopes = OutstandingUpdates(users)
        self.uplink_bits = self.downlink_bits = 0.0
        self.vain = 0
        self.bases: Counter[int] = Counter()
        self.ended: Callable[[Numbers], None] | None = None
        self.figures: dict[str, float] = {}
        self.flying: dict[Message, None] = {}

    def open(self, round: int) -> None:
        """Round *round* opens."""
        self.round, self.reached, self.vain = round, 0, 0
        self.uplink_bits = self.downlink_bits = 0.0

    def wants(self, kind: str) -> bool:
        """Whether events of *kind* are recorded."""
        return self._recorder.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, **told: Any) -> None:
        """Record a step on the way, if such steps are recorded; *told* as in `Recorder.event`."""
        if self._recorder.wants(kind):
            self._recorder.event(kind, time_s, round=self.round, **told)

    def received(self, time_s: ArrayLike, users: ArrayLike, version: ArrayLike, node: str) -> None:
        """Users have received *version*, one for all or one for each."""
        self.reached += np.size(users)
        self.event("received", time_s, user=users, node=node, value=version)

    def begin(self, base: Numbers) -> None:
        """Updates begin, one from each *base*."""
        self._count(base, len(base), 1)

    def end(
        self,
        fate: str,
        time_s: ArrayLike,
        users: ArrayLike,
        base: ArrayLike,
        *,
        node: str = "",
        detail: str = "",
        hoped: bool = True,
    ) -> None:
        """Updates end: *users*' that were trained from *base*, which is recorded as the event's value.

        They are `strand`-ed with that, unless they had not been *hoped* for any more.
        """
        if np.size(users):
            self.vain = 0 if fate == "delivered" else self.vain
            self._recorder.event(fate, time_s, round=self.round, user=users, node=node, value=base, detail=detail)
            who = np.atleast_1d(users)
            self._count(base, len(who), -1)
            last = hoped and self.hopes.lose(who, base)
            if self.ended is not None:
                self.ended(who)
            if last and not self.hopes.count:
                self._exhausted()

    def fail(self, count: int, now_s: float) -> None:
        """*count* attempts have failed that will be followed by others.

        Raises:
            ModelError: too many in one round without a delivery: it would go on for ever.
        """
        self.vain += count
        if self.vain > self._patience:
            problem = (
                f"round {self.round}: {self.vain} attempts in a row have failed and nobody was heard; users may "
                "collide for ever (mac), or be cut off before an update is through (outages, a battery that does not "
                "pay for one); a deadline would close such rounds"
            )
            raise ModelError("network", problem, time_s=now_s)

    def land(self, message: Message, fate: str, time_s: float, *, node: str = "") -> None:
        """A message ends."""
        if message.base == TRAFFIC:
            if fate == "delivered":
                self.meter.deliver(message.user, message.bits, message.born_s, time_s)
            elif time_s >= self.meter.since_s:
                self.meter.lose(message.user, fate)
            if self._tells_packets:
                told = self._packets.setdefault((fate, node), array("d"))
                told.extend((time_s, message.user, time_s - message.born_s))
            return
        if isinstance(message, BroadcastMessage):
            message.lost()
            return
        if isinstance(message, Segment):
            message.transfer.land(message.part, fate, time_s, node)
            return
        del self.flying[message]
        self.end(fate, time_s, message.user, message.base, node=node)

    def offer(self, sender: int, bits: float, born_s: float) -> None:
        """A packet of traffic has come to *sender*, who is one from then on, be it counted or not."""
        if born_s >= self.meter.since_s:
            self.meter.offer(sender, 1, bits)
        else:
            self.meter.offer(sender, 0, 0.0)

    def offer_all(self, senders: Numbers, bits: Figures) -> None:
        """Packets of traffic have come, in the order of time, all of them to one sender."""
        if senders.size:
            self.meter.offer(int(senders[0]), len(senders), float(bits.sum()))

    def land_all(
        self, fate: str, times_s: Figures, senders: Numbers, bits: Figures, born_s: Figures, *, node: str
    ) -> None:
        """Packets of traffic end, in the order of time."""
        if not senders.size:
            return
        if fate == "delivered":
            self.meter.deliver_all(senders, bits, born_s, times_s)
        else:
            for sender, count in zip(*np.unique(senders, return_counts=True), strict=True):
                self.meter.lose(int(sender), fate, int(count))
        if self._tells_packets:
            told = self._packets.setdefault((fate, node), array("d"))
            told.frombytes(np.column_stack([times_s, senders, times_s - born_s]).tobytes())

    def tell_packets(self) -> None:
        """Hand the fates of packets to the record: the value is the time from a packet's coming to its end."""
        packets, self._packets = self._packets, {}
        for (fate, node), rows in sorted(packets.items()):
            times_s, senders, delays_s = np.frombuffer(rows).reshape(-1, 3).T
            users = np.where(senders < self._users, senders, -1).astype(np.int64)
            self._recorder.event(fate, times_s, round=self.round, user=users, node=node, value=delays_s)

    def _count(self, base: ArrayLike, many: int, sign: int) -> None:
        """Add *many* updates, or take them away; most often all start from one version."""
        bases = np.asarray(base)
        first = bases.flat[0]
        counts = {int(first): many}
        if bases.size > 1 and not (bases == first).all():
            counts = {int(one): int(count) for one, count in zip(*np.unique(bases, return_counts=True), strict=True)}
        for version, count in counts.items():
            self.bases[version] += sign * count
            if not self.bases[version]:
                del self.bases[version]

    def strand(self, users: Numbers, base: ArrayLike) -> None:
        """The updates of *users* from these versions can come no more: they end, or their users never return."""
        if self.hopes.lose(users, base):
            self._exhausted()

    def turn(self, users: Numbers, base: ArrayLike, other: Numbers) -> None:
        """No updates of *users* will come from *base*; from *other*, ``[n]``, they may, where these count."""
        old = other < self.hopes.least
        self.hopes.turn(users[~old], np.broadcast_to(base, users.shape)[~old], other[~old])
        self.strand(users[old], np.broadcast_to(base, users.shape)[old])
