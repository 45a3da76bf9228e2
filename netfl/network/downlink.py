"""Downlink: the path of versions from the server to the users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from netfl.network.backhaul.routes import Routes
from netfl.network.clock import call_after
from netfl.network.config import NetworkContext, RoundServiceConfig
from netfl.network.message import VERSION, BroadcastMessage
from netfl.network.radio.transmission import Signal
from netfl.network.tower import Tower
from netfl.types import Bools, Ints

Users = Ints


class IdealDownlink:
    """Path without losses: the delay and rate of each link, then the broadcast rate.

    Versions wait where the route is interrupted.

    Attributes:
        bits: Size of a broadcast.
    """

    def __init__(self, network: NetworkContext, service: RoundServiceConfig, routes: Routes) -> None:
        self._env, self._log, self._outstanding = network.env, network.log, network.outstanding
        self._routes, self._state, self._exemptions = routes, network.config.node_state, network.config.exemptions
        self.bits, self._rate_bps = service.broadcast_bits, service.broadcast_bps

    def send(self, tower: Tower, version: int, users: Users) -> None:
        """Send *version* from the server to *users* of the cell of *tower*."""
        now_s = self._env.now
        self._log.downlink_bits += self.bits
        delay_s = self._routes.delay_s(tower.name, self.bits, now_s) + self.bits / self._rate_bps
        route = self._routes.numbers(tower.name, now_s)[None, :]
        at_s = float(self._state.all_up_later_s(route, now_s + delay_s)[0])
        if self._exemptions.outage and (exempt := self._exemptions.among("outage", tower.cell.ids[users])).any():
            tower.schedule_broadcast(version, now_s + delay_s, users[exempt])
            users = users[~exempt]
        if np.isinf(at_s):
            self._outstanding.cancel(tower.cell.ids[users], version)
        elif users.size:
            tower.schedule_broadcast(version, at_s, users)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of a version at a tower.

    Args:
        users: Users that have not received it.
        repetitions: Number of sendings that may follow the first.
        bits: Size of the version.
    """

    tower: Tower
    version: int
    users: Users
    repetitions: int
    bits: float


class LossyDownlink:
    """Path over queues and fading channels, as `netfl.network.config.Downlink` describes.

    Attributes:
        bits: Size of a broadcast.
    """

    def __init__(self, network: NetworkContext, service: RoundServiceConfig, routes: Routes) -> None:
        config = network.config
        assert service.downlink is not None
        assert config.medium is not None
        self._downlink, self._medium, self._exemptions = service.downlink, config.medium, config.exemptions
        self._env, self._log, self._routes = network.env, network.log, routes
        self.bits, self._boost_db = service.broadcast_bits, service.boost_db
        self._free_s: dict[str, float] = {}

    def send(self, tower: Tower, version: int, users: Users) -> None:
        """Send *version* from the server to *users* of the cell of *tower*."""
        for group in [users] if self._downlink.mode == "multicast" else np.split(users, len(users)):
            tower.announce(version, group)
            ids, now_s = tower.cell.ids[group], self._env.now
            copy = _Copy(tower, version, group, self._downlink.max_attempts - 1, self.bits)
            message = BroadcastMessage(
                user=-1,
                base=VERSION,
                bits=self.bits,
                sent_s=now_s,
                attempts=1,
                flow=int(ids[0]),
                bypass_queue=bool(self._exemptions.among("queue", ids).all()),
                ignore_outages=bool(self._exemptions.among("outage", ids).all()),
                route=self._routes.default_route(tower.name, now_s)[::-1],
                on_arrival=partial(self._schedule, copy),
                on_loss=partial(tower.drop, version, group),
            )
            self._routes.forward_down(message)

    def _schedule(self, copy: _Copy) -> None:
        """Send a copy as soon as its tower has sent those before it."""
        now_s, tower = self._env.now, copy.tower
        mode = 0
        if self._downlink.mode == "unicast" and self._medium.modes > 1:
            mode = int(self._medium.choose(tower.cell.ids[copy.users], tower.cell.tower, now_s, self._boost_db)[0])
        airtime_s = self._medium.airtime_s(copy.bits, mode) if mode else self._medium.longest_s(copy.bits)
        start_s = max(now_s, self._free_s.get(tower.name, 0.0))
        self._free_s[tower.name] = start_s + airtime_s
        call_after(self._env, start_s - now_s, lambda _: self._begin(copy, mode, airtime_s))

    def _begin(self, copy: _Copy, mode: int, airtime_s: float) -> None:
        now_s, tower = self._env.now, copy.tower.cell.tower
        ids = copy.tower.cell.ids[copy.users]
        self._log.downlink_bits += copy.bits
        if self._medium.energy is not None:
            self._medium.energy.receive(ids[self._medium.connected(ids, tower.number, now_s)], airtime_s)
        signal = Signal(tower, now_s, now_s + airtime_s, copy.bits, mode, self._boost_db)
        received = self._medium.downlink_received(ids, signal)
        call_after(self._env, airtime_s, lambda _: self._end(copy, received))

    def _end(self, copy: _Copy, received: Bools) -> None:
        """Deliver a copy, and send it again to the other users, if any sendings are left."""
        copy.tower.deliver(copy.version, copy.users[received])
        others = copy.users[~received]
        if copy.repetitions and others.size:
            self._schedule(replace(copy, users=others, repetitions=copy.repetitions - 1))
        else:
            copy.tower.drop(copy.version, others)


DownlinkPath = IdealDownlink | LossyDownlink
