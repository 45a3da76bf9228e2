"""Configuration of a simulated network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.allocation import Allocation
from netfl.network.compute import TrainingJitter
from netfl.network.counterfactual import NO_EXEMPTIONS, Exemptions
from netfl.network.energy import EnergyMeter
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.probe import Sampler
from netfl.network.queue import Queue
from netfl.network.radio.cell_band import RADIO_BAND, CellBand
from netfl.network.radio.downlink_boost import DownlinkBoost
from netfl.network.radio.medium import Medium
from netfl.network.reception import Reception
from netfl.network.round import RoundPolicy
from netfl.network.routing import Routing
from netfl.network.traffic import Traffic
from netfl.network.transport.spec import Segmentation, Transport
from netfl.network.users import OnNewVersion
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Floats, Users
from netfl.units import DecibelMilliwatts


class Downlink(Spec):
    """A downlink over the same network, on which versions can be late or get lost.

    A copy of the version crosses the links to each tower, in the direction away from the server, with queues like those
    of the uplink; a copy that is dropped or lost on the way reaches no user.  A tower sends one copy at a time, in a
    band of its own, at the rates of the reception.  Users and channels are those of the uplink.  ``multicast``: one
    copy for each tower, sent in the most robust mode to all its users at once.  ``unicast``: a copy for each user, sent
    in the mode that its signal allows; the order of the copies of a version is drawn.  A user that is disconnected
    while the signal arrives, or whose signal is too weak, misses that sending.  A tower knows at once which users have
    received it.

    A user misses a version if no copy reaches it, in all sendings.  It then does not know that a round has begun.  A
    version that no user has received is sent again until one has it, a newer one follows, or no user can ever receive
    it: by the towers that have it, once a user is connected, and by the server where a copy was lost on the way.
    """

    mode: Literal["multicast", "unicast"]
    """``multicast`` sends a version to all users of a tower at once, ``unicast`` to one after the other."""
    power: DecibelMilliwatts | None = None
    """Power of towers whose radio (``radio.tower``) states none; ``null`` is the users' power."""
    max_attempts: Annotated[int, Field(ge=1)] = 1
    """Number of times that a tower sends to users that have not received the version yet."""
    queued_versions: Literal["replace", "keep"] = "replace"
    """Copies that still wait at a port or a tower when a newer version for the same users arrives there: the newer one
    takes their place (``replace``), or waits behind them (``keep``), so that users may receive old versions."""
    on_missed_version: Literal["wait", "train_again"] = "wait"
    """Behaviour of a user without an outstanding update that misses a version: it starts no training until it receives
    one (``wait``); or it notices when the tower gives up, and trains again from the version that it has, if updates
    from that still count (``train_again``).  An outstanding update continues in both cases."""


_MIN_FAILED_ATTEMPTS = 1e5
"""Least number of failed attempts in a row after which a round counts as endless."""


@dataclass(frozen=True)
class NetworkConfig:
    """Parts of a simulated network.

    Args:
        medium: medium of all cells; ``None`` without users that send.
        shared_air: whether all cells share their channels, and so interfere.
        queues: other queues, by the name of a node or of a link from one.
        node_state: state of the nodes by these outages.
        service: parameters of the rounds; ``None`` for traffic alone.
        expected: metrics predicted by theory, for the record.
        allocation: decisions on the users of each round; ``None`` for none.
        band: band of each cell, which users divide if the MAC gives them shares.
        reception: reception of the updates; ``None`` without a radio.
        held: training examples of each user, ``[users]``; ``None`` if the allocation does not need them.
        allocation_streams: random streams of the allocation.
        visitors: users of other towers that may come to a tower, by its index in `Layout.towers`.
    """

    layout: Layout
    medium: Medium | None
    mac: Mac | None
    shared_air: bool
    queue: Queue
    queues: Mapping[str, Queue]
    routing: Routing
    outages: CombinedOutages
    node_state: NodeState
    traffic: tuple[Traffic, ...]
    service: RoundServiceConfig | None
    sampler: Sampler | None = None
    expected: Mapping[str, float] = field(default_factory=dict)
    energy: EnergyMeter | None = None
    exemptions: Exemptions = NO_EXEMPTIONS
    allocation: Allocation | None = None
    band: CellBand = RADIO_BAND
    reception: Reception | None = None
    held: Floats | None = None
    allocation_streams: Streams = field(default_factory=lambda: Streams(0))
    visitors: Mapping[int, Users] = field(default_factory=dict)

    @property
    def max_failed_attempts(self) -> float:
        """Failed attempts in a round without a delivery after which it counts as endless."""
        can_be_endless = self.service is not None and self.service.rule.deadline_s is None
        if not can_be_endless:
            return np.inf
        return max(_MIN_FAILED_ATTEMPTS, 100.0 * self.layout.users)


@dataclass(frozen=True)
class RoundServiceConfig:
    """Parameters of rounds.

    Args:
        update_bits: size of one update, compressed, without headers.
        compute_s: mean training time of each user for one update, ``[users]``.
        samples: training samples of each user for one update, ``[users]``.
        broadcast_bps: rate at which towers send it to their users, on an ideal downlink.
        on_new_version: reaction of a user with an unfinished update to a newer version.
        staleness: number of versions that an update may lag behind and still count; ``None`` for any number.
        downlink: downlink over the network; ``None`` for an ideal one.
        boost: SNR of the signals of towers above those of users; ``None`` without a radio or a downlink.
        jitter: factors of the training times of single updates; ``None`` without jitter.
    """

    update_bits: float
    compute_s: Floats
    samples: Floats
    broadcast_bits: float
    broadcast_bps: float
    rule: RoundPolicy
    on_new_version: OnNewVersion = "restart"
    staleness: int | None = 0
    downlink: Downlink | None = None
    boost: DownlinkBoost | None = None
    transport: Transport = field(default_factory=Transport)
    jitter: TrainingJitter | None = None

    @property
    def speed(self) -> Floats:
        """Training samples per second of each user, without jitter, ``[users]``; infinite without training time."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.samples / self.compute_s)

    @property
    def segmentation(self) -> Segmentation:
        """Frames of an update."""
        return self.transport.cut(self.update_bits)
