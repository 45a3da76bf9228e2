"""Configuration of a simulated network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from netfl.network.allocation import Allocation
from netfl.network.association._rule import RoamingRule
from netfl.network.compute import TrainingJitter
from netfl.network.counterfactual import NO_EXEMPTIONS, Exemptions
from netfl.network.energy import EnergyMeter
from netfl.network.evaluation_rounds import EvaluationRounds
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue import Queue
from netfl.network.radio.cell_band import RADIO_BAND, CellBand
from netfl.network.radio.downlink_boost import DownlinkBoost
from netfl.network.radio.medium import Medium
from netfl.network.reception import Reception
from netfl.network.round import RoundPolicy
from netfl.network.routing import Routing
from netfl.network.sampler import Sampler
from netfl.network.server_link import ServerLink
from netfl.network.traffic import Traffic
from netfl.network.training_gate import TrainingGate
from netfl.network.transport.spec import Segmentation, Transport
from netfl.network.versions import Downlink, OnNewVersion
from netfl.streams import Streams
from netfl.types import Floats, Users

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
        training_gate: decision of users whether to train; ``None`` where all do.
        visitors: users of other towers that may come to a tower, by its index in `Layout.towers`.
        receivers: names of the towers that hear the users of every tower, beside their own.
        roaming: rule by which users change their towers; ``None`` if they keep them.
        records_states: whether the times of the states of devices are recorded.
        controls_power: whether frames can have other powers than their users.
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
    training_gate: TrainingGate | None = None
    visitors: Mapping[int, Users] = field(default_factory=dict)
    receivers: tuple[str, ...] = ()
    roaming: RoamingRule | None = None
    controls_power: bool = False
    records_states: bool = False

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
        warm_up_s: time before the first training of each user, ``[users]``; ``None`` without.
        server_link: access link of the server; ``None`` for none.
        evaluation: evaluation of the model by users at the end of rounds; ``None`` for none.
        evaluate_s: time of an evaluation of each user, ``[users]``; ``None`` without.
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
    warm_up_s: Floats | None = None
    server_link: ServerLink | None = None
    evaluation: EvaluationRounds | None = None
    evaluate_s: Floats | None = None

    @property
    def speed(self) -> Floats:
        """Training samples per second of each user, without jitter, ``[users]``; infinite without training time."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.samples / self.compute_s)

    @property
    def segmentation(self) -> Segmentation:
        """Frames of an update."""
        return self.transport.cut(self.update_bits)
