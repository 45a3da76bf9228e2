"""Record of what happens to every update and packet of one replica."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netfl.errors import ModelError
from netfl.network.attempt_log import BUSY, JAMMED, NO_ACCESS, AttemptLog
from netfl.network.counters import PacketArray, PacketCounter, TrafficCounters
from netfl.network.link_log import LinkLog
from netfl.network.training_log import TrainingLog
from netfl.types import OUTCOMES, Event, Recorder, check_kind

_MAX_PACKET_VALUES = 3 << 20
"""Most values that are kept of the packets of one class and ending: a window may have more packets than memory has room
for."""


class Ending(NamedTuple):
    """The end of updates or packets.

    Args:
        outcome: one of `netfl.types.OUTCOMES`.
        node: name of the node at which they end.
        detail: cause of the last failure, where the outcome does not name it.
    """

    outcome: str
    node: str = ""
    detail: str = ""

    @classmethod
    def of_failure(cls, cause: str, limit: int | None, node: str) -> Ending:
        """Return the end of frames whose last of *limit* attempts failed by *cause*."""
        if cause == NO_ACCESS:  # no attempt at all
            return cls("given_up", node, cause)
        if limit == 1 and cause in {BUSY, JAMMED}:
            return cls("lost", node, cause)
        if limit == 1:  # the only attempt: its cause is the outcome
            return cls(cause, node)
        return cls("given_up", node, cause)


class EventLog:
    """Record of the outcomes and events of one replica, with counters of the open round.

    Args:
        nodes: number of nodes that may send traffic; 0 for none.
        traffic: names of the classes of traffic.
        record_packets: record the outcomes of packets of traffic, too.
        max_failed_attempts: failed attempts of updates and lost trainings in one round without a delivery after which
            the run ends.
        reports_links: keep how updates come over the air.
        reports_lost: keep the trainings of users.

    Attributes:
        attempts: record of attempts over the air.
        is_analogue: updates are sent as analogue signals, which have no bits.
        not_summed: users and bases of the updates that ended as ``not_summed`` in the open round.
        links: how updates come over the air; ``None`` where nothing asks for it.
        trainings: the trainings of users; ``None`` where nothing asks for them.
        receptions: number of receptions of a version by a user in the open round.
        uplink_bits: bits put on the air in the open round.
        downlink_bits: bits of the broadcasts of the open round.
        failed_attempts: failed attempts in the open round since the last delivery.
        lost_trainings: trainings without energy in the open round since the last delivery.
        traffic: counters of packets of traffic.
        metrics: metrics that transmit queues and the server count for the end of the run.
        records_packets: whether the outcomes of packets of traffic are recorded.
        holds_deliveries: whether deliveries are recorded only when the round closes, by `release_deliveries`, as the
            run may end before.
    """

    def __init__(
        self,
        recorder: Recorder,
        users: int,
        *,
        nodes: int = 0,
        traffic: Sequence[str] = ("",),
        record_packets: bool = False,
        max_failed_attempts: float = np.inf,
        reports_links: bool = False,
        reports_lost: bool = False,
    ) -> None:
        self._recorder = recorder
        self._users = users
        self._max_failed_attempts = max_failed_attempts
        self.attempts = AttemptLog(recorder)
        self.links: LinkLog | None = None
        if reports_links:
            self.links = LinkLog()
        self.trainings: TrainingLog | None = None
        if reports_lost:
            self.trainings = TrainingLog()
        self.is_analogue = False
        self.metrics: dict[str, float] = {}
        self.traffic = TrafficCounters(nodes, traffic)
        self.records_packets = record_packets
        # time, sender and delay of each packet that ended, one after the other, until `flush_packets`
        self._packet_rows: dict[tuple[str, Ending], array[float]] = defaultdict(lambda: array("d"))
        self.holds_deliveries = False
        self._held: list[tuple[Ending, ArrayLike, ArrayLike, ArrayLike]] = []
        self.open_round(0)  # none is open before the first

    @property
    def packets(self) -> PacketCounter:
        """Counter of all packets of traffic."""
        return self.traffic.total

    def open_round(self, round: int) -> None:
        """Reset the counters of the open round."""
        self.round = round
        self.attempts.round = round
        self.receptions = 0
        self.not_summed: list[tuple[int, int]] = []
        self.failed_attempts = 0
        self.lost_trainings = 0
        self.uplink_bits = 0.0
        self.downlink_bits = 0.0

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are recorded.

        Raises:
            ValueError: there is no such kind.
        """
        check_kind(kind)
        return self._recorder.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, **columns: Any) -> None:
        """Record an event of the open round, if events of *kind* are recorded; *columns* are fields of an `Event`.

        Raises:
            ValueError: there is no such kind.
        """
        if self.wants(kind):
            self._recorder.record(Event(kind, time_s, self.round, **columns))

    def record_hop(self, sender: int, node: str, waited_s: float, now_s: float, traffic: str) -> None:
        """Record that *node* has forwarded a message, *waited_s* after that had entered its port."""
        user = sender if sender < self._users else -1  # towers and routers are no users
        self.event("forwarded", now_s, user=user, node=node, value=waited_s, traffic=traffic)

    def record_ending(self, ending: Ending, time_s: ArrayLike, users: ArrayLike, base: ArrayLike) -> None:
        """Record the end of updates of *users* from *base*, with one time and version for all or one for each.

        Raises:
            ValueError: there is no such outcome; the updates would be left without one.
        """
        outcome, node, detail = ending
        if outcome not in OUTCOMES:
            raise ValueError(f"no outcome ('{outcome}'); name one of {', '.join(OUTCOMES)}")
        if outcome == "delivered":
            self.failed_attempts = 0
            self.lost_trainings = 0
            if self.holds_deliveries:
                self._held.append((ending, time_s, users, base))
                return
        if outcome == "not_summed":
            pairs = np.broadcast_arrays(users, base)
            self.not_summed += zip(*(column.ravel().tolist() for column in pairs), strict=True)
        self._recorder.record(Event(outcome, time_s, self.round, users, node, base, detail))

    def release_deliveries(self, unfinished_s: float | None = None) -> None:
        """Record the deliveries that are held; as unfinished at *unfinished_s*, if the round does not close."""
        for ending, time_s, users, base in self._held:
            if unfinished_s is None:
                event = Event(ending.outcome, time_s, self.round, users, ending.node, base)
            else:
                event = Event("unfinished", unfinished_s, self.round, users, "", base)
            self._recorder.record(event)
        self._held = []

    def count_failures(self, count: int, now_s: float) -> None:
        """Count failed attempts that are followed by others.

        Raises:
            ModelError: too many attempts failed in one round without a delivery, so that it would never close.
        """
        self.failed_attempts += count
        self._check_failures(now_s)

    def count_lost_trainings(self, count: int, now_s: float) -> None:
        """Count trainings that users had no energy for.

        Raises:
            ModelError: as `count_failures`.
        """
        self.lost_trainings += count
        self._check_failures(now_s)

    def _check_failures(self, now_s: float) -> None:
        if self.failed_attempts + self.lost_trainings <= self._max_failed_attempts:
            return
        failures = f"{self.failed_attempts} attempts"
        if self.lost_trainings:
            failures += f" and {self.lost_trainings} trainings"
        problem = (
            f"round {self.round}: {failures} in a row have failed, without a delivery; "
            "users may always collide (mac), or lose an update to an outage each time (outages, or a battery with too "
            "little energy for it); a deadline would close such rounds"
        )
        raise ModelError("network", problem, time_s=now_s)

    def end_packets(self, packets: PacketArray, ending: Ending) -> None:
        """Count the end of packets of traffic, in the order of time, and record it if `records_packets`."""
        for name, of_class in self.traffic.split(packets):
            for counter in self.traffic.of[name]:
                counter.end_all(of_class, ending.outcome)
            if self.records_packets:
                ends = np.column_stack([of_class.time_s, of_class.sender, of_class.time_s - of_class.born_s])
                rows = self._packet_rows[name, ending]
                rows.frombytes(ends.tobytes())
                if len(rows) >= _MAX_PACKET_VALUES:
                    self.flush_packets()

    def record_packet(self, name: str, ending: Ending, time_s: float, sender: int, delay_s: float) -> None:
        """Record the end of a packet of class *name*, *delay_s* after its arrival, if `records_packets`."""
        if self.records_packets:
            rows = self._packet_rows[name, ending]
            rows.extend((time_s, sender, delay_s))
            if len(rows) >= _MAX_PACKET_VALUES:
                self.flush_packets()

    def flush_packets(self) -> None:
        """Record the outcomes of packets; the value is the time from a packet's arrival to its end."""
        for (name, ending), rows in sorted(self._packet_rows.items()):
            times_s, senders, delays_s = np.frombuffer(rows).reshape(-1, 3).T
            users = np.where(senders < self._users, senders, -1).astype(np.int64)  # towers and routers are no users
            event = Event(
                ending.outcome,
                times_s,
                round=self.round,
                user=users,
                node=ending.node,
                value=delays_s,
                detail=ending.detail,
                traffic=name,
            )
            self._recorder.record(event)
        self._packet_rows.clear()
