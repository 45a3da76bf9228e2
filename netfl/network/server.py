"""The server: it opens rounds, sends versions to selected users, receives updates and closes rounds.

It is the only node that aggregates, and makes one version in each round.  Arrays hold the numbers of its versions, by
which they are ordered; ages go by their time (`netfl.types.VersionRef`).  `Server.name` is the aggregating node.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from netfl.network.clock import Clock, Stage
from netfl.network.config import RoundServiceConfig
from netfl.network.downlink import DownlinkPath
from netfl.network.event_log import Ending, EventLog
from netfl.network.membership import Membership
from netfl.network.periods import after_rounding
from netfl.network.roaming import Roaming
from netfl.network.tower import Tower
from netfl.network.updates import OutstandingUpdates, Update
from netfl.streams import RandomField
from netfl.types import SERVER, Delivery, Floats, Ints, LearnerReport, LinkReport, Users, VersionRef


class Admission:
    """Selection of the users of each round, and the queries to the learners that it needs; this one selects all."""

    def __init__(self, users: int) -> None:
        self._users = np.arange(users)

    def call(self) -> float:
        """Call the users before a round opens; return how long their answers take, 0 where nobody is called."""
        return 0.0

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the users selected for *round*, which opens after *report*, in rising order."""
        return self._users

    def metrics_for_mac(self) -> Mapping[str, Floats]:
        """Return metrics of the users for MACs in this round, ``[users]`` each, NaN where unknown; or none."""
        return {}

    def deadline_s(self) -> float | None:
        """Return the deadline of the round that `choose` was asked for; ``None`` for that of its rule."""
        return None

    def note_arrival(self, user: int, duration_s: float) -> None:
        """Note that an update of *user* counts, which arrived *duration_s* after the round of its base opened."""

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


class Arrival(NamedTuple):
    """An update at the server that is not judged yet.

    Args:
        arrived_s: time at which it arrived, or at which the last round closed without it.
        link: how it came over the air, until it arrived; ``None`` where nothing asks for it.
    """

    update: Update
    arrived_s: float
    link: LinkReport | None


class Server:
    """The server of one replica.

    Args:
        name: name of the aggregating node.
        outstanding: updates that the server expects.
        downlink: path of versions to the users.
        tie_draws: draws of the order in which updates of one instant are judged.
        membership: the tower of each user.
        on_complete: called when the round policy is satisfied; `collect_round_result` follows.

    Attributes:
        admission: selection of the users.
        roaming: moves of users; ``None`` if they keep their towers.
        on_selected: called with the users selected for each round; returns those that take part.
        left_out: number of rounds for which each user was selected without taking part, ``[users]``.
        took_part: number of rounds in which each user took part, ``[users]``.
        delivered: number of updates of each user that were delivered, ``[users]``.
    """

    admission: Admission
    roaming: Roaming | None = None
    on_selected: Callable[[Users], Users] | None = None

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
        membership: Membership,
        on_complete: Callable[[], None],
    ) -> None:
        self.name = name
        self._env = env
        self._log = log
        self._service = service
        self._rule = service.rule
        self._restarts = service.on_new_version == "restart" and not service.rule.is_continuous
        self._towers = [*towers.values()]
        self._tower_at = {tower.index: tower for tower in self._towers}
        self._outstanding = outstanding
        self._downlink = downlink
        self._tie_draws = tie_draws
        self._membership = membership
        self._on_complete = on_complete

        users = membership.users
        self.left_out = np.zeros(users, np.int64)
        self.took_part = np.zeros(users, np.int64)
        self.delivered = np.zeros(users, np.int64)

        # of the round that is open
        self._newest = self._ref(0)  # which it sends
        self._selected: Users = np.empty(0, np.int64)
        self._is_selected = np.zeros(users, np.bool_)
        self._arrived: list[Arrival] = []  # not judged yet
        self._ties = 0
        self._received: list[tuple[Update, Delivery]] = []
        self._is_closed = True
        self._is_settled = False  # no round is being opened, and no arrivals are being judged
        self._is_calling = False  # updates that arrive wait for the round to open
        self._opened_s = array("d")  # of each round, 8 bytes each

        if service.rule.can_be_void:
            self._log.metrics["rounds_abandoned"] = 0.0
        if service.rule.is_continuous:
            self._outstanding.on_end = self._send_next

    def open_round(self, report: LearnerReport | None) -> None:
        """Open the round of the event log; *report* is that of the learners on the round before."""
        self._received = []
        self._is_closed = False
        self._is_settled = False
        self._is_calling = False
        self._opened_s.append(float(self._env.now))
        self._newest = self._ref(self._number_at(self._log.round - 1))  # made by the round before
        self._ties = 0
        self._select(report)
        self._drop_older_updates()
        if self._restarts and not self._selects_all:
            self._dismiss_others()
        receivers = self._selected
        if self._rule.is_continuous:  # the others get a version when their updates have ended
            receivers = self._without_update(receivers)
        self._send(receivers)
        self._is_settled = True
        if self._arrived:  # at the instant at which the last round closed, or during the call
            self._env.at_end(Stage.ARRIVALS, self._judge_arrivals)

    def call_users(self) -> float:
        """Call the users before a round opens; return how long their answers take.

        Updates that arrive meanwhile are judged as the round opens, in the order of their arrival.  They keep the times
        at which they arrived.
        """
        answers_s = self.admission.call()
        self._is_calling = answers_s > 0.0
        return answers_s

    def hold_arrivals(self) -> None:
        """Judge updates that arrive from now on as the next round opens: users evaluate the model."""
        self._is_calling = True

    def release_arrivals(self) -> None:
        """Let the updates that arrived during the evaluation, which ends, come to the next round now."""
        arrivals = self._arrived
        self._arrived = []
        self._hold(arrivals)

    def receive(self, *updates: Update) -> None:
        """Receive updates; those of one instant are judged together, in a random order."""
        is_first = not self._arrived
        arrived_s = float(self._env.now)
        if self._arrived and after_rounding(self._arrived[-1].arrived_s) >= arrived_s:
            arrived_s = self._arrived[-1].arrived_s  # the same instant
        for update in updates:
            link = None
            if update.link is not None:
                link = update.link.report()  # now: copies of its packets may still be sent before it is judged
            self._arrived.append(Arrival(update, arrived_s, link))
        if is_first:
            self._env.at_end(Stage.ARRIVALS, self._judge_arrivals)

    def reject_further_updates(self) -> None:
        """Count no more updates: the round is over, and `collect_round_result` follows."""
        self._is_closed = True

    def collect_round_result(self) -> RoundResult:
        """Return the result of the round that is over."""
        self._is_closed = True
        if self._log.trainings is not None:
            for tower in self._towers:
                tower.record_trainings()
        is_valid = self._rule.is_valid(len(self._received), len(self._selected))
        if self._rule.can_be_void:  # updates have awaited the end of the round
            self._end_received(is_valid=is_valid)
        deliveries: tuple[Delivery, ...] = ()
        if is_valid:
            deliveries = tuple(self._with_lost(delivery) for _, delivery in self._received)
        users = [delivery.user for delivery in deliveries]
        for user in users:  # a user may deliver several updates in a round
            self.delivered[user] += 1
        self.admission.record_deliveries(self._log.round, users)

        newest = self._log.round
        if self._max_age == 0 and self._log.trainings is None:
            return RoundResult(deliveries, newest, None)
        needed = self._needed_versions(newest)
        oldest = needed[0] if needed else newest
        return RoundResult(deliveries, oldest, needed)

    @property
    def waits_in_vain(self) -> bool:
        """True if the open round closes now, as no update that would count can arrive any more.

        A server that does not know of losses waits for the deadline.  So does one that lets nobody take part or reaches
        nobody at this instant: nothing was lost, and another round would end like this one.
        """
        counted: list[Update] = []  # which have not ended, as it is open whether the round is void
        if self._rule.can_be_void:
            counted = [update for update, _ in self._received]
        if not self._is_settled or self._arrived or self._outstanding.may_deliver(counted):
            return False
        if self._rule.deadline_s is None:
            return True
        has_lasted = after_rounding(self._opened_s[-1]) < float(self._env.now)
        return self._rule.knows_losses and len(self._selected) > 0 and (has_lasted or self._log.receptions > 0)

    @property
    def unreachable(self) -> bool:
        """True if no user was reached in a round with all users selected that closes by their updates only."""
        needs_updates = self._rule.deadline_s is None and self._rule.needs_disconnected
        nothing_came = not (self._outstanding.count or self._log.receptions or self._received)
        return needs_updates and self._selects_all and nothing_came

    # the opening of a round

    def _ref(self, number: int) -> VersionRef:
        """Return the version of this node with a *number*."""
        return VersionRef(SERVER, number, number)

    def _number_at(self, round: int) -> int:
        """Return the number of the version that this node had made by the end of a *round*."""
        return round

    @property
    def _selects_all(self) -> bool:
        return len(self._selected) == len(self._is_selected)

    def _select(self, report: LearnerReport | None) -> None:
        """Select the users of a round, and give MACs the metrics of users that they need."""
        self._selected = self.admission.choose(self._log.round, report)
        if self.on_selected is not None:
            if self.roaming is not None:
                self.roaming.prepare_sending(self._selected)  # they get their shares where they will be
            self.left_out[self._selected] += 1
            self._selected = self.on_selected(self._selected)
            self.left_out[self._selected] -= 1
        self.took_part[self._selected] += 1
        self._is_selected[:] = False
        self._is_selected[self._selected] = True
        metrics = self.admission.metrics_for_mac()
        if not metrics:
            return
        for tower in self._towers:
            for cell in tower.cells:
                cell.user_metrics = {name: values[cell.ids] for name, values in metrics.items()}

    def _drop_older_updates(self) -> None:
        """Expect only updates that may still count in this round."""
        outstanding = self._outstanding
        limit = self._service.staleness
        if limit is None or self._rule.is_continuous:  # a continuous round judges the age on arrival
            outstanding.min_version = 0
        else:
            outstanding.min_version = self._number_at(self._newest.round - limit)
        oldest = outstanding.min_version
        if self._restarts:
            oldest = self._newest.number  # users drop older work as soon as they get this version
        elif not self._rule.needs_disconnected:
            oldest = self._newest.number  # nobody waits for users that will not get this version
        outstanding.drop_older(oldest, awaits_sent=self._rule.needs_disconnected)

    def _dismiss_others(self) -> None:
        """Let users that are not selected abandon their updates."""
        for tower in self._towers:
            members = self._membership.members(tower.index)
            is_dismissed = ~self._is_selected[tower.cell.ids[members]]
            tower.dismiss(members[is_dismissed])

    def _without_update(self, users: Users) -> Users:
        """Return those of *users* that have neither an update nor a version on the way."""
        is_idle = np.zeros(len(self._is_selected), np.bool_)
        for tower in self._towers:
            members = self._membership.members(tower.index)
            is_idle[tower.cell.ids[members]] = tower.is_idle(members)
        return users[is_idle[users] & self._outstanding.absent(users)]

    def _send(self, users: Users) -> None:
        """Send the newest version to *users*, tower by tower, and expect their updates."""
        if self.roaming is not None:
            self.roaming.prepare_sending(users)
        self._outstanding.expect(users, self._newest.number)
        receivers = []
        if len(users) == len(self._is_selected):  # all
            for tower in self._towers:
                members = self._membership.members(tower.index)
                if members.size:
                    receivers.append((tower, members))
        else:
            tower_of = self._membership.tower_at(users, float(self._env.now))
            by_tower = np.argsort(tower_of, kind="stable")
            indices, first = np.unique(tower_of[by_tower], return_index=True)
            for index, group in zip(indices.tolist(), np.split(users[by_tower], first[1:]), strict=False):
                receivers.append((self._tower_at[index], self._membership.slots(group, index)))
        self._downlink.send(self._newest.number, receivers)

    def _send_next(self, users: Users) -> None:
        """Send the newest version to the selected of *users*, whose updates have ended, if a round is open."""
        receivers = users[self._is_selected[users]]
        if not self._is_closed and receivers.size:
            self._send(receivers)

    # arrivals

    def _judge_arrivals(self) -> None:
        """Judge the updates that have arrived, one after the other; those of one instant in a random order."""
        if self._is_calling:
            return
        arrived = [self._at_present(arrival) for arrival in self._arrived]
        self._arrived = []
        if len(arrived) > 1:
            users = [arrival.update.user for arrival in arrived]
            order = self._tie_draws.order(users, self._log.round, self._ties)
            arrived = sorted((arrived[place] for place in order), key=lambda arrival: arrival.arrived_s)
            self._ties += 1
        self._is_settled = False  # all of them arrive before the round can close in vain
        if self._log.is_analogue and arrived:  # one sum
            self._judge(sorted(arrived, key=lambda arrival: arrival.update.user))
            arrived = []
        for count, arrival in enumerate(arrived):
            if self._is_closed and self._rule.is_continuous:
                self._hold(arrived[count:])  # they make the next version
                break
            self._judge([arrival])
        self._is_settled = True
        self._outstanding.signal_exhausted()

    def _at_present(self, arrival: Arrival) -> Arrival:
        """Return *arrival*, of now if it came at this instant: times of one instant may differ by rounding."""
        now_s = float(self._env.now)
        if after_rounding(arrival.arrived_s) >= now_s:
            return arrival._replace(arrived_s=now_s)
        return arrival

    def _hold(self, arrivals: Iterable[Arrival]) -> None:
        """Hold updates for the next round, to which they come now, at the close of the present one."""
        now_s = float(self._env.now)
        self._arrived += [arrival._replace(arrived_s=now_s) for arrival in arrivals]

    def _judge(self, arrivals: Sequence[Arrival]) -> None:
        """Count updates that arrive as one, or end them as late; close the round if it is complete."""
        if self._is_closed or self._is_stale(arrivals[0].update):
            for update, arrived_s, _ in arrivals:
                update.end(self._log, Ending("late", self.name), arrived_s)
            return
        for arrival in arrivals:
            self._note(arrival)
        self._is_closed = self._rule.is_complete(len(self._received), len(self._selected))
        for update, arrived_s, _ in arrivals:
            if self._rule.can_be_void:  # its outcome is known when the round closes
                self._outstanding.cancel(np.array([update.user]), update.base)
            else:
                update.end(self._log, Ending("delivered", self.name), arrived_s)
        if self._is_closed:
            self._on_complete()

    def _note(self, arrival: Arrival) -> None:
        """Note an update that counts for the open round."""
        update, arrived_s, link = arrival
        delivery = Delivery(
            user=update.user,
            base=update.base,
            sent_s=update.sent_s,
            arrived_s=arrived_s,
            attempts=update.attempts,
            received=update.received,
            link=link,
            tower=update.tower if self.roaming is not None else "",
        )
        self._received.append((update, delivery))
        opened_s = self._opened_s[self._ref(update.base).round]  # of the round that sent its base
        self.admission.note_arrival(update.user, arrived_s - opened_s)

    def _is_stale(self, update: Update) -> bool:
        """Return whether *update* starts from a version that is too old to count."""
        limit = self._service.staleness
        return limit is not None and self._newest.round - self._ref(update.base).round > limit

    # the result of a round

    @property
    def _max_age(self) -> int | None:
        """Largest number of newer versions with which an update of any user counts; ``None`` is no limit."""
        return self._service.staleness

    def _end_received(self, *, is_valid: bool) -> None:
        """End the updates of a round that may be void, now that it is known whether it is."""
        ending = Ending("delivered", self.name)
        if not is_valid:
            ending = Ending("discarded", self.name)
            self._log.metrics["rounds_abandoned"] += 1
        for update, delivery in self._received:
            update.end(self._log, ending, delivery.arrived_s)

    def _needed_versions(self, newest: int) -> tuple[int, ...]:
        """Return the versions before *newest* from which an update may still count, in rising order."""
        kept = set(self._outstanding.open_updates).union(*(tower.versions() for tower in self._towers))
        oldest = 0 if self._max_age is None else self._number_at(newest - self._max_age)
        needed = {base for base in kept if oldest <= base < newest}
        if self._log.trainings is not None:
            needed |= self._log.trainings.bases() - {newest}
        return tuple(sorted(needed))

    def _with_lost(self, delivery: Delivery) -> Delivery:
        """Return a delivery with the trainings of its user that were in vain before it, if they are asked for."""
        if self._log.trainings is None:
            return delivery
        lost_bases = self._log.trainings.take_before(delivery.user, delivery.base, delivery.sent_s)
        return replace(delivery, lost_bases=lost_bases)
