"""From what a scenario says of a network to the parts that a world is built of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.counterfactual import NO_EXEMPTIONS
from netfl.network.energy import EnergyMeter
from netfl.network.layout import Layout
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.probe import Sampler
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.link_budget import LinkBudget, Radio
from netfl.network.radio.medium import Medium
from netfl.network.reception import Reception
from netfl.network.theory import TheoryCase
from netfl.network.transport.spec import Segmentation, Transport
from netfl.streams import Streams
from netfl.types import AccessContext

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess


_NAMED = 8
"""How many unreachable users are named."""
_LONGEST_S = 1e12
"""What may take longest; at that time the clock has steps of a tenth of a millisecond."""


def build_layout(network: NetworkAccess, setting: AccessContext) -> Layout:
    """The network laid out.

    Raises:
        ScenarioError: it cannot be; keys as in the scenario.
    """
    with prefix_faults("topology"):
        sites = network.topology.open(setting.users, setting.streams.at("topology"))
    if network.motion is None:
        return sites
    with prefix_faults("motion"):
        return replace(sites, paths=network.motion.open(sites, setting.streams.at("motion")))


def compute_streams(setting: AccessContext) -> Streams:
    """Where devices, speeds and times of training are drawn."""
    return setting.streams.at("compute")


def build_network(network: NetworkAccess, setting: AccessContext) -> NetworkConfig:
    """The parts at work.

    Raises:
        ScenarioError: with all that does not fit; keys as in the scenario.
    """
    sites = build_layout(network, setting)
    faults: list[Fault] = []
    outages = CombinedOutages()
    try:
        with prefix_faults("outages"):
            outages = CombinedOutages.open(network.outages, sites, setting.streams)
    except ScenarioError as error:
        faults += error.faults
    for index, traffic in enumerate(network.traffic):
        if traffic.enters != "users" and not sites.with_role(traffic.enters.removesuffix("s")):
            there_are = f"there are no {traffic.enters} in this topology"
            faults.append(Fault(f"traffic.{index}.enters", there_are, traffic.enters, "let it enter at towers"))
    if network.shared_air and len(sites.towers) == 1:
        faults.append(
            Fault("shared_air", "has no effect with one tower: there are no other cells", True, "leave it out")
        )
    presence = NodeState(outages, sites.nodes)
    service = None if setting.duration_s is not None else _service(network, setting)
    medium, spending = _medium(network, setting, sites, presence), _spending(network, setting, service)
    if medium is not None:
        medium.energy = spending
        sizes = [traffic.size.mean for traffic in network.traffic if traffic.enters == "users"]
        bits = max([*sizes, *([] if service is None else [service.segmentation.max_bits])])
        if network.radio is not None and network.reception is not None and network.unreachable == "fault":
            faults += _unreachable(medium, network.radio, network.reception, sites.users, bits)
        faults += _too_long(network, medium.longest_s(bits), service)
        if network.mac is not None:
            faults += [fault.under("mac") for fault in network.mac.misfits(medium.longest_s(bits))]
    if faults:
        raise ScenarioError(faults)
    return NetworkConfig(
        sites=sites,
        medium=medium,
        mac=network.mac,
        shared_air=network.shared_air,
        queue=network.queue,
        queues=network.queues,
        routing=network.routing,
        outages=outages,
        presence=presence,
        traffic=network.traffic,
        service=service,
        spare=network.spare or NO_EXEMPTIONS,
        spending=spending,
    )


def _spending(network: NetworkAccess, setting: AccessContext, service: RoundServiceConfig | None) -> EnergyMeter | None:
    """The account of what users spend, if it is asked for."""
    if network.energy is None:
        return None
    devices = np.full(setting.users, "")
    if network.compute is not None:
        devices = network.compute.columns(setting.users, compute_streams(setting)).get("device", devices)
    rates = network.energy.rates(devices, np.nan if network.radio is None else network.radio.power)
    if service is None:
        return EnergyMeter(rates, np.zeros(setting.users))
    return EnergyMeter(
        rates, service.samples, 0.0 if service.downlink else service.broadcast_bits / service.broadcast_bps
    )


def _medium(network: NetworkAccess, setting: AccessContext, sites: Layout, presence: NodeState) -> Medium | None:
    """The air, if anybody sends over it."""
    spare = network.spare or NO_EXEMPTIONS
    if network.radio is not None and network.reception is not None:
        return FadingMedium(
            LinkBudget(network.radio, network.channel, sites, setting.streams),
            network.reception,
            presence,
            setting.streams.at("reception"),
            interference=network.interference,
            capture_db=network.capture,
            spare=spare,
        )
    if network.mac is not None and network.mac.rate_bps is not None:
        return Medium(network.mac.rate_bps, presence, spare)
    return None


def _service(network: NetworkAccess, setting: AccessContext) -> RoundServiceConfig:
    """What serving rounds takes."""
    if network.compute is None or network.round is None:
        raise ValueError("rounds need compute and a rule")
    down_dbm = None if network.downlink is None else network.downlink.power
    boost_db = 0.0 if down_dbm is None or network.radio is None else down_dbm - network.radio.power
    given = network.update_size
    transport = transport_of(network, setting.uplink_bits if given is None else given)
    compute_s = network.compute.time_s(setting.samples, compute_streams(setting))
    if network.spare is not None and network.spare.compute:
        compute_s = np.array(compute_s)
        compute_s[list(network.spare.compute)] = compute_s.min()
    return RoundServiceConfig(
        update_bits=transport.up_bits(setting.uplink_bits if given is None else given),
        samples=network.compute.work(setting.samples),
        compute_s=compute_s,
        jitter=network.compute.training_jitter(compute_streams(setting)),
        broadcast_bits=transport.down_bits(setting.downlink_bits if given is None else given),
        broadcast_bps=network.broadcast_rate or np.inf,
        rule=network.round,
        busy=network.busy,
        staleness=0 if network.staleness is None and network.punctual else network.staleness,
        downlink=network.downlink,
        boost_db=boost_db,
        transport=transport,
    )


def transport_of(network: NetworkAccess, bits: float) -> Transport:
    """What an update of *bits*, not yet compressed, is sent as."""
    said = network.transport or Transport()
    return said.settled(said.up_bits(bits), None if network.mac is None else network.mac.most_bits)


def update_cut(network: NetworkAccess, model_bits: float) -> Segmentation:
    """Return the frames that an update is sent in, of `update_size` or else of *model_bits*."""
    bits = model_bits if network.update_size is None else network.update_size
    transport = transport_of(network, bits)
    return transport.cut(transport.up_bits(bits))


def largest_frame_bits(network: NetworkAccess, setting: AccessContext) -> float:
    """Return the size of the largest frame that users send; of traffic, the mean."""
    sizes = [traffic.size.mean for traffic in network.traffic if traffic.enters == "users"]
    if setting.duration_s is None:
        sizes.append(update_cut(network, setting.uplink_bits).max_bits)
    return max(sizes, default=0.0)


def _too_long(network: NetworkAccess, airtime_s: float, service: RoundServiceConfig | None) -> Iterator[Fault]:
    """The faults of what takes longer than the clock can tell."""
    if airtime_s > _LONGEST_S:
        key = "mac" if network.reception is None else "reception"
        problem = f"a frame would be on the air for {airtime_s:.3g} s, {_LONGEST_S:g} s are possible"
        yield Fault(key, problem, None, "raise the rate, or let less be sent (update_size, traffic)")
    if service is not None and service.compute_s.max(initial=0.0) > _LONGEST_S:
        problem = f"user {service.compute_s.argmax()} would train for {service.compute_s.max():.3g} s"
        yield Fault("compute", f"{problem}, {_LONGEST_S:g} s are possible", None, "raise the speed, or lower samples")


def _unreachable(medium: Medium, radio: Radio, reception: Reception, users: int, bits: float) -> Iterator[Fault]:
    """The fault of users who would not be received even at their best."""
    snr_db, least_db = medium.best_snr_db(np.arange(users)), reception.threshold_db(radio.bandwidth, bits)
    far = np.flatnonzero(snr_db < least_db)
    if far.size:
        who = ", ".join(map(str, far[:_NAMED])) + (f" and {len(far) - _NAMED} more" if len(far) > _NAMED else "")
        problem = (
            f"user{'s' * (len(far) > 1)} {who} can never be heard: at its best "
            + (f"the worst, user {snr_db.argmin()}, " if len(far) > 1 else "it ")
            + f"reaches an SNR of {snr_db.min():.1f} dB, {least_db - snr_db.min():.1f} dB below what it needs"
        )
        remedy = (
            "bring users nearer (topology), raise radio.power, lower the losses or what the reception needs; "
            "or set unreachable: keep"
        )
        yield Fault("channel", problem, None, remedy)


# What is told of a network beside what it carries: what a probe sees, and what a theory says.


def with_probe(network: NetworkAccess, parts: NetworkConfig, setting: AccessContext) -> NetworkConfig:
    """*parts* with the probe at work, and with what theory expects of them.

    Raises:
        ScenarioError: the theory does not hold for the scenario; one fault for each of its assumptions.
    """
    sites, streams = parts.sites, setting.streams
    sampler, expected = None, {}
    if network.probe is not None:
        air = None if network.radio is None else LinkBudget(network.radio, network.channel, sites, streams)
        sampler = Sampler(network.probe, sites, air, parts.outages, setting.warmup_s)
    if network.theory is not None:
        case = TheoryCase(network, sites, streams)
        faults = [*network.theory.misfits(case)]
        if faults:
            raise ScenarioError(faults)
        expected = dict(network.theory.figures(case))
    return replace(parts, sampler=sampler, expected=expected)
