"""Construction of towers: their cells, their users, and the transmit queues of these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.config import NetworkContext
from netfl.network.counterfactual import IsolatedStreams
from netfl.network.layout import NodeId
from netfl.network.message import TRAFFIC, Message
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import MergedTxQueue, TxQueue, TxQueueSubset, Users
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.tower import Tower
from netfl.network.transport.segmentation import PacketTransport, SegmentedUpdateQueue
from netfl.network.users import UserBehaviour, UserPopulation


def build_towers(network: NetworkContext, sinks: Mapping[str, Sink], routes: Routes) -> dict[str, Tower]:
    """Build the towers whose users have something to send.

    Args:
        network: Objects shared by the parts of the network.
        sinks: Ports that take the messages of each tower, by its name.
        routes: Routes between towers and server.

    Returns:
        The towers by name.
    """
    config, towers = network.config, dict[str, Tower]()
    if config.medium is None or config.mac is None:
        return towers
    shared = SharedChannel() if config.shared_air else None
    ends_at_tower = any(traffic.leaves == "tower" for traffic in config.traffic if traffic.enters == "users")
    for index, name in enumerate(config.sites.towers):
        ids, tower = np.flatnonzero(config.sites.cell == index), NodeId(name, config.sites.number(name))
        population = _build_population(network, config.medium, ids, name, routes) if ids.size else None
        queues: list[TxQueue] = [] if population is None else [population.queue]
        queues += _build_packet_queues(network, config.medium, ids, name) if ids.size else []
        if not queues:
            continue
        sink = _end_traffic(name, sinks[name], network) if ends_at_tower else sinks[name]
        air = AirInterface(tower, config.medium, shared or SharedChannel())
        cells = _build_cells(network, index, air, reduce(MergedTxQueue, queues), config.spare.mark_messages(sink))
        towers[name] = Tower(cells[-1], population, config.medium, cells[:-1])
        if population is not None:
            population.on_change = towers[name].wake
    return towers


def _build_cells(
    network: NetworkContext, index: int, air: AirInterface, queue: TxQueue, uplink: Sink
) -> tuple[Cell, ...]:
    """Build a cell for each user that is exempt from contention and, last, one for all others."""
    env, streams = network.env, network.streams.at("mac", index)
    isolated = np.flatnonzero(network.config.spare.among("contention", queue.ids)).tolist()
    if not isolated:
        return (Cell(env, air, queue, streams, uplink),)
    cells = []
    for user in isolated:
        subset = TxQueueSubset(queue, np.array([user]))
        user_streams = IsolatedStreams.of(streams, int(queue.ids[user]))
        cells.append(Cell(env, AirInterface(air.tower, air.medium, SharedChannel()), subset, user_streams, uplink))
    others = TxQueueSubset(queue, np.arange(len(queue.ids)), hidden=isolated)
    return (*cells, Cell(env, air, others, streams, uplink))


def _build_population(
    network: NetworkContext, medium: Medium, ids: Users, tower: str, routes: Routes
) -> UserPopulation | None:
    config, service, env = network.config, network.config.service, network.env
    if service is None:
        return None
    on_training = partial(_train, medium, service.samples) if config.presence.is_metered else None
    behaviour = UserBehaviour(
        service.busy, service.rule.needs_disconnected, on_training, service.jitter, config.spending
    )
    segmentation = service.segmentation

    def ack_delay_s(user: int) -> float:
        air_s = medium.delay_s(np.array([user]), env.now)
        return routes.delay_s(tower, 0.0, env.now) + (0.0 if air_s is None else float(air_s[0]))

    queue: UpdateQueue
    if service.transport.grain == "packet":
        transport = PacketTransport(env, segmentation, service.transport.arq, ack_delay_s)
        queue = SegmentedUpdateQueue(ids, transport, tower, network.log)
    else:
        queue = UpdateQueue(ids, segmentation.max_bits, tower, network.log)
    return UserPopulation(queue, service.compute_s[ids], network.outstanding, behaviour)


def _build_packet_queues(network: NetworkContext, medium: Medium, ids: Users, tower: str) -> list[TxQueue]:
    queues: list[TxQueue] = []
    for number, traffic in enumerate(network.config.traffic):
        if traffic.enters == "users":
            streams, link_bps = network.streams.at("traffic", number), 1.0 / medium.airtime_s(1.0)
            arrivals = [traffic.blocks(user, link_bps, streams) for user in ids.tolist()]
            queues.append(PacketQueue(ids, traffic, arrivals, tower, network.log))
    return queues


def _train(medium: Medium, samples: NDArray[np.float64], ids: Users, at_s: NDArray[np.float64]) -> None:
    """Take the energy of trainings from batteries; *samples* are those of one update, ``[users]``."""
    medium.train(ids, at_s, samples[ids])


def _end_traffic(tower: str, sink: Sink, network: NetworkContext) -> Sink:
    """Return a sink that ends packets of traffic at *tower*, and passes on all other messages."""

    def take(message: Message) -> None:
        if message.base == TRAFFIC:
            network.log.record_outcome(message, "delivered", network.env.now, node=tower)
        else:
            sink(message)

    return take
