"""A tower's way down: it hands the versions that reach it on to the users of its cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.backhaul.routes import Routes
from netfl.network.clock import call_after
from netfl.network.config import NetworkConfig
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.network.radio.cell import Cell
from netfl.network.radio.isolated_cells import split_cells
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import UserPacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import MergedTxQueue, TxQueue, Users
from netfl.network.transport.segmentation import SegmentedUpdates
from netfl.network.users import UserBehaviour, UserPopulation, WholeUpdates
from netfl.streams import Streams

Sink = Callable[[Message], None]

_NONE = np.iinfo(np.int64).max
"""The version of those who are to have none."""


class Tower:
    """What a tower has to send to its users, and will have.

    Args:
        cell: its cell.
        node: its node number.
        updates: what its users are at; ``None`` where they have traffic alone.
        medium: who can hear it.
        name: its name.
        aside: the cells of those of its users who have a medium of their own.

    Attributes:
        cells: all of them.
        coming: how many copies of each version are on their way to users.
    """

    def __init__(
        self,
        cell: Cell,
        node: int,
        updates: UserPopulation | None,
        medium: Medium,
        name: str = "tower:0",
        aside: Sequence[Cell] = (),
    ) -> None:
        self.cell, self.name, self.place, self._updates, self._medium = cell, name, (name, node), updates, medium
        self.cells = (*aside, cell)
        self._place = {int(number): place for place, number in enumerate(cell.ids)} if aside else {}
        self.coming: Counter[int] = Counter()
        self._newest, self._newest_s = np.full(cell.size, -1), np.zeros(cell.size)  # of the dismissed, _NONE
        self._back_s = np.full(cell.size, -np.inf)  # until when each is known to be cut off

    def expect(self, version: int, at_s: float, users: Users | None = None) -> None:
        """The tower will have *version* at *at_s* for *users*, by default all.

        Older ones that would come no sooner are not heard any more.
        """
        whom = np.arange(self.cell.size) if users is None else users
        self._newest[whom], self._newest_s[whom] = version, at_s
        self.coming[version] += 1
        call_after(self.cell.env, at_s - self.cell.env.now, lambda _: self._hear(version, whom))

    def promise(self, version: int, users: Users) -> None:
        """A copy of *version* sets out for *users*, who will be handed it, or miss it."""
        self._newest[users] = version
        self.coming[version] += 1

    def hand(self, version: int, users: Users) -> None:
        """*users* receive *version* now, those of them who are wanted and have no newer one."""
        if self._updates is not None:
            users = users[(self._updates.held[users] <= version) & (self._newest[users] < _NONE)]
            self._updates.hear(version, users, np.full(len(users), self.cell.env.now), self.cell.env.now)
            self.wake(users)

    def miss(self, version: int, users: Users) -> None:
        """A copy of *version* has done what it can: *users* do not receive it."""
        self._came(version)
        if self._updates is not None:
            users = users[self._newest[users] < _NONE]
            self._updates.miss(version, users, self.cell.env.now)
            self.wake(users)

    def _came(self, version: int) -> None:
        """A copy of *version* is on its way no more."""
        self.coming[version] -= 1
        if not self.coming[version]:
            del self.coming[version]

    def dismiss(self, users: Users) -> None:
        """*users* are not wanted for now, whatever they are at."""
        if self._updates is not None:
            self._newest_s[users] = 0.0
            self._newest[users] = _NONE
            self._updates.dismiss(users, self.cell.env.now)
            self.wake(users)

    def wake(self, users: Users) -> None:
        """Tell the MACs of *users* whose entries have changed."""
        self.cell.wake(users)
        for cell in self.cells[:-1]:
            if self._place[int(cell.ids[0])] in users:
                cell.wake(np.zeros(1, np.int64))

    def versions(self) -> set[int]:
        """The versions that its users have, or will have."""
        held: set[int] = set() if self._updates is None else self._updates.versions()
        return held | set(self.coming)

    def idle(self) -> Users:
        """The users who are at no update."""
        return np.arange(0) if self._updates is None else np.flatnonzero(~self._updates.open)

    def tell(self) -> None:
        """Record what has come about up to now without anybody looking."""
        if self._updates is not None:
            self._updates.tell(self.cell.env.now)

    def _hear(self, version: int, users: Users) -> None:
        """The tower has a version and hands it on to *users*, but to those whom a newer one has reached."""
        now = self.cell.env.now
        self._came(version)
        users = users[(self._newest[users] <= version) | (self._newest_s[users] > now)]
        if self._updates is None or not users.size:
            return
        self._updates.hear(version, users, self._due_s(users, now), now)
        self.wake(users)

    def _due_s(self, users: Users, now_s: float) -> NDArray[np.float64]:
        """When each of *users* receives what the tower hands on now; who is known to be cut off is not asked about."""
        ids, node, due_s = self.cell.ids[users], self.place[1], np.maximum(self._back_s[users], now_s)
        asked = np.flatnonzero(due_s == now_s)
        cut = asked[~self._medium.connected(ids[asked], node, now_s)]
        if cut.size:
            due_s[cut] = self._medium.connected_from(ids[cut], node, now_s)
            if self._medium.foreseen:
                self._back_s[users[cut]] = due_s[cut]
        return np.asarray(due_s)


def build_towers(
    parts: NetworkConfig,
    env: simpy.Environment,
    ledger: EventLog,
    sinks: Mapping[str, Sink],
    streams: Streams,
    routes: Routes,
) -> dict[str, Tower]:
    """The towers whose users have something to send, each with its cell."""
    towers: dict[str, Tower] = {}
    if parts.medium is None or parts.mac is None:
        return towers
    ether, early = SharedChannel(), any(one.leaves == "tower" for one in parts.traffic if one.enters == "users")
    for index, name in enumerate(parts.sites.towers):
        ids, node = np.flatnonzero(parts.sites.cell == index), parts.sites.number(name)
        updates = _updates(parts, parts.medium, ids, name, ledger, (env, routes)) if ids.size else None
        loads: list[TxQueue] = [] if updates is None else [updates]
        loads += _packets(parts, parts.medium, ids, name, ledger, streams) if ids.size else []
        if not loads:
            continue
        load = reduce(MergedTxQueue, loads)
        sink = parts.spare.marking(_early(name, sinks[name], env, ledger) if early else sinks[name])
        make = partial(_cell, env, (name, node), parts.medium, sink)
        alone = np.flatnonzero(parts.spare.among("contention", ids)).tolist()
        *aside, cell = split_cells(
            load, alone, ether if parts.shared_air else SharedChannel(), streams.at("mac", index), make
        )
        towers[name] = tower = Tower(cell, node, updates, parts.medium, name, aside)
        if updates is not None:
            updates.wake = tower.wake
    return towers


def _cell(
    env: simpy.Environment,
    tower: tuple[str, int],
    medium: Medium,
    uplink: Sink,
    load: TxQueue,
    ether: SharedChannel,
    streams: Streams,
) -> Cell:
    """A cell at work."""
    return Cell(env, tower, load, medium=medium, ether=ether, streams=streams, uplink=uplink)


def _updates(
    parts: NetworkConfig,
    medium: Medium,
    ids: Users,
    tower: str,
    ledger: EventLog,
    above: tuple[simpy.Environment, Routes],
) -> UserPopulation | None:
    """The updates of one cell's users, whole or in packets; *above* are the clock and the way to the server."""
    service, (env, routes) = parts.service, above
    if service is None:
        return None
    train = partial(_train, medium, service.samples) if parts.presence.is_metered else None
    conduct = UserBehaviour(service.busy, service.rule.needs_disconnected, train, service.luck, parts.spending)
    cut, compute_s = service.cut, service.compute_s[ids]
    if service.transport.grain != "packet":
        return WholeUpdates(ids, compute_s, cut.most_bits, tower, ledger, conduct)

    def back_s(user: int) -> float:
        air_s = medium.delay_s(np.array([user]), env.now)
        return routes.delay_s(tower, 0.0, env.now) + (0.0 if air_s is None else float(air_s[0]))

    arq = service.transport.arq
    return SegmentedUpdates(ids, compute_s, cut, tower, ledger, arq=arq, env=env, back_s=back_s, conduct=conduct)


def _packets(
    parts: NetworkConfig, medium: Medium, ids: Users, tower: str, ledger: EventLog, streams: Streams
) -> list[TxQueue]:
    """The traffic of one cell's users."""
    loads: list[TxQueue] = []
    for number, traffic in enumerate(parts.traffic):
        if traffic.enters == "users":
            link_bps = 1.0 / medium.airtime_s(1.0)
            loads.append(UserPacketQueue(ids, traffic, link_bps, tower, ledger, streams.at("traffic", number)))
    return loads


def _train(medium: Medium, samples: NDArray[np.float64], ids: Users, at_s: NDArray[np.float64]) -> None:
    """Users begin to train on their *samples*, ``[users]``."""
    medium.train(ids, at_s, samples[ids])


def _early(tower: str, sink: Sink, env: simpy.Environment, ledger: EventLog) -> Sink:
    """What takes messages at *tower*, where traffic has arrived already."""

    def take(message: Message) -> None:
        if message.base == TRAFFIC:
            ledger.land(message, "delivered", env.now, node=tower)
        else:
            sink(message)

    return take
