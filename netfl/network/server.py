"""The server: it opens rounds, sends versions to selected users, receives updates and closes rounds.

It is the only node that aggregates; a version is named by its number alone.  `Server.name` is the aggregating node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from netfl.network.clock import Clock, Stage
from netfl.network.config import RoundServiceConfig
from netfl.network.downlink import DownlinkPath
from netfl.network.event_log import Ending, EventLog
from netfl.network.tower import Tower
from netfl.network.updates import OutstandingUpdates, Update, Users
from netfl.streams import RandomField
from netfl.types import Delivery, Floats, Ints, LearnerReport


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
        oldest: oldest version that an update of a later round may start from.
        needed: all such versions, in rising order; ``None`` where only the newest is.
    """

    deliveries: tuple[Delivery, ...]
    oldest: int
    needed: tuple[int, ...] | None


class Server:
    """The server of one replica.

    Args:
        name: name of the aggregating node.
        outstanding: updates that the server expects.
        downlink: path of versions to the users.
        tie_draws: draws of the order in which updates of one instant are judged.
        on_complete: called when the round policy is satisfied; `collect_round_result` follows.
    """

    admission: Admission

    def __init__(
        self,
        name: str,
        env: Clock,
        log: EventLog,
        service: RoundServiceConfig,
        towers: Mapping[str, Tower],
        outstanding: OutstandingUpdates,
        downlink: DownlinkPath,
        tie_draws: RandomField,
        on_complete: Callable[[], None],
    ) -> None:
        self.name = name
        self._env, self._log, self._service = env, log, service
        self._towers, self._outstanding, self._downlink = [*towers.values()], outstanding, downlink
        self._on_complete = on_complete
        users = sum(tower.cell.size for tower in self._towers)
        self._tower_of, self._number_of = np.zeros(users, np.int64), np.zeros(users, np.int64)
        for index, tower in enumerate(self._towers):
            self._tower_of[tower.cell.ids], self._number_of[tower.cell.ids] = index, np.arange(tower.cell.size)
        self._selected: Users = np.empty(0, np.int64)
        self._is_selected = np.zeros(users, np.bool_)
        self._arrived: list[Update] = []  # at the present instant, not judged yet
        self._ties = 0
        self._tie_draws = tie_draws
        self._received: list[tuple[Update, Delivery]] = []
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

    def receive(self, update: Update) -> None:
        """Receive an update; those of one instant are judged together, in a random order."""
        self._arrived.append(update)
        if len(self._arrived) == 1:
            self._env.at_end(Stage.ARRIVALS, self._judge_arrivals)

    def _judge_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, []
        if len(arrived) > 1:
            order = self._tie_draws.order([update.user for update in arrived], self._log.round, self._ties)
            arrived = [arrived[place] for place in order]
            self._ties += 1
        for count, update in enumerate(arrived):
            if self._is_closed and self._service.rule.is_continuous:
                self._arrived = arrived[count:]  # they make the next version, which opens at this instant
                return
            self._judge(update)

    def _judge(self, update: Update) -> None:
        log, rule, now_s = self._log, self._service.rule, self._env.now
        limit = self._service.staleness
        if self._is_closed or (limit is not None and log.round - 1 - update.base > limit):
            update.end(log, Ending("late", self.name), now_s)
            return
        delivery = Delivery(update.user, update.base, update.sent_s, now_s, update.attempts)
        self._received.append((update, delivery))
        self._is_closed = rule.is_complete(len(self._received), len(self._selected))
        if not rule.can_be_void:
            update.end(log, Ending("delivered", self.name), now_s)
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
            ending = Ending("delivered" if counts else "discarded", self.name)
            for update, delivery in self._received:
                update.end(log, ending, delivery.arrived_s)
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
