"""Cells of users that are exempt from contention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from netfl.network.backhaul.port import Sink
from netfl.network.clock import Clock
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, TowerTransmitter
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import TxQueue, TxQueueSubset
from netfl.streams import Streams
from netfl.types import Users


@dataclass(frozen=True, slots=True)
class IsolatedStreams(Streams):
    """Random streams of a cell for its user number *user* in the network, which has a medium of its own.

    Draws for each user are those of the cell; draws in the order of events are not.
    """

    user: int = 0

    def rng(self, *names: str | int) -> np.random.Generator:
        return Streams.rng(self, *names, "aside", self.user)


def isolate_users(
    isolated: Users,
    new_cell: Callable[..., Cell],
    env: Clock,
    air: AirInterface,
    queue: TxQueue,
    streams: Streams,
    uplink: Sink,
) -> tuple[Cell, ...]:
    """Return a cell for each user, by its number in *queue*, that is *isolated* and, last, one for all others.

    Each is a *new_cell* of the arguments that follow, or of parts of them.
    """
    cells = []
    for user in isolated.tolist():
        # limits, and the time of transmitters, are shared with others
        hearers = [replace(each, transmitter=TowerTransmitter(each.tower)) for each in air.hearers]
        isolated_air = AirInterface(air.tower, air.medium, SharedChannel(), air.band, hearers=hearers)
        subset = TxQueueSubset(queue, np.array([user]))
        user_streams = IsolatedStreams(streams.seed, streams.path, int(queue.ids[user]))
        cells.append(new_cell(env, isolated_air, subset, user_streams, uplink))
    others = TxQueueSubset(queue, np.arange(len(queue.ids)), hidden=isolated.tolist())
    return (*cells, new_cell(env, air, others, streams, uplink))
