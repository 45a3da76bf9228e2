"""The server: it opens rounds, sends versions to selected users, receives updates and closes rounds.

It is the only node that aggregates; a version is named by its number alone.  `Server.name` is the aggregating node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.clock import Stage
from netfl.network.config import NetworkContext, RoundServiceConfig
from netfl.network.downlink import DownlinkPath
from netfl.network.message import Message
from netfl.network.tower import Tower
from netfl.types import Bools, Delivery, Floats, Ints, LearnerReport

Users = Ints
_NONE = -1


class OutstandingUpdates:
    """Updates that have not ended, and for each user the newest version from which one may still be delivered.

    Args:
        on_exhausted: Called when no update is expected any more.

    Attributes:
        count: Number of users of whom an update is expected.
        min_version: Oldest version from which an update counts.
        open_updates: Number of updates that have not ended, by the version from which they were trained.
        on_end: Called with users whose updates have ended, before `on_exhausted`; it may expect new ones.
    """

    def __init__(self, users: int, on_exhausted: Callable[[], None] = lambda: None) -> None:
        self._expected, self._on_exhausted = np.full(users, _NONE, np.int64), on_exhausted
        self.count = self.min_version = 0
        self.open_updates: Counter[int] = Counter()
        self.on_end: Callable[[Users], None] | None = None

    def begin(self, base: Ints) -> None:
        """Count updates that begin, one from each *base*."""
        self._count_open(base, len(base), 1)

    def end(self, users: Users, base: ArrayLike, is_expected: bool) -> None:
        """Count updates of *users* from *base* that have ended; those that were expected are so no longer."""
        self._count_open(base, len(users), -1)
        is_last = is_expected and self._remove(users, base)
        if self.on_end is not None:
            self.on_end(users)
        if is_last and not self.count:
            self._on_exhausted()

    def expect(self, users: Users, base: ArrayLike, *, include_absent: bool = True) -> None:
        """Expect updates of *users*, all distinct, from *base*, if they count, and none from older versions.

        *base* is one version for all, or one for each.  Without *include_absent*, users of whom no update is expected
        stay so.
        """
        new, absent = np.broadcast_to(base, users.shape), self.absent(users)
        newer = (new > self._expected[users]) & (new >= self.min_version) & (include_absent | ~absent)
        self.count += int(np.count_nonzero(absent[newer]))
        self._expected[users[newer]] = new[newer]

    def redirect(self, users: Users, base: ArrayLike, other: Ints) -> None:
        """Expect updates of *users* from *other*, ``[n]``, instead of *base*; none where *other* does not count."""
        old, bases = other < self.min_version, np.broadcast_to(base, users.shape)
        kept, kept_other = users[~old], other[~old]
        is_expected = self._expected[kept] == bases[~old]
        self._expected[kept[is_expected]] = kept_other[is_expected]
        self.cancel(users[old], bases[old])

    def cancel(self, users: Users, base: ArrayLike) -> None:
        """Expect no updates of *users* from *base* any more."""
        if self._remove(users, base):
            self._on_exhausted()

    def absent(self, users: Users) -> Bools:
        """Return whether no update of each of *users* is expected, ``[n]``."""
        return np.asarray(self._expected[users] == _NONE)

    def drop_older(self, version: int) -> None:
        """Expect no updates from versions before *version* any more."""
        self._expected[self._expected < version] = _NONE
        self.count = int(np.count_nonzero(self._expected != _NONE))

    def _remove(self, users: Users, base: ArrayLike) -> bool:
        """Expect no updates of *users* from *base*; return whether the last expected one was among them."""
        removed = users[self._expected[users] == base]
        self._expected[removed] = _NONE
        self.count -= len(removed)
        return bool(len(removed)) and self.count == 0

    def _count_open(self, base: ArrayLike, count: int, sign: int) -> None:
        """Add or subtract *count* updates, most often all from one version."""
        bases = np.asarray(base)
        first = bases.flat[0]
        counts = {int(first): count}
        if bases.size > 1 and not (bases == first).all():
            versions, numbers = np.unique(bases, return_counts=True)
            counts = dict(zip(versions.tolist(), numbers.tolist(), strict=True))
        for version, number in counts.items():
            self.open_updates[version] += sign * number
            if not self.open_updates[version]:
                del self.open_updates[version]


class Admission:
    """Selection of the users of each round, and the queries to the learners that it needs; this one selects all."""

    def __init__(self, users: int) -> None:
        self._users = np.arange(users)

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the users selected for *round*, which opens after *report*, in rising order."""
        return self._users

    def metrics_for_mac(self) -> Mapping[str, Floats]:
        """Return metrics of the users for MACs in this round, ``[users]`` each, NaN where unknown; or none."""
        return {}

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        """Note that updates of *users* were delivered in *round*."""

    def queries(self, round: int) -> Mapping[str, tuple[int, ...]]:
        """Return the queries to the learners before *round*."""
        return {}


class RoundResult(NamedTuple):
    """Result of a round.

    Args:
        oldest: Oldest version that an update of a later round may start from.
        needed: All such versions, in rising order; ``None`` where only the newest is.
    """

    deliveries: tuple[Delivery, ...]
    oldest: int
    needed: tuple[int, ...] | None


class Server:
    """The server of one replica.

    Args:
        downlink: Path of versions to the users.
        on_complete: Called when the round policy is satisfied; `collect_round_result` follows.

    Attributes:
        name: Name of the aggregating node.
    """

    admission: Admission

    def __init__(
        self,
        network: NetworkContext,
        service: RoundServiceConfig,
        towers: Mapping[str, Tower],
        downlink: DownlinkPath,
        on_complete: Callable[[], None],
    ) -> None:
        self._service, self._env, self._log, self._downlink = service, network.env, network.log, downlink
        self._outstanding = network.outstanding
        self._towers, self.name, self._on_complete = [*towers.values()], network.config.layout.server, on_complete
        users = sum(tower.cell.size for tower in self._towers)
        self._tower_of, self._number_of = np.zeros(users, np.int64), np.zeros(users, np.int64)
        for index, tower in enumerate(self._towers):
            self._tower_of[tower.cell.ids], self._number_of[tower.cell.ids] = index, np.arange(tower.cell.size)
        self._selected: Users = np.empty(0, np.int64)
        self._is_selected = np.zeros(users, np.bool_)
        self._arrived: list[Message] = []  # at the present instant, not judged yet
        self._ties = 0
        self._tie_draws = network.streams.field("tie", self.name)
        self._received: list[tuple[Message, Delivery]] = []
        self._is_closed = True
        if service.rule.can_be_void:
            self._log.metrics["rounds_abandoned"] = 0.0
        if service.rule.is_continuous:
            self._outstanding.on_end = self._send_next

    def open_round(self, report: LearnerReport | None) -> None:
        """Open the round of the event log; *report* is that of the learners on the round before."""
        log, outstanding, version = self._log, self._outstanding, self._log.round - 1
        self._received, self._is_closed = [], False
        self._selected = self.admission.choose(log.round, report)
        self._is_selected[:] = False
        self._is_selected[self._selected] = True
        if metrics := self.admission.metrics_for_mac():
            for cell in (cell for tower in self._towers for cell in tower.cells):
                cell.user_metrics = {name: values[cell.ids] for name, values in metrics.items()}
        rule, limit = self._service.rule, self._service.staleness
        restarts = self._service.on_new_version == "restart" and not rule.is_continuous
        outstanding.min_version = 0 if limit is None or rule.is_continuous else version - limit
        outstanding.drop_older(version if restarts or not rule.needs_disconnected else outstanding.min_version)
        if restarts and len(self._selected) < len(self._is_selected):
            for index, tower in enumerate(self._towers):
                tower.dismiss(self._number_of[~self._is_selected & (self._tower_of == index)])
        receivers = self._selected
        if rule.is_continuous:  # users with neither a version nor an update on the way
            idle = np.zeros(len(self._is_selected), np.bool_)
            for tower in self._towers:
                idle[tower.cell.ids[tower.idle_users()]] = True
            receivers = receivers[idle[receivers] & outstanding.absent(receivers)]
        outstanding.expect(receivers, version)
        self._send(receivers)
        self._ties = 0
        if self._arrived:  # at the instant at which the last round closed
            self._env.at_end(Stage.ARRIVALS, self._judge_arrivals)

    def receive(self, message: Message) -> None:
        """Receive an update; those of one instant are judged together, in a random order."""
        self._arrived.append(message)
        if len(self._arrived) == 1:
            self._env.at_end(Stage.ARRIVALS, self._judge_arrivals)

    def _judge_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, []
        if len(arrived) > 1:
            order = self._tie_draws.order([message.user for message in arrived], self._log.round, self._ties)
            arrived = [arrived[place] for place in order]
            self._ties += 1
        for count, message in enumerate(arrived):
            if self._is_closed and self._service.rule.is_continuous:
                self._arrived = arrived[count:]  # they make the next version, which opens at this instant
                return
            self._judge(message)

    def _judge(self, message: Message) -> None:
        log, rule, now_s = self._log, self._service.rule, self._env.now
        limit = self._service.staleness
        if self._is_closed or (limit is not None and log.round - 1 - message.base > limit):
            log.record_outcome(message, "late", now_s, node=self.name)
            return
        delivery = Delivery(message.user, message.base, message.sent_s, now_s, message.attempts)
        self._received.append((message, delivery))
        self._is_closed = rule.is_complete(len(self._received), len(self._selected))
        if not rule.can_be_void:
            log.record_outcome(message, "delivered", now_s, node=self.name)
        if self._is_closed:
            self._on_complete()

    def reject_further_updates(self) -> None:
        """Count no more updates: the round is over, and `collect_round_result` follows."""
        self._is_closed = True

    def collect_round_result(self) -> RoundResult:
        """Return the result of the round that is over."""
        log, rule = self._log, self._service.rule
        self._is_closed = True
        counts = rule.is_valid(len(self._received), len(self._selected))
        if rule.can_be_void:
            log.metrics["rounds_abandoned"] += not counts
            outcome = "delivered" if counts else "discarded"
            for message, delivery in self._received:
                log.record_outcome(message, outcome, delivery.arrived_s, node=self.name)
        deliveries = tuple(delivery for _, delivery in self._received) if counts else ()
        self.admission.record_deliveries(log.round, [delivery.user for delivery in deliveries])
        newest, limit = log.round, self._service.staleness
        if limit == 0:
            return RoundResult(deliveries, newest, None)
        kept = set(self._outstanding.open_updates).union(*(tower.versions() for tower in self._towers))
        oldest = 0 if limit is None else newest - limit
        needed = sorted(base for base in kept if oldest <= base < newest)
        return RoundResult(deliveries, needed[0] if needed else newest, tuple(needed))

    @property
    def nothing_outstanding(self) -> bool:
        """True if no update is expected any more."""
        return not self._outstanding.count

    @property
    def unreachable(self) -> bool:
        """True if no user was reached in a round with all users selected that closes by their updates only."""
        rule, all_selected = self._service.rule, len(self._selected) == len(self._is_selected)
        nothing_came = self.nothing_outstanding and not (self._log.receptions or self._received)
        return rule.deadline_s is None and rule.needs_disconnected and all_selected and nothing_came

    def _send(self, users: Users) -> None:
        version = self._log.round - 1
        if len(users) == len(self._is_selected):
            receivers = [(tower, np.arange(tower.cell.size)) for tower in self._towers]
        else:
            users = users[np.argsort(self._tower_of[users], kind="stable")]
            towers, first = np.unique(self._tower_of[users], return_index=True)
            groups = zip(towers.tolist(), np.split(users, first[1:]), strict=False)
            receivers = [(self._towers[index], self._number_of[group]) for index, group in groups]
        self._downlink.send(version, receivers)

    def _send_next(self, users: Users) -> None:
        """Send the newest version to the selected of *users*, whose updates have ended, if a round is open."""
        receivers = users[self._is_selected[users]]
        if not self._is_closed and receivers.size:
            self._outstanding.expect(receivers, self._log.round - 1)
            self._send(receivers)
