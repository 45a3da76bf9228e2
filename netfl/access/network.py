"""The access that emerges from a simulated network.

`NetworkAccess.open` builds the parts (`netfl.access._builder`), and takes its rounds from
`netfl.network.simulator.NetworkSimulator`: continue reading there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from netfl.access import AccessInfo, OpenAccess
from netfl.access._admission import build_admission
from netfl.access._builder import build_layout, build_network, compute_streams
from netfl.access._validation import network_faults
from netfl.access._warnings import network_warnings
from netfl.access.selection._base import WithSelection
from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.compute import Compute, as_tuple
from netfl.network.config import Downlink
from netfl.network.counterfactual import Exemptions
from netfl.network.energy import Energy
from netfl.network.mac import Mac
from netfl.network.motion import Motion
from netfl.network.outage import Outage
from netfl.network.probe import Probe
from netfl.network.queue import Queue
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.link_budget import Radio
from netfl.network.reception import Reception
from netfl.network.round import RoundPolicy
from netfl.network.routing import Routing
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.simulator import NetworkSimulator
from netfl.network.theory import Theory
from netfl.network.topology import Topology
from netfl.network.traffic import Traffic
from netfl.network.transport.spec import Transport
from netfl.network.users import OnNewVersion
from netfl.registry import FamilyMember, NotWith
from netfl.types import AccessContext, Law, LearnerReport, Round, ScenarioFacts
from netfl.units import Bitrate, Bits, Decibels

_POWER_RANGE_DB = (-200.0, 200.0)
"""Range of the power of a user relative to that of the radio."""


class NetworkAccess(WithSelection):
    """Deliveries emerge from a simulated network: towers, fading links, contention, routers, outages.

    **Round.**  Round r opens when the server broadcasts version r-1 to the selected users (``selection``).  It closes
    by its rule (``round``), at its deadline, or as soon as no update that would count can arrive; round r+1 opens at
    that instant.  Updates that arrive after the close, or start from too old a version (``staleness``), are late.  One
    clock runs through all rounds: queues, channels, outages and MACs keep their state.

    **Downlink.**  A broadcast takes the delay and bits / rate of each link to a tower, then bits / broadcast_rate and
    the propagation delay on the air, which it does not share with the uplink.  If part of the route is down at that
    time, the tower receives it when the whole route is up again.  A disconnected user receives it when the user and its
    tower are both up, as towers repeat the newest version.  A newer version replaces one that is pending.  With a
    ``downlink``, versions cross queues and fading channels, and can be lost.

    **User.**  On receiving a version a user trains for samples / speed seconds, connected or not; a training for which
    its ``battery`` has no energy is lost.  Its update then joins the backlog of its cell, that of the nearest tower.
    If a newer version arrives before the update is delivered, the user abandons the update (superseded; a frame on the
    air is sent to its end, and may arrive late), finishes it, or ignores the version (``on_new_version``).  A user that
    is disconnected, itself or its tower being down, knows it and sends nothing.

    **Air.**  The MAC decides which users send.  Attempts that overlap on one channel of a cell collide, unless one is
    stronger than all others by ``capture``, or ``interference: sinr`` compares each with its interference.  An attempt
    is lost if the user or the tower goes down during it, and faded if its SNR is too low for the reception: the SNR at
    its start, or in each block of fading that it spans, for receptions that model that.  The MAC repeats failed
    attempts.  At the end of its airtime the update enters its tower's output port.

    **Uplink.**  Towers and routers store and forward, by default along the route of least delay.  A message is
    dropped if a queue rejects it, and lost if its node or link is down on arrival or goes down while it is there.

    **Traffic.**  Packets that are sent beside the updates share the same air, ports and links.  With ``duration`` in
    place of ``rounds`` there are no updates, and the network carries traffic alone.

    Example::

        kind: network
        topology: {kind: star, radius: 1 km}
        radio: {power: 14 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
        channel:
          - {kind: log_distance, exponent: 3.5, frequency: 868 MHz}
          - {kind: rayleigh, coherence: 50 ms}
        reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}
        mac: {kind: slotted_aloha, probability: 0.1}
        compute: {speed: 100, samples: 500}
        broadcast_rate: 100 kbps
        update_size: 10 kB
        round: {kind: first, m: 1}
    """

    topology: Annotated[Topology, FamilyMember()]
    """Positions of users, towers, routers and the server, and the links between them."""
    motion: Annotated[Motion, FamilyMember()] | None = None
    """Motion of users; ``null``: none.  A user stays with the tower that was nearest at the start."""
    radio: Radio | None = None
    """Radio of the users."""
    channel: tuple[Annotated[Channel, FamilyMember()], ...] = ()
    """Channel models, whose gains add up in dB; an empty list is a gain of 0 dB.  With a ``motion``, ``rayleigh``,
    ``rician`` and ``nakagami`` without a key for their pace follow it."""
    reception: Annotated[Reception, FamilyMember()] | None = None
    """Condition for decoding a signal, and the bit rate."""
    interference: Literal["collide", "sinr"] = "collide"
    """Outcome of attempts that overlap on one channel: they ``collide``, or their ``sinr`` decides."""
    capture: Annotated[Annotated[Decibels, Field(ge=0)] | None, NotWith("interference", "sinr")] = None
    """Ratio by which a signal must exceed the sum of its interference to be received; ``null`` for never."""
    shared_air: bool = False
    """Whether users of other cells interfere, too; with ``sinr`` or ``capture`` only, and not with `csma_ca`."""
    unreachable: Literal["error", "keep"] = "error"
    """Treatment of users whose best signal is too weak: ``error`` refuses them, ``keep`` allows them."""
    mac: Annotated[Mac, FamilyMember()] | None = None
    """Medium access control of a cell."""
    queue: Annotated[Queue, FamilyMember()] = DropTail()
    """Queue of the output ports of towers and routers."""
    queues: Mapping[str, Annotated[Queue, FamilyMember()]] = Field(default_factory=dict)
    """Other queues for the ports of a node (``router:0``) or for one port (``router:0-server``)."""
    routing: Annotated[Routing, FamilyMember()] = ShortestPath()
    """Routes of messages."""
    outages: tuple[Annotated[Outage, FamilyMember()], ...] = ()
    """Outages of users, towers, routers and links; a node is up if no outage affects it."""
    traffic: Annotated[tuple[Annotated[Traffic, FamilyMember()], ...], BeforeValidator(as_tuple)] = ()
    """Traffic beside the updates, or with ``duration`` in place of them: one kind, or a list."""
    probe: Probe | None = None
    """Samples of links and outages during a ``duration``."""
    theory: Annotated[Theory, FamilyMember()] | None = None
    """A formula whose values are reported beside those of the network, with a ``duration``."""
    compute: Compute | None = None
    """Training times of users."""
    energy: Energy | None = None
    """Energy of users; ``null``: not counted."""
    broadcast_rate: Annotated[Annotated[Bitrate, Field(gt=0)] | None, NotWith("downlink")] = None
    """Rate at which towers send the global model to their users, on an ideal downlink."""
    downlink: Downlink | None = None
    """A downlink through the network, on which versions can be lost; ``null`` for an ideal one."""
    update_size: Annotated[Bits, Field(gt=0)] | None = None
    """Size of an update, and of a broadcast, of every learner; ``null`` takes it from the model and the learners."""
    payload: Annotated[Literal["own", "largest"], NotWith("update_size")] = "own"
    """Size of updates and broadcasts that several learners share.  ``own``: that of each learner, so all must send the
    same number of bits; ``largest``: every learner is billed the largest update and the largest broadcast among them,
    and all tables of costs say so."""
    transport: Transport | None = None
    """Transport of an update: whole or in packets, with headers, compressed; ``null``: uncompressed, and whole if a
    frame of the MAC can hold it."""
    round: Annotated[RoundPolicy, FamilyMember()] | None = None
    """Rule by which a round closes."""
    on_new_version: OnNewVersion = "restart"
    """Behaviour of a user that has an outstanding update when a newer version arrives: abandon it and start from the
    new version (``restart``); finish and send it, and start from the then newest version (``finish``); or finish it and
    keep the old version until the next one arrives (``ignore``)."""
    staleness: Annotated[int, Field(ge=0)] | None = None
    """Largest number of versions between the newest and the base of an update that still counts; by default 0 if busy
    users restart at the broadcast of an ideal downlink, and unlimited otherwise."""
    exempt: Exemptions | None = None
    """A counterfactual: users that are exempt from causes of failed deliveries; all draws stay unchanged."""

    @property
    def info(self) -> AccessInfo:
        info = super().info
        return replace(
            info,
            needs_samples=self.compute is not None and self.compute.samples is None,
            is_closed_loop=info.is_closed_loop or (self.mac is not None and self.mac.needs_learner_metrics),
            is_networked=True,
            can_resize_updates=True,
            update_bits=self.update_size,
            billing=self.payload,
            can_run_timed=bool(self.traffic) or self.probe is not None,
            has_positions=True,
            has_energy=self.energy is not None,
        )

    @property
    def control_ranges(self) -> Mapping[str, tuple[float, float]]:
        ranges: dict[str, tuple[float, float]] = {}
        if self.mac is not None:
            ranges.update(self.mac.control_ranges)
        if self.radio is not None:
            ranges["power"] = _POWER_RANGE_DB
        return ranges

    @property
    def is_punctual(self) -> bool:
        """Only updates from the newest version count, unless `staleness` is given."""
        is_continuous = self.round is not None and self.round.is_continuous
        return self.on_new_version == "restart" and self.downlink is None and not is_continuous

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the limit of the rule; if old updates count, a user may deliver an old and a new one."""
        if self.round is None:
            return users
        updates = self.selection.max_selected(users) if self.is_punctual and not self.staleness else 2 * users
        return min(updates, self.round.max_updates(updates))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from network_faults(self, facts)

    def warnings(self, context: AccessContext) -> Iterator[str]:
        yield from network_warnings(self, context)

    def user_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        layout = build_layout(self, context)
        x_m, y_m = layout.user_xy_m.T
        columns = {"x_m": x_m, "y_m": y_m, "distance_m": layout.distance_m, "tower": layout.tower_of}
        if self.compute is None:
            return columns
        return columns | self.compute.columns(context.users, compute_streams(context))

    def node_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        graph = build_layout(self, context).graph
        columns = {key: np.array([graph.nodes[name][key] for name in graph]) for key in ("role", "x_m", "y_m")}
        return {"node": np.array([*graph]), **columns}

    def open(self, context: AccessContext) -> OpenAccess:
        """Build the network, and return its rounds with the simulator.

        Raises:
            netfl.errors.ScenarioError: users can never be received, an update does not fit a slot, or an outage does
                not fit the layout.
            netfl.errors.ModelError: a model failed, or no event is left.
        """
        config = build_network(self, context)
        simulator = NetworkSimulator(config, context.streams, context.recorder, context.pulse, context.controls)
        if context.duration_s is None:
            rounds = simulator.rounds(context.rounds, build_admission(self, config, context))
        else:
            rounds = simulator.windows(context.rounds, context.duration_s, context.warmup_s)
        return OpenAccess(self, context, rounds, simulator)

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        return self.open(context).rounds

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("emerges from its channels, outages, MACs and queues, each of which is tested by itself"),)
