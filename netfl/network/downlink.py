"""Downlink: the path of versions from the server to the users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import simpy

from netfl.errors import ModelError
from netfl.network.backhaul.routes import Routes
from netfl.network.backhaul.version_buffer import VersionBuffer
from netfl.network.clock import Clock, Stage, call_after, call_at
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.message import BroadcastCopy
from netfl.network.periods import after_rounding
from netfl.network.queue import Buffer, FifoBuffer
from netfl.network.radio.transmission import Signal
from netfl.network.tower import Tower
from netfl.streams import RandomField
from netfl.types import Bools, Floats, Users

Receivers = Sequence[tuple[Tower, Users]]
"""Users of each tower that get a version, by their numbers at the tower."""


class DownlinkPath(Protocol):
    """A path of versions from the server to the users.

    Attributes:
        bits: size of a broadcast.
    """

    bits: float

    def send(self, version: int, receivers: Receivers) -> None:
        """Send *version* from the server to *receivers*."""


class LeadingPath:
    """A path before another downlink, which has the size of a broadcast.

    Args:
        inner: the other downlink.
    """

    def __init__(self, inner: DownlinkPath) -> None:
        self._inner = inner

    @property
    def bits(self) -> float:
        """Size of a broadcast."""
        return self._inner.bits

    @bits.setter
    def bits(self, bits: float) -> None:
        self._inner.bits = bits


class ExpectedUsers(Protocol):
    """Record of the users of whom something is expected, which learns that a version never reaches some of them."""

    def cancel(self, users: Users, base: int) -> None:
        """Expect nothing of *users*, who do not get version *base*."""


_MIN_WAIT_S = 1e-3
"""Least time after which the server sends a copy again that was lost on the way."""
_MAX_LOSSES = 40
"""Times that a copy may be lost on routes that change, while the wait doubles each time."""


class IdealDownlink:
    """Path without losses: delay and rate of each link, then the broadcast rate and the propagation delay on the air.

    Versions wait where the route is interrupted.

    Args:
        outstanding: updates that the server expects; none of users that are cut off for good.

    Attributes:
        bits: size of a broadcast.
    """

    def __init__(
        self,
        config: NetworkConfig,
        service: RoundServiceConfig,
        env: Clock,
        log: EventLog,
        outstanding: ExpectedUsers,
        routes: Routes,
    ) -> None:
        assert config.medium is not None
        self.bits = service.broadcast_bits
        self._rate_bps = service.broadcast_bps
        self._env = env
        self._log = log
        self._outstanding = outstanding
        self._routes = routes
        self._medium = config.medium
        self._state = config.node_state

    def send(self, version: int, receivers: Receivers) -> None:
        """Send *version* from the server to *receivers*."""
        for tower, users in receivers:
            self._send_to(tower, version, users)

    def _send_to(self, tower: Tower, version: int, users: Users) -> None:
        now_s = self._env.now
        self._log.downlink_bits += self.bits
        delay_s = self._routes.delay_s(tower.name, self.bits, now_s) + self.bits / self._rate_bps
        self._cross(tower, version, users, now_s + delay_s)

    def _cross(self, tower: Tower, version: int, users: Users, undisturbed_s: float) -> None:
        """Let *version*, sent by *undisturbed_s* without outages, cross a route on which it waits for them."""
        route = self._routes.numbers(tower.name, self._env.now)[None, :]
        sent_s = float(self._state.all_up_later_s(route, undisturbed_s)[0])
        if np.isinf(sent_s):  # the route is interrupted for good
            self._outstanding.cancel(tower.cell.ids[users], version)
        else:
            held_s = sent_s if sent_s > undisturbed_s else -np.inf
            self._schedule(tower, version, sent_s, users, held_s=held_s)

    def _schedule(self, tower: Tower, version: int, sent_s: float, users: Users, *, held_s: float = -np.inf) -> None:
        """Let *version*, which *tower* has sent by *sent_s*, arrive at *users* after the delay of each.

        It waits for the end of an outage until *held_s*.
        """
        start_s = sent_s - self.bits / self._rate_bps
        delay_s = self._medium.delay_s(tower.cell.ids[users], tower.cell.tower, start_s)
        for group, group_delay_s in _group_by_delay(users, delay_s):
            tower.schedule_broadcast(version, sent_s + group_delay_s, group, held_s=held_s)


@dataclass(slots=True)
class _VersionStatus:
    """Status of a version on its way to the users.

    Args:
        is_received: whether any user has received it.
        copies: number of copies that are on their way, wait, or are on the air.
        unreceived: copies that have ended before any user had the version.
        scheduled: copies that are sent again as soon as they can arrive.
    """

    is_received: bool = False
    copies: int = 0
    unreceived: list[BroadcastCopy] = field(default_factory=list)
    scheduled: list[BroadcastCopy] = field(default_factory=list)


@dataclass(slots=True)
class _TowerSender:
    """Transmitter of a tower, which sends one copy at a time, and is silent after each as its duty cycle demands.

    Args:
        waiting: copies that wait until the tower has sent others.
        is_sending: whether a copy is being sent, or the tower has to be silent.
    """

    tower: Tower
    waiting: Buffer
    is_sending: bool = False


@dataclass(slots=True)
class _Sending:
    """Copy that a tower sends once to its users.

    Args:
        mode: mode of the reception.
        is_sent: whether the tower stays up until the end.
        is_tower_up: whether the tower is up at the start.
        rate_bps: bit rate, of a reception without modes.
        groups: number of groups of users, by propagation delay, whose signal has not ended.
        missed: users that have not received it so far, in groups.
    """

    sender: _TowerSender
    copy: BroadcastCopy
    mode: int
    airtime_s: float
    is_sent: bool
    is_tower_up: bool
    rate_bps: float | None = None
    groups: int = 0
    missed: list[Users] = field(default_factory=list)


class LossyDownlink:
    """Path over queues and fading channels, as `netfl.network.config.Downlink` describes.

    A copy of a version crosses the ports from the server to a tower, waits there, and is sent.  It ends when all its
    users have received it, when it is lost on the way, when its tower has sent it ``max_attempts`` times, or when newer
    copies have taken all its users.  Users that a copy does not reach have missed the version, unless nobody has it:
    when all copies of the newest version have ended and no user has received it, they are sent again.

    Args:
        order_draws: draws of the order in which the copies of a version set out.

    Attributes:
        bits: size of a broadcast.
    """

    def __init__(
        self,
        config: NetworkConfig,
        service: RoundServiceConfig,
        env: Clock,
        log: EventLog,
        routes: Routes,
        order_draws: RandomField,
    ) -> None:
        assert service.downlink is not None
        assert config.medium is not None
        self.bits = service.broadcast_bits
        self._boost = service.boost
        self._max_attempts = service.downlink.max_attempts
        self._duty_cycle = service.downlink.duty_cycle
        self._by_user = service.downlink.mode == "unicast"
        self._replaces = service.downlink.queued_versions == "replace"
        self._env = env
        self._log = log
        self._routes = routes
        if self._replaces:
            routes.wrap_buffer_down = partial(VersionBuffer, by_user=self._by_user)
        self._medium = config.medium
        self._state = config.node_state
        self._order_draws = order_draws

        self._senders: dict[str, _TowerSender] = {}
        self._newest = -1
        self._status: dict[int, _VersionStatus] = {}
        self._max_unreceived = config.max_failed_attempts
        self._unreceived = 0  # copies in a row that no user has received
        self._log.metrics |= {"versions_superseded": 0.0, "version_lag_max": 0.0}

    def send(self, version: int, receivers: Receivers) -> None:
        """Send *version* from the server to *receivers*."""
        self._open_version(version)
        copies = []
        for tower, users in receivers:
            if tower.name not in self._senders:
                self._senders[tower.name] = self._make_sender(tower)
            groups = [users]
            if self._by_user:
                groups = np.split(users, len(users))
            for group in groups:
                tower.announce(version, group)
                copies.append(self._make_copy(tower, version, group))
        if len(copies) > 1:  # the order is drawn, so that no user and no tower is the first of every version
            draws = self._order_draws.uniform([copy.flow for copy in copies], version)
            copies = [copies[place] for place in np.argsort(draws).tolist()]
        status = self._status.setdefault(version, _VersionStatus())  # an older one may come after its end
        status.copies += len(copies)
        for copy in copies:
            self._routes.forward_down(copy)

    def _open_version(self, version: int) -> None:
        """Note that *version* is the newest, and give up older ones that no user has received."""
        if version <= self._newest:
            return
        self._newest = version
        for older in sorted(self._status):
            self._supersede_scheduled(older)
            if older in self._status:  # else it has ended with its last copy
                self._give_up(older)
        self._status[version] = _VersionStatus()

    def _make_sender(self, tower: Tower) -> _TowerSender:
        waiting: Buffer = FifoBuffer()
        if self._replaces:
            waiting = VersionBuffer(waiting, by_user=self._by_user)
        return _TowerSender(tower, waiting)

    def _make_copy(self, tower: Tower, version: int, users: Users) -> BroadcastCopy:
        ids = tower.cell.ids[users]
        now_s = self._env.now
        return BroadcastCopy(
            user=-1,
            bits=self.bits,
            flow=int(ids[0]),
            version=version,
            ids=ids,
            users=users,
            route=self._routes.default_route(tower.name, now_s)[::-1],
            on_arrival=self._arrive,
            on_loss=self._lose,
            on_supersede=self._supersede,
        )

    def _sender(self, copy: BroadcastCopy) -> _TowerSender:
        return self._senders[copy.route[-1]]

    # on the way to the tower and there

    def _arrive(self, copy: BroadcastCopy) -> None:
        """Let a copy wait until its tower has sent those before it."""
        sender = self._sender(copy)
        copy.is_at_tower = True
        for superseded in sender.waiting.push(copy, self._env.now):
            assert isinstance(superseded, BroadcastCopy)
            self._end(superseded)
        if not sender.is_sending:
            self._send_next(sender)

    def _supersede(self, copy: BroadcastCopy, users: Users) -> None:
        self._log.metrics["versions_superseded"] += len(users)
        self._sender(copy).tower.note_missed(copy.version, users, "superseded")

    def _lose(self, copy: BroadcastCopy, cause: str) -> None:
        """End a copy that does not reach its tower."""
        copy.losses += 1
        self._end(copy, cause)

    def _send_next(self, sender: _TowerSender) -> None:
        """Send the next copy that anybody waits for, once the tower has sent what it is sending."""
        sends_until_s = sender.tower.cell.transmitter.sends_until_s
        if sends_until_s > after_rounding(self._env.now):  # an acknowledgement
            sender.is_sending = True
            call_at(self._env, sends_until_s, lambda _: self._free(sender))
            return
        while (copy := sender.waiting.pop(self._env.now)) is not None:
            assert isinstance(copy, BroadcastCopy)
            if self._replaces:
                self._take_out_unselected(sender.tower, copy)
            if copy.users.size:
                self._begin(sender, copy)
                return
            self._end(copy)

    def _take_out_unselected(self, tower: Tower, copy: BroadcastCopy) -> None:
        """Take out users that are not selected any more, as a newer version has gone to others."""
        is_selected = tower.is_selected(copy.users)
        if not is_selected.all():
            copy.take_out(copy.users[~is_selected])

    # on the air

    def _begin(self, sender: _TowerSender, copy: BroadcastCopy) -> None:
        """Send a copy once; its signal arrives at each user after a propagation delay."""
        now_s = self._env.now
        medium = self._medium
        connection = medium.connection
        tower = sender.tower.cell.tower
        ids = sender.tower.cell.ids[copy.users]

        # the mode, or the rate of the weakest receiver, and so the airtime; the tower must stay up for so long
        mode = 0
        rate_bps = None
        if medium.follows_snr:
            rate_bps = float(medium.rates_bps(ids, tower, now_s, self._boost_of(ids, tower)).min())
            airtime_s = copy.bits / rate_bps
        else:
            if self._by_user:
                mode = int(medium.choose(ids, tower, now_s, self._boost_of(ids, tower))[0])
            else:
                mode = medium.most_robust_mode(copy.bits)
            airtime_s = copy.bits / float(np.max(medium.mode_rates_bps(ids[:1], mode)))
        is_tower_up = connection.is_node_up(tower.number, now_s)
        is_sent = is_tower_up and connection.is_up_during(tower.number, now_s, now_s + airtime_s)
        sending = _Sending(sender, copy, mode, airtime_s, is_sent, is_tower_up, rate_bps)
        sender.is_sending = True
        if is_tower_up:
            sender.tower.cell.transmitter.send(now_s, now_s + airtime_s)
        copy.sendings += 1
        self._count_sending(copy)

        # the signal reaches users group by group; the tower is free after the silence of its duty cycle
        groups = _group_by_delay(copy.users, medium.delay_s(ids, tower, now_s))
        sending.groups = len(groups)
        for users, delay_s in groups:
            if delay_s:
                call_after(self._env, delay_s, partial(self._arrive_at_users, sending, users))
            else:
                self._begin_reception(sending, users)
        busy_s = airtime_s
        if is_tower_up:
            busy_s = airtime_s / self._duty_cycle
        call_after(self._env, busy_s, lambda _: self._free(sender))

    def _boost_of(self, ids: Users, tower: NodeId) -> float | Floats:
        """Return the SNR of the signal of *tower* at each user above that of the user at the tower, in dB."""
        if self._boost is None:
            return 0.0
        return self._boost.of(ids, tower.name)

    def _count_sending(self, copy: BroadcastCopy) -> None:
        self._log.downlink_bits += copy.bits
        lag = float(self._newest - copy.version)
        self._log.metrics["version_lag_max"] = max(self._log.metrics["version_lag_max"], lag)

    def _free(self, sender: _TowerSender) -> None:
        sender.is_sending = False
        self._send_next(sender)

    def _arrive_at_users(self, sending: _Sending, users: Users, event: simpy.Event) -> None:
        self._begin_reception(sending, users)

    def _begin_reception(self, sending: _Sending, users: Users) -> None:
        """Let the signal of a copy arrive at *users* from now on."""
        now_s = self._env.now
        copy = sending.copy
        medium = self._medium
        cell = sending.sender.tower.cell
        ids = cell.ids[users]
        cell.pay_for_reception(users, sending.airtime_s, is_tower_up=sending.is_tower_up)
        end_s = now_s + sending.airtime_s
        boost_db = self._boost_of(ids, cell.tower)
        signal = Signal(cell.tower, now_s, end_s, copy.bits, sending.mode, boost_db, sending.rate_bps)
        is_received = medium.downlink_received(ids, signal, is_sent=sending.is_sent)
        end = partial(self._end_reception, sending, users, is_received)
        call_after(self._env, sending.airtime_s, lambda _: self._env.at_end(Stage.VERSIONS, end))

    def _end_reception(self, sending: _Sending, users: Users, is_received: Bools) -> None:
        """Deliver a copy; after the last of its users, send it again to the others, if any sendings are left."""
        copy = sending.copy
        sending.sender.tower.deliver(copy.version, users[is_received])
        if is_received.any():
            self._note_reception(copy.version)
        sending.missed.append(users[~is_received])
        sending.groups -= 1
        if sending.groups:
            return
        copy.users = np.concatenate(sending.missed)
        if copy.users.size and copy.sendings < self._max_attempts:
            self._arrive(copy)
        else:
            self._end(copy, "given_up")

    # the end of a copy, and of a version

    def _note_reception(self, version: int) -> None:
        """Note that a user has *version*: its copies that have ended are not sent again."""
        self._unreceived = 0
        status = self._status.get(version)
        if status is not None and not status.is_received:
            status.is_received = True
            self._give_up(version)

    def _end(self, copy: BroadcastCopy, cause: str = "superseded") -> None:
        """End a copy; if no user has its version, those that can do nothing else wait for it to be sent again."""
        tower = self._sender(copy).tower
        status = self._status[copy.version]
        status.copies -= 1
        tower.end_copy(copy.version)

        # its users miss the version, except those that wait until it is sent again
        users = copy.users
        waiting_users = users[:0]
        if copy.version == self._newest and not status.is_received:
            waiting_users = users[tower.has_to_wait(users)]
        tower.miss(copy.version, np.setdiff1d(users, waiting_users), cause)
        if waiting_users.size:
            copy.users = waiting_users
            copy.cause = cause
            status.unreceived.append(copy)
            self._count_unreceived()

        if status.copies:
            return
        if status.unreceived:
            self._repeat(copy.version)
        elif copy.version < self._newest:
            del self._status[copy.version]

    def _supersede_scheduled(self, version: int) -> None:
        """End copies of *version* that wait until they can be sent again, as a newer version follows."""
        status = self._status[version]
        scheduled = status.scheduled
        status.scheduled = []
        for copy in scheduled:
            self._log.metrics["versions_superseded"] += len(copy.users)
            self._end(copy, "superseded")

    def _give_up(self, version: int) -> None:
        """Let the users of copies of *version* that have ended miss it."""
        status = self._status[version]
        unreceived = status.unreceived
        status.unreceived = []
        for copy in unreceived:
            self._sender(copy).tower.miss(version, copy.users, copy.cause)
        if not status.copies and version < self._newest:
            del self._status[version]

    def _count_unreceived(self) -> None:
        """Count a copy that no user has received.

        Raises:
            ModelError: there are too many in a row in a round that cannot close without them.
        """
        self._unreceived += 1
        if self._unreceived > self._max_unreceived:
            problem = (
                f"round {self._log.round}: {self._unreceived} copies of a version in a row were received by no user; "
                "the signal of the towers may be too weak everywhere (downlink.power), or a queue may drop each copy; "
                "a deadline would close such rounds"
            )
            raise ModelError("network", problem, time_s=self._env.now)

    def _repeat(self, version: int) -> None:
        """Send again all copies of a version that no user has received, each when it can arrive."""
        status = self._status[version]
        unreceived = status.unreceived
        status.unreceived = []
        can_arrive_s = [self._can_arrive_s(copy) for copy in unreceived]
        for copy, at_s in zip(unreceived, can_arrive_s, strict=True):
            tower = self._sender(copy).tower
            if np.isinf(at_s):  # no user of this copy can ever receive it
                tower.miss(version, copy.users, copy.cause)
                continue
            status.copies += 1
            tower.begin_copy(version)
            status.scheduled.append(copy)
            call_after(self._env, at_s - self._env.now, partial(self._send_again, copy))

    def _can_arrive_s(self, copy: BroadcastCopy) -> float:
        """Return when a copy can be sent again; infinity if no user can ever receive it."""
        tower = self._sender(copy).tower
        now_s = self._env.now
        ids = tower.cell.ids[copy.users]
        boost_db = self._boost_of(ids, tower.cell.tower)
        ids = ids[self._medium.can_receive(ids, tower.cell.tower, copy.bits, boost_db)]
        if not ids.size:
            return np.inf
        if copy.is_at_tower:  # it is sent as soon as a user is connected
            return float(self._medium.connection.connected_from(ids, tower.cell.tower.number, now_s).min())

        # it was lost on the way, and sets out again
        wait_s = max(self._routes.delay_s(tower.name, copy.bits, now_s), _MIN_WAIT_S)
        route = self._routes.numbers(tower.name, now_s)[None, :]
        at_s = float(self._state.all_up_later_s(route, now_s + wait_s)[0])
        if self._routes.fixed:
            return at_s
        if copy.losses > _MAX_LOSSES:
            return np.inf
        return min(at_s, now_s + wait_s * 2.0**copy.losses)  # another route may open before this one does

    def _send_again(self, copy: BroadcastCopy, event: simpy.Event) -> None:
        """Send a copy again from where it is, unless its version is received or replaced by now."""
        tower = self._sender(copy).tower
        status = self._status.get(copy.version)
        if status is None or copy not in status.scheduled:
            return  # a newer version has followed
        status.scheduled.remove(copy)
        copy.users = copy.users[tower.is_selected(copy.users)]
        if status.is_received or copy.version < self._newest or not copy.users.size:
            self._end(copy, copy.cause)
            return
        copy.sendings = 0
        if copy.is_at_tower:
            self._arrive(copy)
        else:
            copy.route = self._routes.default_route(tower.name, self._env.now)[::-1]
            self._routes.forward_down(copy)


def _group_by_delay(users: Users, delay_s: Floats | None) -> list[tuple[Users, float]]:
    """Return groups of *users* with the same propagation delay, and the delay of each group."""
    if delay_s is None:
        return [(users, 0.0)]
    return [(users[delay_s == group_s], group_s) for group_s in np.unique(delay_s).tolist()]
