"""What a world is built of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.compute import Luck
from netfl.network.counterfactual import NOBODY, Exemptions
from netfl.network.energy import EnergyMeter
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.probe import Sampler
from netfl.network.queue import Queue
from netfl.network.radio.medium import Medium
from netfl.network.round import RoundPolicy
from netfl.network.routing import Routing
from netfl.network.traffic import Traffic
from netfl.network.transport.spec import Segmentation, Transport
from netfl.network.users import Busy
from netfl.registry import Spec
from netfl.units import DecibelMilliwatts

# What a scenario says of the way down.


class Downlink(Spec):
    """A way down through the same network, on which versions can be late, or get lost.

    A copy of the version crosses the links to each tower, in their other direction and with queues like those on the
    way up; a copy that is dropped or lost on the way reaches nobody.  A tower sends one thing at a time, in a band
    that it does not share with the uplink, at the rates of the reception; users and their channels are those of the
    uplink.  ``multicast``: one copy for each tower, sent in the slowest mode to all its users at once.  ``unicast``: a
    copy for each user, sent in the mode that its signal allows.  A user that is cut off meanwhile, or is not reached by
    the signal, misses that sending.  Who has missed them all works from the version that it has.
    """

    mode: Literal["multicast", "unicast"]
    """Whether a tower sends a version to all its users at once, or to one after the other."""
    power: DecibelMilliwatts | None = None
    """What towers send with; ``null``: with the users' power."""
    tries: Annotated[int, Field(ge=1)] = 1
    """How often a tower sends to those who have not been reached yet."""


_VAIN = 1e5
"""Failed attempts in a row, at the least, after which no more are waited for."""


@dataclass(frozen=True)
class NetworkConfig:
    """What a world is built of.

    Args:
        sites: where everything stands.
        medium: the air of all cells; ``None`` where nobody sends over the air.
        mac: how a cell's users share it.
        shared_air: whether all cells share their channels, so that they disturb each other.
        queue: the waiting room of every port.
        queues: other waiting rooms, by the name of a node or of a link from one.
        routing: which way messages go.
        outages: who is up when, for the record.
        presence: the same for the clock.
        traffic: what comes beside the updates, or in place of them.
        service: what serves rounds; ``None`` where there is traffic alone.
        sampler: what looks at links and outages while a duration runs.
        expected: what theory says, told beside the figures.
        spending: what users spend; ``None``: nobody counts.
        spare: who is spared what.
    """

    sites: Layout
    medium: Medium | None
    mac: Mac | None
    shared_air: bool
    queue: Queue
    queues: Mapping[str, Queue]
    routing: Routing
    outages: CombinedOutages
    presence: NodeState
    traffic: tuple[Traffic, ...]
    service: RoundServiceConfig | None
    sampler: Sampler | None = None
    expected: Mapping[str, float] = field(default_factory=dict)
    spending: EnergyMeter | None = None
    spare: Exemptions = NOBODY

    @property
    def patience(self) -> float:
        """Failed attempts in a round without a delivery after which it would go on for ever, as nothing closes it."""
        endless = self.service is not None and self.service.rule.deadline_s is None
        return max(_VAIN, 100.0 * self.sites.users) if endless else np.inf


@dataclass(frozen=True)
class RoundServiceConfig:
    """What a world needs to serve rounds.

    Args:
        update_bits: the size of one update, compressed, without headers.
        compute_s: how long each user trains for one update, on average, ``[users]``.
        samples: training samples that it processes meanwhile, ``[users]``.
        broadcast_bits: the size of one broadcast.
        broadcast_bps: the rate at which towers send it to their users, on an ideal way down.
        rule: when a round closes.
        busy: what a user does that is at an update when a newer version reaches it.
        staleness: how many versions behind the newest an update may start that still counts; ``None`` for any number.
        downlink: the way down through the network; ``None`` for an ideal one.
        boost_db: by how much towers send stronger than users.
        transport: whether updates are sent whole.
        luck: by how much longer than on average single updates take; ``None``: they do not.
    """

    update_bits: float
    compute_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    broadcast_bits: float
    broadcast_bps: float
    rule: RoundPolicy
    busy: Busy = "restart"
    staleness: int | None = 0
    downlink: Downlink | None = None
    boost_db: float = 0.0
    transport: Transport = field(default_factory=Transport)
    luck: Luck | None = None

    @property
    def cut(self) -> Segmentation:
        """What an update is sent as."""
        return self.transport.cut(self.update_bits)
