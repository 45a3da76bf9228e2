"""Towers: their cells and users, and the versions that they pass on to these users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, cast

import numpy as np

from netfl.core.kinds import stream_keys
from netfl.core.plugins import is_plugin
from netfl.errors import ModelError
from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.backhaul.sinks import end_traffic
from netfl.network.clock import Clock, Stage, call_after, call_at
from netfl.network.config import NetworkConfig
from netfl.network.counterfactual.cells import isolate_users
from netfl.network.counterfactual.population import PersistentPopulation, cuts_of_users
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.mac import Mac
from netfl.network.mac._conformance import CheckedCell
from netfl.network.membership import Membership, concatenate_rows, select_row
from netfl.network.periods import after_rounding
from netfl.network.radio.answer_queue import AnswerQueue
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, Hearer, Medium, TowerTransmitter
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.receiver import Receiver
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import MergedTxQueue, TxQueue
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.traffic import class_names
from netfl.network.transport.segmentation import SegmentedUpdateQueue
from netfl.network.transport.spec import Segmentation
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import TrainingPower, UserBehaviour, UserPopulation
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Users

_NOT_SELECTED = np.iinfo(np.int64).max
"""Version of users that are to receive none: those that are not selected, or are at another tower."""
_NOBODY = np.empty(0, np.int64)


class Tower:
    """The versions that a tower has for its users, or will have.

    Args:
        population: its users; ``None`` where they send traffic only, and so get no versions.
        present: the present values of its users, who receive a version while they are connected.
        isolated_cells: cells of single users that have a medium of their own.
        index: its index in `netfl.network.layout.Layout.towers`.
        absent: slots of users that are at another tower.
        answers: queue of the answers to evaluations; ``None`` if users answer nothing.

    Attributes:
        copies: number of copies of each version that are on their way to users.
    """

    def __init__(
        self,
        cell: Cell,
        population: UserPopulation | None,
        present: PresentValues,
        isolated_cells: Sequence[Cell] = (),
        index: int = 0,
        absent: Users = _NOBODY,
        answers: AnswerQueue | None = None,
    ) -> None:
        self.answers = answers
        self.cell = cell
        self.index = index
        self.name = cell.tower.name
        self.present = present
        self._connection = present.connection
        self._population = cast(UserPopulation, population)  # only rounds use it
        if population is not None:
            population.plan_returns = self._plan_returns
        self.cells = (*isolated_cells, cell)
        self._number_of = dict[int, int]()  # of users by their ids, which `wake` needs for isolated cells
        if isolated_cells:
            self._number_of = {int(user): number for number, user in enumerate(cell.ids)}
        self.copies: Counter[int] = Counter()
        self._on_copy_end: Callable[[], None] | None = None
        # of each user, the newest version on its way, when the tower sends it, and the end of the outage that is known
        self._newest = np.full(cell.size, -1)
        self._newest_s = np.zeros(cell.size)
        self._connected_s = np.full(cell.size, -np.inf)
        # until when that version waits for the end of an outage of its route, and how often each user has left
        self._held_s = np.full(cell.size, -np.inf)
        self._departures = np.zeros(cell.size, np.int64)
        if absent.size:
            self._set_present(absent, is_present=False)
            self._newest[absent] = _NOT_SELECTED

    def set_frequency(self, factor: Floats) -> None:
        """Let trainings of its users that begin from now on run at *factor* times their frequency, ``[size]``."""
        self._population.set_frequency(factor)

    def schedule_broadcast(
        self, version: int, at_s: float, users: Users | None = None, *, held_s: float = -np.inf
    ) -> None:
        """Send *version* to *users*, by default all, at *at_s*; older ones that would come no sooner are skipped.

        Until *held_s* it waits for the end of an outage; users that leave before get it from their new towers.
        """
        env = self.cell.env
        receivers = np.arange(self.cell.size) if users is None else users
        self._newest[receivers] = version
        self._newest_s[receivers] = at_s
        self._held_s[receivers] = held_s
        self.begin_copy(version)
        broadcast = partial(self._broadcast, version, receivers, self._departures[receivers])
        call_after(env, at_s - env.now, lambda _: env.at_end(Stage.VERSIONS, broadcast))

    def announce(self, version: int, users: Users) -> None:
        """Note that a copy of *version* sets out for *users*; `end_copy` follows, and `miss` for those not reached."""
        self._newest[users] = version
        self.begin_copy(version)

    def begin_copy(self, version: int) -> None:
        """Count a copy of *version* that sets out."""
        self.copies[version] += 1

    def end_copy(self, version: int) -> None:
        """Count a copy of *version* as ended."""
        self.copies[version] -= 1
        if not self.copies[version]:
            del self.copies[version]
            if self._on_copy_end is not None:
                on_copy_end = self._on_copy_end
                call_after(self.cell.env, 0.0, lambda _: on_copy_end())  # once its users have received it

    def is_selected(self, users: Users) -> Bools:
        """Return whether the server has not dismissed each of *users*, ``[n]``."""
        return np.asarray(self._newest[users] < _NOT_SELECTED)

    def strongest_copy(self, user: int) -> NodeId | None:
        """Return the tower that heard the last frame of *user* best of those sent here; ``None`` for none."""
        for cell in self.cells:
            receivers = cell.transmit_path.receivers
            if receivers is not None and user in receivers.strongest:
                return receivers.strongest[user]
        return None

    def has_to_wait(self, users: Users) -> Bools:
        """Return whether each of *users*, if it misses a version, can do nothing but wait for it, ``[n]``."""
        return self._population.has_to_wait(users)

    def deliver(self, version: int, users: Users) -> None:
        """Let *users* receive *version* now, except those that are not selected or have a newer one."""
        has_newer = self._population.version[users] > version
        users = users[~has_newer & self.is_selected(users)]
        now_s = self.cell.env.now
        self._population.receive_version(version, users, np.full(len(users), now_s), now_s)
        self.wake(users)

    def miss(self, version: int, users: Users, cause: str) -> None:
        """Let *users* miss *version*, except those that are not selected."""
        if not users.size:
            return
        self.note_missed(version, users, cause)
        users = users[self.is_selected(users)]
        self._population.miss_version(version, users, self.cell.env.now)
        self.wake(users)

    def note_missed(self, version: int, users: Users, cause: str) -> None:
        """Record that *users* do not receive *version*."""
        self._population.record_missed(version, users, cause, self.cell.env.now)

    def dismiss(self, users: Users) -> None:
        """Let *users*, which are not selected, abandon their updates."""
        self._newest[users] = _NOT_SELECTED
        self._newest_s[users] = 0.0
        self._population.dismiss(users, self.cell.env.now)
        self.wake(users)

    def wake(self, users: Users) -> None:
        """Report changed frames of *users* to their MACs."""
        self.cell.wake(users)
        for cell in self.cells[:-1]:
            if self._number_of[int(cell.ids[0])] in users:
                cell.wake(np.zeros(1, np.int64))

    def versions(self) -> set[int]:
        """Return the versions that its users have, or will have."""
        return self._population.versions() | set(self.copies)

    def set_update_cuts(self, cuts: Sequence[Segmentation]) -> None:
        """Set the frames of the updates that each user begins from now on, ``[size]``."""
        self._population.queue.set_cuts(cuts)

    @property
    def update_bits(self) -> Floats:
        """Size of the whole update that each user begins from now on, ``[size]``."""
        return self._population.queue.next_bits

    def is_idle(self, users: Users) -> Bools:
        """Return whether each of *users* has no open update, ``[n]``."""
        return ~self._population.queue.is_busy(users)

    def has_work(self, slots: Users) -> Bools:
        """Return whether anything is under way of or to the user of each of *slots*, ``[n]``."""
        return self.is_bound(slots) | self._population.has_work(slots)

    def is_bound(self, slots: Users) -> Bools:
        """Return whether the user of each of *slots* cannot leave now, ``[n]``.

        It sends, or has sent a part of its update, or a copy of a version is on its way to it.
        """
        is_bound = self._population.queue.has_begun(slots) | self._awaits_copy(slots)
        for cell in self.cells:
            senders = cell.ids[cell.transmit_path.is_sending()]  # of an update that a newer version has replaced, too
            is_bound |= np.isin(self.cell.ids[slots], senders)
        return is_bound

    def _awaits_copy(self, slots: Users) -> Bools:
        """Return whether a copy of a version is on its way to the user of each of *slots*, ``[n]``."""
        return self._expects_copy(slots) & ~self._is_held(slots)

    def _expects_copy(self, slots: Users) -> Bools:
        """Return whether the user of each of *slots* will get a copy of a version, ``[n]``.

        It is of a version that the user does not have, from which the server may expect no update any more; or of the
        one that it has, from which it is to train again.
        """
        newest = self._newest[slots]
        present = self._population.version[slots]
        trains_again = (newest == present) & self._population.is_awaited(slots)
        return np.asarray(((newest > present) | trains_again) & np.isin(newest, [*self.copies]))

    def _is_held(self, slots: Users) -> Bools:
        """Return whether the newest version of each of *slots* waits for the end of an outage of its route, ``[n]``."""
        return np.asarray(after_rounding(self.cell.env.now) < self._held_s[slots])

    def take_row(self, slots: Users) -> dict[str, Any]:
        """Take the rows of users who leave out of their *slots*; see `netfl.network.membership.Row`."""
        is_held = self._expects_copy(slots) & self._is_held(slots)
        row = {
            "devices": self._take_devices(slots),  # first: it asks for the frames of the users
            "held": np.where(is_held, self._newest[slots], -1),
            "newest": self._newest[slots].copy(),
            "newest_s": self._newest_s[slots].copy(),
            "population": self._population.take_row(slots, self.cell.env.now),
        }
        self._newest[slots] = _NOT_SELECTED  # copies of versions that are on their way find nobody
        self._newest_s[slots] = 0.0
        self._connected_s[slots] = -np.inf
        self._held_s[slots] = -np.inf
        self._departures[slots] += 1
        self._set_present(slots, is_present=False)
        self._forget_copies(slots)
        self.wake(slots)
        return row

    def put_row(self, slots: Users, row: Mapping[str, Any]) -> None:
        """Put the rows of users who come from another tower into their *slots*.

        This tower sends them now what they would have received there at the end of an outage.
        """
        now_s = float(self.cell.env.now)
        self._newest[slots] = row["newest"]
        self._newest_s[slots] = row["newest_s"]
        self._population.put_row(slots, row["population"], now_s)
        self._set_present(slots, is_present=True)
        self._put_devices(slots, row["devices"])
        self.wake(slots)
        missed = np.maximum(row["population"]["due_version"], row["held"])  # the newer one
        for version in np.unique(missed[missed >= 0]).tolist():
            self.schedule_broadcast(version, now_s, slots[missed == version])

    def drop_waiting(self, slots: Users, tower: str) -> None:
        """End the updates that users of *slots*, who come from another *tower*, wait to send."""
        self._population.drop_waiting(slots, Ending("left", tower), self.cell.env.now)

    def call_on_release(self, release: Callable[[], None]) -> None:
        """Call *release* when frames have left the air, or a copy of a version has ended."""
        for cell in self.cells:
            cell.transmit_path.on_end = release
        self._on_copy_end = release

    def _take_devices(self, slots: Users) -> dict[str, Any]:
        """Take what the MAC knows of the devices of users who leave out of its cells."""
        rows = []
        places = []
        for cell, places_in_cell, users in self._in_cells(slots):
            rows.append({} if cell.devices is None else cell.devices.take(users))
            places.append(places_in_cell)
        return select_row(concatenate_rows(rows), np.argsort(np.concatenate(places)))

    def _put_devices(self, slots: Users, row: Mapping[str, Any]) -> None:
        """Let the MAC know the devices of users who come from another tower."""
        for cell, places, users in self._in_cells(slots):
            if cell.devices is not None:
                cell.devices.put(users, select_row(row, places))

    def _in_cells(self, slots: Users) -> Iterator[tuple[Cell, Ints, Users]]:
        """Yield each cell that has users of *slots*, the places of these among *slots*, and their numbers in it."""
        ids = self.cell.ids[slots]
        is_isolated = np.zeros(len(slots), np.bool_)
        for cell in self.cells[:-1]:
            is_here = ids == cell.ids[0]
            is_isolated |= is_here
            if is_here.any():
                yield cell, np.flatnonzero(is_here), np.zeros(1, np.int64)
        if not is_isolated.all():
            places = np.flatnonzero(~is_isolated)
            yield self.cell, places, slots[places]

    def _forget_copies(self, slots: Users) -> None:
        """Forget which towers have heard the users of *slots*, who leave."""
        for cell in self.cells:
            receivers = cell.transmit_path.receivers
            if receivers is not None:
                for user in self.cell.ids[slots].tolist():
                    receivers.strongest.pop(user, None)

    def _set_present(self, slots: Users, *, is_present: bool) -> None:
        """Let the cells know whether the users of *slots* are at the tower."""
        for cell in self.cells:
            places: Users | Bools = slots
            if cell is not self.cell:  # of a single user
                places = np.isin(cell.ids, self.cell.ids[slots])
            changed = cell.is_present.copy()
            changed[places] = is_present
            cell.is_present = changed

    def record_trainings(self) -> None:
        """Record the trainings that have ended by now."""
        self._population.record_trainings(self.cell.env.now)

    def finish(self) -> None:
        """End all frames of its cells at the end of the run."""
        isolated_cells = self.cells[:-1]
        self.cell.finish([transmission for cell in isolated_cells for transmission in cell.transmissions])

    def _broadcast(self, version: int, users: Users, departures: Ints) -> None:
        """Send a version to *users*, except those whom a newer one has reached, and those who have left since.

        They had left the tower *departures* times as the version set out.
        """
        now_s = self.cell.env.now
        self.end_copy(version)
        users = users[self._departures[users] == departures]
        is_superseded = (self._newest[users] > version) & (self._newest_s[users] <= after_rounding(now_s))
        users = users[~is_superseded]
        if users.size:
            self._population.receive_version(version, users, self._due_s(users, now_s), now_s)
            self.wake(users)

    def _plan_returns(self, times_s: Floats) -> None:
        """Let users that return at each of *times_s* have what they missed, at the end of these instants."""
        env = self.cell.env

        def return_users() -> None:
            self._population.return_users(env.now)

        for time_s in np.unique(times_s[np.isfinite(times_s)]).tolist():
            call_at(env, time_s, lambda _: env.at_end(Stage.RETURNS, return_users))

    def _due_s(self, users: Users, now_s: float) -> Floats:
        """Return when each of *users* receives what the tower sends now."""
        ids = self.cell.ids[users]
        tower = self.cell.tower.number
        due_s = np.asarray(np.maximum(self._connected_s[users], now_s))

        # those in an outage that is not known yet
        no_known_outage = np.flatnonzero(due_s == now_s)
        is_connected = self._connection.connected(ids[no_known_outage], tower, now_s)
        disconnected = no_known_outage[~is_connected]
        if disconnected.size:
            due_s[disconnected] = self._connection.connected_from(ids[disconnected], tower, now_s)
            if self._connection.usage_independent:  # else what a user sends until then may move the end
                self._connected_s[users[disconnected]] = due_s[disconnected]
        return due_s


def build_towers(
    config: NetworkConfig,
    env: Clock,
    log: EventLog,
    streams: Streams,
    outstanding: OutstandingUpdates,
    sinks: Mapping[str, Sink],
    routes: Routes,
    membership: Membership,
) -> dict[str, Tower]:
    """Return the towers whose users have something to send, by name; *sinks* are the ports that take their messages."""
    towers = dict[str, Tower]()
    medium = config.medium
    if medium is None or config.mac is None:
        return towers
    shared_channel = SharedChannel(is_shared=True)
    uplinks = _uplinks(config, env, log, sinks)
    transmitters = _transmitters(config, medium, config.mac, streams)
    for index, name in enumerate(config.layout.towers):
        ids = membership.candidates(index)
        if not ids.size:
            continue
        tower = NodeId(name, config.layout.number(name))

        # what the users have to send: updates, packets of traffic, or both
        queues: list[TxQueue] = []
        population = _build_population(ids, tower, config, medium, env, log, outstanding, routes)
        if population is not None:
            queues.append(population.queue)
        packet_queues = _build_packet_queues(ids, name, config, medium, log, streams)
        if packet_queues and config.visitors:
            problem = "packets of users stay in the queues of a tower, so that no user can visit another one"
            raise ModelError("traffic", f"{problem}; give no visitors, or no traffic of users")
        queues += packet_queues
        answers = None
        if config.service is not None and config.service.evaluation is not None:
            answer_bits = config.service.evaluation.answer
            if answer_bits is not None:
                answers = AnswerQueue(ids, answer_bits, name, log)
                queues.append(answers)
        if not queues:
            continue
        queue = reduce(MergedTxQueue, queues)

        # where it goes: over the air, then to the tower's port
        channel = shared_channel if config.shared_air else SharedChannel()
        hearers = _hearers(name, config, env, transmitters, uplinks, routes)
        air = AirInterface(tower, medium, channel, config.band, hearers, transmitters[name])

        absent = np.flatnonzero(~membership.is_member(index))
        *isolated_cells, cell = _build_cells(config, env, streams.at("mac", index), air, queue, uplinks[name])
        towers[name] = Tower(cell, population, PresentValues(env, air, queue), isolated_cells, index, absent, answers)
        membership.hold(index, towers[name])
        if population is not None:
            population.on_change = towers[name].wake
    return towers


def _uplinks(config: NetworkConfig, env: Clock, log: EventLog, sinks: Mapping[str, Sink]) -> Mapping[str, Sink]:
    """Return where the messages go that each tower has received, by its name."""
    classes = zip(config.traffic, class_names(config.traffic), strict=True)
    ends_at_tower = {name for traffic, name in classes if traffic.destination == "tower"}
    if not ends_at_tower:
        return sinks
    return {name: end_traffic(name, ends_at_tower, sinks[name], env, log) for name in config.layout.towers}


def _transmitters(config: NetworkConfig, medium: Medium, mac: Mac, streams: Streams) -> Mapping[str, TowerTransmitter]:
    """Return the transmitters of all towers by their names, with receivers where these have limits."""
    limits = mac.receiver_limits
    transmitters = {}
    for index, name in enumerate(config.layout.towers):
        tower = NodeId(name, config.layout.number(name))
        receiver = None
        if limits is not None:
            order = streams.at("receiver", index).field("order")
            receiver = Receiver(limits, tower, medium, order)
        transmitters[name] = TowerTransmitter(tower, receiver)
    return transmitters


def _hearers(
    tower: str,
    config: NetworkConfig,
    env: Clock,
    transmitters: Mapping[str, TowerTransmitter],
    uplinks: Mapping[str, Sink],
    routes: Routes,
) -> Sequence[Hearer]:
    """Return the towers that hear the users of *tower*, itself first; none if no other does."""
    names = [tower, *(name for name in config.receivers if name != tower)]
    if len(names) == 1:
        return ()

    def hearer(name: str) -> Hearer:
        return Hearer(transmitters[name], uplinks[name], lambda: routes.delay_s(name, 0.0, env.now))

    return [hearer(name) for name in names]


def _build_cells(
    config: NetworkConfig, env: Clock, streams: Streams, air: AirInterface, queue: TxQueue, uplink: Sink
) -> tuple[Cell, ...]:
    """Build a cell for each user that is exempt from contention and, last, one for all others."""
    assert config.mac is not None
    new_cell: Callable[..., Cell] = partial(Cell, declared=config.mac.declared)
    if is_plugin(config.mac):
        new_cell = partial(CheckedCell, config.mac)
    isolated = np.flatnonzero(config.exemptions.among("contention", queue.ids))
    if isolated.size:
        return isolate_users(isolated, new_cell, env, air, queue, streams, uplink)
    return (new_cell(env, air, queue, streams, uplink),)


def _build_population(
    ids: Users,
    tower: NodeId,
    config: NetworkConfig,
    medium: Medium,
    env: Clock,
    log: EventLog,
    outstanding: OutstandingUpdates,
    routes: Routes,
) -> UserPopulation | None:
    """Return the users *ids* of *tower*; ``None`` in a network of traffic alone."""
    service = config.service
    if service is None:
        return None

    def ack_delay_s(user: int) -> float:
        backhaul_s = routes.delay_s(tower.name, 0.0, env.now)
        air_s = medium.delay_s(np.array([user]), tower, env.now)
        if air_s is None:
            return backhaul_s
        return backhaul_s + float(air_s[0])

    power = None
    if config.node_state.is_metered or config.node_state.powers_devices:
        power = TrainingPower(env, medium.connection)
    behaviour = UserBehaviour(
        on_new_version=service.on_new_version,
        server_waits=service.rule.needs_disconnected,
        power=power,
        jitter=service.jitter,
        energy=config.energy,
        gate=config.training_gate,
        trains_again=service.downlink is not None and service.downlink.on_missed_version == "train_again",
    )
    if service.transport.grain == "packet":
        queue: UpdateQueue = SegmentedUpdateQueue(
            ids,
            service.segmentation,
            tower.name,
            env,
            log,
            outstanding,
            service.transport.arq,
            service.transport.loss_rule,
            ack_delay_s,
        )
    else:
        queue = UpdateQueue(ids, service.segmentation.max_bits, tower.name, log, outstanding)
    exemptions = config.exemptions
    if exemptions.among("airtime", ids).any():
        queue.set_cuts(cuts_of_users(exemptions, ids, service.segmentation))
    if service.warm_up_s is not None:
        behaviour = replace(behaviour, warm_up_s=service.warm_up_s[ids])
    new_population: Callable[..., UserPopulation] = UserPopulation
    if service.on_new_version == "restart":  # else all users finish their updates
        new_population = exemptions.choose(UserPopulation, PersistentPopulation, "superseded", "deadline")
    return new_population(queue, service.compute_s[ids], behaviour)


def _build_packet_queues(
    ids: Users, tower: str, config: NetworkConfig, medium: Medium, log: EventLog, streams: Streams
) -> list[TxQueue]:
    """Return a queue for each kind of traffic that the users *ids* of *tower* send.

    Raises:
        ScenarioError: a user sends too many packets per second; keys are those of the network.
    """
    queues: list[TxQueue] = []
    keys = stream_keys(config.traffic)
    names = class_names(config.traffic)
    for index, (traffic, key, traffic_name) in enumerate(zip(config.traffic, keys, names, strict=True)):
        if traffic.source != "users":
            continue
        link_bps = 1.0 / medium.longest_s(1.0, ids)
        traffic.check_rate(link_bps, f"traffic.{index}")
        arrivals = TrafficArrivals(traffic, ids.tolist(), link_bps, streams.at("traffic", *key))
        queues.append(PacketQueue(ids, traffic, arrivals, tower, log, traffic_name))
    return queues
