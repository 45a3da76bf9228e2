"""A cell whose users send updates and packets at stated times."""

from types import SimpleNamespace

import numpy as np

from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.medium import AirInterface, Medium
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import MergedTxQueue
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.tower import Tower
from netfl.network.traffic import Traffic
from netfl.network.updates import OutstandingUpdates, Update
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Law


class ScriptedTraffic(Traffic):
    """Packets of one bit at stated times."""

    times: tuple[tuple[float, ...], ...]

    def times_s(self, link_bps, rng):
        raise NotImplementedError

    def blocks(self, sender, link_bps, streams):
        yield np.array(self.times[sender], float), np.ones(len(self.times[sender]))

    def laws(self):
        return (Law.none("a test's"),)


def packets(*times):
    """Return traffic with one bit at each time, for each user."""
    return ScriptedTraffic.model_validate({"times": times, "size": {"mean": 1.0}})


def build_simulation(recorder, traffic, compute_s, *, update_bits=2.0, presence=None, limit=None, busy=None):
    """Build users with updates of 2 s and packets of 1 s each on separate channels."""
    users, env, medium = len(compute_s), Clock(), Medium(1.0, Connection(presence))
    if busy is not None:
        medium.outcomes = lambda transmission: (
            ["collided" if busy(env.now) else ""] * len(transmission.ids),
            np.zeros(len(transmission.ids)),
        )
    event_log = EventLog(recorder, users, nodes=users)
    event_log.open_round(1)
    queue = UpdateQueue(np.arange(users), update_bits, "tower:0", event_log, OutstandingUpdates(users))
    updates = UserPopulation(queue, np.array(compute_s, float))
    arrivals = TrafficArrivals(traffic, range(users), 1.0, Streams(1))
    tx_queue = MergedTxQueue(queue, PacketQueue(np.arange(users), traffic, arrivals, "tower:0", event_log))
    delivered = []

    def uplink(message):
        kind, base = ("update", message.base) if isinstance(message, Update) else ("packet", -1)
        delivered.append((env.now, message.user, kind, base, message.attempts))
        message.end(event_log, Ending("delivered"), env.now)

    air = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(env, air, tx_queue, Streams(1), uplink)

    def serve(user):
        while True:
            while user not in cell.backlog():
                at_s = cell.ready_s[user]
                wait = at_s - env.now if env.now < at_s < np.inf else 0.0625
                yield env.timeout(min(0.0625, wait))
            yield cell.attempt([user], limit=limit, channel=user)

    for user in range(users):
        env.process(serve(user))
    parts = {"cell": cell, "event_log": event_log, "recorder": recorder, "counter": event_log.packets}
    tower = Tower(cell, updates, PresentValues(env, air, tx_queue))
    return SimpleNamespace(env=env, delivered=delivered, tower=tower, **parts)
