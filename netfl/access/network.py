"""The access that emerges: users contend in cells, updates cross routers, and the server hears whom it hears."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from netfl.access._admission import build_admission
from netfl.access._builder import build_layout, build_network, compute_streams, with_probe
from netfl.access._cost import fragile_updates, idle_slots, outage_changes, overload, packet_rate, packets_of_update
from netfl.access._validation import fast_fading, network_faults
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
from netfl.registry import FamilyMember
from netfl.types import AccessContext, Law, LearnerReport, Round, ScenarioFacts
from netfl.units import Bitrate, Bits, Decibels

_SENT_S = 3e-4
"""Processor time of an update that crosses a network, or of a packet."""


class NetworkAccess(WithSelection):
    """Who is heard emerges from a simulated network: towers, fading links, contention, routers, outages.

    **The round.**  Round r opens when the server broadcasts version r-1 to those who may try (``selection``), and
    closes when the rule says so (``round``), at its deadline, or as soon as nothing that would count can come any more;
    round r+1 opens at that very instant.  Updates that come after it has closed, or start from too old a version
    (``staleness``), are late.  One clock runs through all rounds: queues, channels, outages and MACs keep their state.

    **The way down.**  A broadcast takes each link's delay and bits / rate on the way to a tower, then bits /
    broadcast_rate on the air, which it does not share with the uplink.  If part of the route is down at that time, the
    tower has it when the whole route is up again.  A user that is cut off then receives it when it and its tower
    are both up, as towers repeat the newest version.  A newer version that comes first takes its place.  With a
    ``downlink`` versions cross queues and fading channels, and can be missed.

    **The user.**  On receiving a version it trains for samples / speed seconds, cut off or not, and then its update
    joins the backlog of its cell, the nearest tower's.  If a newer version reaches it before its update is through, it
    abandons the update (superseded; what is on the air is sent to its end, and may arrive late), finishes it, or
    ignores the version (``busy``).  A user that is cut off, itself or its tower being down, notices and sends nothing.

    **The air.**  The MAC decides who sends.  Attempts that overlap on one channel of a cell collide, unless one is
    stronger than all others by ``capture``, or ``interference: sinr`` holds each against what it meets.  An attempt is
    lost if the user or the tower goes down during it, faded if its SNR is too low for the reception: that at
    its start, or in each block of fading that it spans, for receptions that have a law for that.  One that fails is
    repeated as the MAC says.  At the end of its airtime the update enters its tower's output port.

    **The way up.**  Towers and routers store and forward, by default along the route of least delay; a message is
    dropped where a queue turns it away, and lost where a node or a link goes down while it is on it, or is down when it
    comes.

    **Traffic.**  Packets that come beside the updates share the same air, ports and links.  With ``duration`` in place
    of ``rounds`` there are no updates, and the network is studied by its traffic alone.

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
    """Where users, towers, routers and the server stand, and the links between them."""
    motion: Annotated[Motion, FamilyMember()] | None = None
    """How users move; ``null``: they stand still.  A user stays with the tower that was nearest at the start."""
    radio: Radio | None = None
    """What users send with."""
    channel: tuple[Annotated[Channel, FamilyMember()], ...] = ()
    """What the air does to their signals; the gains add up in dB.  None at all is a gain of 0 dB."""
    reception: Annotated[Reception, FamilyMember()] | None = None
    """Which signal is enough, and how fast bits are sent."""
    interference: Literal["collide", "sinr"] = "collide"
    """What becomes of those who meet on one channel: they ``collide``, or each is held against its ``sinr``."""
    capture: Annotated[Decibels, Field(ge=0)] | None = None
    """By how much a signal must exceed all that it meets, together, to be received all the same; ``null`` for never."""
    shared_air: bool = False
    """Whether users of other cells disturb, too; with ``sinr`` or ``capture`` only, and not with `csma_ca`."""
    unreachable: Literal["fault", "keep"] = "fault"
    """Whether users whose signal is too weak at its best are a fault, or part of what is studied."""
    mac: Annotated[Mac, FamilyMember()] | None = None
    """How the users of a cell share its medium."""
    queue: Annotated[Queue, FamilyMember()] = DropTail()
    """What the output ports of towers and routers do with messages that wait."""
    queues: Mapping[str, Annotated[Queue, FamilyMember()]] = Field(default_factory=dict)
    """Other queues for the ports of a node (``router:0``) or for one port (``router:0-server``)."""
    routing: Annotated[Routing, FamilyMember()] = ShortestPath()
    """Which way messages go."""
    outages: tuple[Annotated[Outage, FamilyMember()], ...] = ()
    """When users, towers, routers and links are cut off; a node is up when all of them let it be."""
    traffic: Annotated[tuple[Annotated[Traffic, FamilyMember()], ...], BeforeValidator(as_tuple)] = ()
    """What comes beside the updates, or with ``duration`` in place of them: one kind, or a list."""
    probe: Probe | None = None
    """What is looked at while a ``duration`` runs: links and outages as such."""
    theory: Annotated[Theory, FamilyMember()] | None = None
    """A formula whose figures are told beside those of the network, with a ``duration``."""
    compute: Compute | None = None
    """How long users train."""
    energy: Energy | None = None
    """What users spend, to be counted; ``null``: nobody counts."""
    broadcast_rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """The rate at which towers send the global model to their users, on an ideal way down."""
    downlink: Downlink | None = None
    """A way down through the network, on which versions can get lost; ``null`` for an ideal one."""
    update_size: Annotated[Bits, Field(gt=0)] | None = None
    """Size of an update, and of a broadcast; ``null`` takes it from the model."""
    transport: Transport | None = None
    """What an update is sent as: whole or in packets, with headers, compressed; ``null``: as it is, and whole if a
    frame of the MAC can hold that."""
    round: Annotated[RoundPolicy, FamilyMember()] | None = None
    """When a round closes."""
    busy: OnNewVersion = "restart"
    """What a user does that is at an update when a newer version reaches it: it gives that up and starts from the new
    one (``restart``), finishes and sends what it has, and starts from the newest then (``finish``), or goes on and
    stays with the version that it has until the next one comes (``ignore``)."""
    staleness: Annotated[int, Field(ge=0)] | None = None
    """How many versions behind the newest an update may start that still counts; by default 0 where busy users restart
    at the broadcast of an ideal way down, and any number elsewhere."""
    spare: Exemptions | None = None
    """A what-if: users who are spared what keeps others from being heard; all draws stay as they are without it."""

    @property
    def placed(self) -> bool:
        """Users have positions."""
        return True

    @property
    def timed(self) -> bool:
        """With traffic or a probe there is something to watch."""
        return bool(self.traffic) or self.probe is not None

    @property
    def wants_samples(self) -> bool:
        """Unless the work is given here, it is the learners'."""
        return self.compute is not None and self.compute.samples is None

    def most(self, users: int, rounds: int) -> int:
        """As the rule says, of those who may try; where old updates count, a user may have one old and one new."""
        if self.round is None:
            return users
        able = self.selection.most(users) if self.punctual and not self.staleness else 2 * users
        return min(able, self.round.max_updates(able))

    def work(self, users: int, rounds: int, duration_s: float | None) -> float:
        """An update for each who may try, in each round, or its packets; or the packets and looks of a watched time."""
        if duration_s is None:
            return float(self.selection.most(users)) * rounds * packets_of_update(self)
        return packet_rate(self, users) * duration_s

    def changes(self, users: int, rounds: int, duration_s: float | None) -> float:
        """Those of the outages."""
        return outage_changes(self, users, rounds, duration_s)

    def seconds(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> float:
        """Most is what crosses the network; the packets of an update together take as long as one, at the least."""
        sent = self.work(users, rounds, duration_s)
        return _SENT_S * (rounds + (sent / packets_of_update(self) if duration_s is None else sent))

    @property
    def punctual(self) -> bool:
        """Whether only updates from the newest version count, unless `staleness` says otherwise."""
        continuous = self.round is not None and self.round.is_continuous
        return self.busy == "restart" and self.downlink is None and not continuous

    @property
    def closed_loop(self) -> bool:
        """Where the selection or the MAC asks."""
        return self.selection.asking or (self.mac is not None and self.mac.needs_learner_metrics)

    @property
    def networked(self) -> bool:
        """It is one."""
        return True

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is missing for rounds, or has no effect without them; a round that cannot close."""
        yield from network_faults(self, facts)

    def warnings(self, setting: AccessContext) -> Iterator[str]:
        """Frames that outlast the coherence time, idle slots, fragile updates, and rounds that get ever longer."""
        yield from fast_fading(self, setting)
        yield from idle_slots(self, setting)
        if setting.duration_s is None:
            yield from fragile_updates(self, setting)
            yield from overload(self, setting)

    def places(self, setting: AccessContext) -> Mapping[str, NDArray[Any]]:
        """Where each user stands, how far from its tower, the tower's number, its device, and how fast that is."""
        sites = build_layout(self, setting)
        x_m, y_m = sites.user_xy_m.T
        told = {"x_m": x_m, "y_m": y_m, "distance_m": sites.distance_m, "tower": sites.cell}
        return told if self.compute is None else told | self.compute.columns(setting.users, compute_streams(setting))

    def nodes(self, setting: AccessContext) -> Mapping[str, NDArray[Any]]:
        """Towers, routers and the server."""
        graph = build_layout(self, setting).graph
        columns = {key: np.array([graph.nodes[name][key] for name in graph]) for key in ("role", "x_m", "y_m")}
        return {"node": np.array([*graph]), **columns}

    def rounds(self, setting: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Build the network and let it run.

        Raises:
            netfl.errors.ScenarioError: users who can never be heard, a slot in which an update does not fit, an outage
                that does not fit the sites.
            netfl.errors.ModelError: a model failed, or nothing can happen any more.
        """
        parts = with_probe(self, build_network(self, setting), setting)
        world = NetworkSimulator(parts, setting.streams, setting.recorder, setting.pulse)
        if setting.duration_s is None:
            yield from world.rounds(setting.rounds, build_admission(self, parts, setting))
        else:
            yield from world.windows(setting.rounds, setting.duration_s, setting.warmup_s)

    def laws(self) -> tuple[Law, ...]:
        """What emerges has no closed form; its parts are held to theirs."""
        return (Law.none("emerges; its channels, outages, MACs and queues are held to their own laws"),)
