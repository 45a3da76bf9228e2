"""One saturated Wi-Fi cell, and the closed form and the networks to compare it with."""

import numpy as np

from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, Medium, TowerTransmitter
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.receiver import Receiver
from netfl.network.radio.transmission import SharedChannel
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.types import NullRecorder

BITS = 12_000.0


class SensingMedium(Medium):
    """An ideal medium on which user j senses user i if ``senses[j][i]``."""

    def __init__(self, rate_bps, senses):
        Medium.__init__(self, rate_bps)
        self._senses = np.array(senses)

    def between_users_dbm(self, sender, ids, time_s):
        return np.where(self._senses[ids, sender], 0.0, -300.0)


class SaturatedCell:
    """A cell of saturated stations, which a MAC has served for a time.

    Attributes:
        received: frames received of each station, ``[users]``.
        attempts: attempts that have ended.
        failed: failed attempts by cause.
    """

    def __init__(self, mac, users, duration_s, *, seed=1, medium=None, traffic=None):
        env = Clock()
        streams = Streams(seed)
        log = EventLog(NullRecorder(), users, nodes=users)
        log.open_round(1)
        traffic = traffic or Saturated()
        arrivals = TrafficArrivals(traffic, range(users), mac.rate_bps, streams)
        queue = PacketQueue(np.arange(users), traffic, arrivals, "tower:0", log)
        self.received = np.zeros(users, np.int64)
        self.log = log

        def uplink(message):
            self.received[message.user] += 1
            message.end(log, Ending("delivered"), env.now)

        medium = medium or Medium(mac.rate_bps)
        tower = NodeId("tower:0", users)
        receiver = None
        if mac.receiver_limits is not None:
            receiver = Receiver(mac.receiver_limits, tower, medium, streams.field("order"))
        air = AirInterface(tower, medium, SharedChannel(), transmitter=TowerTransmitter(tower, receiver))
        cell = Cell(env, air, queue, streams, uplink, mac.declared)
        env.process(mac.serve(cell))
        env.run(until=duration_s)
        self.attempts = cell.transmit_path.attempts
        self.failed = cell.transmit_path.failed

    @property
    def loss(self):
        """Failed attempts per attempt."""
        return sum(self.failed.values()) / self.attempts


def sensing(stations, hidden=()):
    """Return which stations sense each other, ``[stations, stations]``: all but the pairs that are *hidden*."""
    senses = np.ones((stations, stations), bool)
    for first, second in hidden:
        senses[first, second] = False
        senses[second, first] = False
    return senses


def bianchi_rates_hz(success_us, collision_us, *, slot_us=9.0, cw=(15, 1023)):
    """Return the frames per second of each saturated station by Bianchi's fixed point, ``[stations]``.

    Windows do not depend on durations, so that all stations have one probability τ to send in a slot, and collide with
    p = 1 - (1 - τ)^(n - 1).  A slot lasts σ if it is idle, Ts_i if station i alone sends, and as long as the longest of
    the frames that collide: E[slot] = (1 - τ)^n σ + Σ τ (1 - τ)^(n - 1) Ts_i + Σ P(the longest is k, not alone) Tc_k.
    G. Bianchi, IEEE J-SAC 18(3), 2000; M. Heusse et al., INFOCOM 2003.

    Args:
        success_us: time of a frame of each station with its ACK and DIFS, ``[stations]``.
        collision_us: time of its frame and DIFS, ``[stations]``.
    """
    success_us = np.asarray(success_us, float)
    n = len(success_us)
    window = cw[0] + 1
    stages = round(np.log2((cw[1] + 1) / window))
    low, high = 0.0, 1.0
    for _ in range(80):
        p = (low + high) / 2.0
        tau = 2.0 / (window + 1.0 + p * window * sum((2.0 * p) ** stage for stage in range(stages)))
        if 1.0 - (1.0 - tau) ** (n - 1) > p:
            low = p
        else:
            high = p
    alone = tau * (1.0 - tau) ** (n - 1)
    ascending_us = np.sort(np.asarray(collision_us, float))
    rank = np.arange(n)
    is_longest = tau * (1.0 - tau) ** (n - 1 - rank)  # sends, and none of those that last longer does
    mean_us = (1.0 - tau) ** n * slot_us + alone * success_us.sum() + (is_longest - alone) @ ascending_us
    return np.full(n, alone / mean_us * 1e6)
