"""The parts of a network: nodes, links, the air, queues, outages and traffic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import ByForm, Spec
from netfl.core.spec_errors import to_line_error
from netfl.errors import Fault
from netfl.network.association import Association
from netfl.network.association.nearest_at_start import NearestAtStart
from netfl.network.channel import Channel
from netfl.network.compute import as_tuple
from netfl.network.interference import Interference
from netfl.network.interference.collide import Collide
from netfl.network.jammer import Jammer
from netfl.network.mac import Mac
from netfl.network.motion import Motion
from netfl.network.outage import Outage
from netfl.network.power_control import PowerControl
from netfl.network.power_control.full import Full
from netfl.network.probe import Probe
from netfl.network.queue import Queue
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.radios import Radio
from netfl.network.reception import Reception
from netfl.network.routing import Routing
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.topology import Topology
from netfl.network.traffic import Traffic
from netfl.types import Floats


class NetworkParts(Spec):
    """Description of a network, whatever it carries.

    `netfl.network.spec.NetworkSpec` adds how the network serves rounds.  Theories read these parts
    (`netfl.network.theory.TheoryCase`).
    """

    topology: Annotated[Topology, FamilyMember()]
    """Positions of users, towers, routers and the server, and the links between them."""
    motion: Annotated[Motion, FamilyMember()] | None = None
    """Motion of users; ``null``: none."""
    association: Annotated[Association, FamilyMember()] = NearestAtStart()
    """Tower of each user over time; by default the one that is nearest at the start."""
    radio: Radio | None = None
    """Radios of users and towers."""
    channel: tuple[Annotated[Channel, FamilyMember()], ...] = ()
    """Channel models, whose gains add up in dB; an empty list is a gain of 0 dB.  With a ``motion``, ``rayleigh``,
    ``rician`` and ``nakagami`` without a key for their pace follow it."""
    reception: Annotated[Reception, FamilyMember()] | None = None
    """Condition for decoding a signal, and the bit rate."""
    power_control: Annotated[PowerControl, FamilyMember()] = Full()
    """Power with which each user sends a frame; by default that of its radio, or of an allocation."""
    interference: Annotated[Interference, FamilyMember()] = Collide()
    """Outcome of attempts that overlap on one channel."""
    shared_air: bool = False
    """True if users of other cells interfere, too; not with ``interference: collide``, and not with `csma_ca`."""
    receivers: Annotated[Literal["own", "all"] | tuple[str, ...], ByForm()] = "own"
    """Towers that receive a frame of a user: its own tower (``own``), ``all`` towers, or its own and those of a list,
    such as ``[tower:0, tower:2]``.  Each judges by its own gain and interference.  The first copy goes on: that of the
    tower with the smallest delay to the server."""
    common_loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability c that a frame is lost for all towers alike, beside the losses of each: of receivers that miss it
    with probabilities p_k otherwise, all miss it with c + (1 - c) Π p_k.  Not for versions on the downlink."""
    jammer: Jammer | None = None
    """A transmitter from outside of the network that sends bursts in its band; ``null``: none."""
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

    @model_validator(mode="before")
    @classmethod
    def _refuse_capture(cls, value: Any) -> Any:
        """Refuse the key ``capture`` of earlier development versions; ``null`` meant none."""
        if not isinstance(value, Mapping) or "capture" not in value:
            return value
        margin = value["capture"]
        if margin is None:
            return {key: entry for key, entry in value.items() if key != "capture"}
        unit = " dB" if isinstance(margin, int | float) else ""
        remedy = f"write interference: {{kind: capture, margin: {margin}{unit}}}"
        fault = Fault("capture", "it is a model of interference, and no key of its own", None, remedy)
        raise ValidationError.from_exception_data(cls.__name__, [to_line_error(fault)])

    @property
    def has_outages(self) -> bool:
        """True if a node can be down, by an outage or as a user is away by its motion or its association."""
        is_out = self.motion is not None and self.motion.has_absences
        return bool(self.outages) or is_out or self.association.has_absences

    @property
    def user_traffic(self) -> tuple[Traffic, ...]:
        """Traffic that enters at users, and so is sent over the air."""
        return tuple(traffic for traffic in self.traffic if traffic.source == "users")

    @property
    def channels_hz(self) -> Floats | None:
        """Centre frequency of each frequency channel, ``[channels]``; ``None`` where gains and noise are those of all.

        So it is with a MAC of one channel.
        """
        if self.mac is None or self.radio is None:
            return None
        differs = self.radio.channel_noise is not None or any(each.is_frequency_selective for each in self.channel)
        if not differs:
            return None
        return self.mac.channels_hz(max(self.radio.bandwidth_bounds_hz))

    @property
    def air_rates_bps(self) -> tuple[float, ...]:
        """Bit rate of each mode of a frame on the air; a single 0 if nothing states one, or if it follows the SNR.

        Users of different bandwidths have the rates of both the narrowest and the widest of them.
        """
        if self.mac is not None and self.mac.rate_bps is not None:
            return self.mac.rates_bps
        if self.reception is None or self.radio is None or self.reception.follows_snr:
            return (0.0,)
        bands_hz = dict.fromkeys(self.radio.bandwidth_bounds_hz)
        return tuple(
            self.reception.rate_bps(band_hz, mode) for band_hz in bands_hz for mode in range(self.reception.modes)
        )
