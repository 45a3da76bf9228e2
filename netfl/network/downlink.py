"""The way down: how versions get from the server to the users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.backhaul.routes import Routes
from netfl.network.clock import call_after
from netfl.network.config import Downlink, NetworkConfig, RoundServiceConfig
from netfl.network.counterfactual import NOBODY, Exemptions
from netfl.network.event_log import EventLog
from netfl.network.message import VERSION, BroadcastMessage
from netfl.network.outage._state import NodeState
from netfl.network.radio.medium import Medium
from netfl.network.tower import Tower

Users = NDArray[np.int64]


class DownlinkPath(ABC):
    """How versions get to the users."""

    @abstractmethod
    def send(self, tower: Tower, version: int, users: Users) -> None:
        """The server sends *version* to *users* of the cell of *tower*."""


@dataclass(frozen=True, slots=True)
class IdealDownlink(DownlinkPath):
    """Versions take the links' delays, each link's rate and the broadcast rate; where a route is cut off they wait.

    Args:
        env: the clock.
        ledger: counts the bits.
        routes: the links.
        presence: who is up.
        bits: size of a version.
        rate_bps: at which a tower sends.
        spare: for whom the route is never cut off.
    """

    env: simpy.Environment
    ledger: EventLog
    routes: Routes
    presence: NodeState
    bits: float
    rate_bps: float
    spare: Exemptions = NOBODY

    def send(self, tower: Tower, version: int, users: Users) -> None:
        """They have it when the whole route is up; never, if it never is."""
        now = self.env.now
        self.ledger.downlink_bits += self.bits
        delay_s = self.routes.delay_s(tower.name, self.bits, now) + self.bits / self.rate_bps
        route = self.routes.numbers(tower.name, now)[None, :]
        at_s = float(self.presence.all_up_later_s(route, now + delay_s)[0])
        if self.spare.outage and (spared := self.spare.among("outage", tower.cell.ids[users])).any():
            tower.expect(version, now + delay_s, users[spared])
            users = users[~spared]
        if np.isinf(at_s):
            self.ledger.strand(tower.cell.ids[users], version)
        elif users.size:
            tower.expect(version, at_s, users)


class LossyDownlink(DownlinkPath):
    """Versions cross queues and fading channels, as `Downlink` says.

    Args:
        downlink: how.
        env: the clock.
        ledger: counts the bits.
        medium: the air.
        routes: the links.
        bits: size of a version.
        boost_db: by how much towers send stronger than users.
        spare: whose own copies neither wait nor end at ports.
    """

    def __init__(
        self,
        downlink: Downlink,
        *,
        env: simpy.Environment,
        ledger: EventLog,
        medium: Medium,
        routes: Routes,
        bits: float,
        boost_db: float,
        spare: Exemptions = NOBODY,
    ) -> None:
        self._downlink, self._env, self._ledger, self._medium, self._routes = downlink, env, ledger, medium, routes
        self._bits, self._boost_db, self._spare = bits, boost_db, spare
        self._free_s: dict[str, float] = {}

    def send(self, tower: Tower, version: int, users: Users) -> None:
        """One copy for all, or one for each, sets out at the server."""
        for some in [users] if self._downlink.mode == "multicast" else np.split(users, len(users)):
            tower.promise(version, some)
            ids = tower.cell.ids[some]
            self._routes.carry(
                BroadcastMessage(
                    -1,
                    VERSION,
                    self._bits,
                    self._env.now,
                    1,
                    flow=int(ids[0]),
                    express=bool(self._spare.among("queue", ids).all()),
                    immune=bool(self._spare.among("outage", ids).all()),
                    version=version,
                    way=self._routes.usual(tower.name, self._env.now)[::-1],
                    arrived=partial(self._air, tower, version, some, self._downlink.tries),
                    lost=partial(tower.miss, version, some),
                )
            )

    def _air(self, tower: Tower, version: int, users: Users, tries: int) -> None:
        """The tower has a copy for *users*, and sends it once those before it are sent."""
        now = self._env.now
        mode = 0
        if self._downlink.mode == "unicast" and self._medium.modes > 1:
            mode = int(self._medium.choose(tower.cell.ids[users], tower.place, now, self._boost_db)[0])
        airtime_s = self._medium.airtime_s(self._bits, mode) if mode else self._medium.longest_s(self._bits)
        start_s = max(now, self._free_s.get(tower.name, 0.0))
        self._free_s[tower.name] = start_s + airtime_s
        how = (tower, version, users, tries - 1)
        call_after(self._env, start_s - now, lambda _: self._begin(how, mode, airtime_s))

    def _begin(self, how: tuple[Tower, int, Users, int], mode: int, airtime_s: float) -> None:
        """A sending begins: who will have received it at its end."""
        (tower, _, users, _), now = how, self._env.now
        self._ledger.downlink_bits += self._bits
        if self._medium.spending is not None:
            ids = tower.cell.ids[users]
            self._medium.spending.receive(ids[self._medium.connected(ids, tower.place[1], now)], airtime_s)
        heard = self._medium.hears(
            tower.cell.ids[users], tower.place, (now, now + airtime_s), self._bits, mode, self._boost_db
        )
        call_after(self._env, airtime_s, lambda _: self._end(how, heard))

    def _end(self, how: tuple[Tower, int, Users, int], heard: NDArray[np.bool_]) -> None:
        """A sending ends: some have the version, the others may be sent it again."""
        tower, version, users, tries = how
        tower.hand(version, users[heard])
        if tries and not heard.all():
            self._air(tower, version, users[~heard], tries)
        else:
            tower.miss(version, users[~heard])


def build_downlink(
    parts: NetworkConfig, service: RoundServiceConfig, env: simpy.Environment, ledger: EventLog, routes: Routes
) -> DownlinkPath:
    """The way down of a network."""
    bits = service.broadcast_bits
    if service.downlink is None:
        return IdealDownlink(env, ledger, routes, parts.presence, bits, service.broadcast_bps, parts.spare)
    if parts.medium is None:
        raise ValueError("a way down over the air needs air")
    medium, boost_db, spare = parts.medium, service.boost_db, parts.spare
    return LossyDownlink(
        service.downlink,
        env=env,
        ledger=ledger,
        medium=medium,
        routes=routes,
        bits=bits,
        boost_db=boost_db,
        spare=spare,
    )
