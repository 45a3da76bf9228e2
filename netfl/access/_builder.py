"""Construction of a `NetworkConfig` from the specification of a network."""

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
from netfl.registry import no_effect
from netfl.streams import Streams
from netfl.types import AccessContext, Payload

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess


def build_layout(network: NetworkAccess, context: AccessContext) -> Layout:
    """Return positions, links and trajectories.

    Raises:
        ScenarioError: the topology or the motion cannot be used; keys as in the scenario.
    """
    with prefix_faults("topology"):
        layout = network.topology.open(context.users, context.streams.at("topology"))
    if network.motion is None:
        return layout
    with prefix_faults("motion"):
        return replace(layout, paths=network.motion.open(layout, context.streams.at("motion")))


def compute_streams(context: AccessContext) -> Streams:
    """Return the streams of devices, speeds and training times."""
    return context.streams.at("compute")


def build_network(network: NetworkAccess, context: AccessContext) -> NetworkConfig:
    """Return the parts of a network simulation.

    Raises:
        ScenarioError: parts do not fit each other, or the theory does not hold; keys as in the scenario.
    """
    layout = build_layout(network, context)
    faults: list[Fault] = []
    outages = CombinedOutages()
    try:
        with prefix_faults("outages"):
            outages = CombinedOutages.open(network.outages, layout, context.streams)
    except ScenarioError as error:
        faults += error.faults
    faults += _layout_faults(network, layout)
    node_state = NodeState(outages, layout.nodes)
    service = None if context.duration_s is not None else _service(network, context)
    medium, energy = _medium(network, context, layout, node_state), _energy_meter(network, context, service)
    if medium is not None:
        medium.energy = energy
        bits = largest_frame_bits(network, context)
        if network.radio is not None and network.reception is not None and network.unreachable == "error":
            faults += _unreachable_faults(medium, network.radio, network.reception, layout.users, bits)
            if service is not None and service.downlink is not None:
                faults += _unreachable_downlink_faults(medium, network.radio, network.reception, layout.users, service)
        if network.mac is not None:
            faults += [fault.under("mac") for fault in network.mac.airtime_faults(medium.longest_s(bits))]
    if faults:
        raise ScenarioError(faults)
    return NetworkConfig(
        layout=layout,
        medium=medium,
        mac=network.mac,
        shared_air=network.shared_air,
        queue=network.queue,
        queues=network.queues,
        routing=network.routing,
        outages=outages,
        node_state=node_state,
        traffic=network.traffic,
        service=service,
        exemptions=network.exempt or NO_EXEMPTIONS,
        energy=energy,
        sampler=_sampler(network, context, layout, outages),
        expected=_theory_values(network, layout, context.streams),
    )


def _layout_faults(network: NetworkAccess, layout: Layout) -> Iterator[Fault]:
    for index, traffic in enumerate(network.traffic):
        if traffic.source != "users" and not layout.with_role(traffic.source.removesuffix("s")):
            problem = f"there are no {traffic.source} in this topology"
            yield Fault(f"traffic.{index}.source", problem, traffic.source, "set source: towers")
    if network.shared_air and len(layout.towers) == 1:
        yield from no_effect(network, ["shared_air"], "with one tower: there are no other cells")


def _sampler(
    network: NetworkAccess, context: AccessContext, layout: Layout, outages: CombinedOutages
) -> Sampler | None:
    if network.probe is None:
        return None
    budget = None if network.radio is None else LinkBudget(network.radio, network.channel, layout, context.streams)
    return Sampler(network.probe, layout, budget, outages, context.warmup_s)


def _theory_values(network: NetworkAccess, layout: Layout, streams: Streams) -> dict[str, float]:
    if network.theory is None:
        return {}
    case = TheoryCase(network, layout, streams)
    faults = [*network.theory.misfits(case)]
    if faults:
        raise ScenarioError(faults)
    return dict(network.theory.predict(case))


def _energy_meter(
    network: NetworkAccess, context: AccessContext, service: RoundServiceConfig | None
) -> EnergyMeter | None:
    if network.energy is None:
        return None
    devices = np.full(context.users, "")
    if network.compute is not None:
        devices = network.compute.columns(context.users, compute_streams(context)).get("device", devices)
    rates = network.energy.rates(devices, np.nan if network.radio is None else network.radio.power)
    if service is None:
        return EnergyMeter(rates, np.zeros(context.users))
    return EnergyMeter(
        rates, service.samples, 0.0 if service.downlink else service.broadcast_bits / service.broadcast_bps
    )


def _medium(network: NetworkAccess, context: AccessContext, layout: Layout, node_state: NodeState) -> Medium | None:
    exemptions = network.exempt or NO_EXEMPTIONS
    if network.radio is not None and network.reception is not None:
        return FadingMedium(
            LinkBudget(network.radio, network.channel, layout, context.streams),
            network.reception,
            node_state,
            context.streams.at("reception"),
            interference=network.interference,
            capture_db=network.capture,
            exemptions=exemptions,
        )
    if network.mac is not None and network.mac.rate_bps is not None:
        return Medium(network.mac.rate_bps, node_state, exemptions)
    return None


def _design_payload(network: NetworkAccess, context: AccessContext) -> Payload:
    """Return the sizes of an update and of a broadcast, before compression, for which the network is built."""
    given_bits = network.update_size
    if context.controls is not None and context.controls.design_bits is not None:
        given_bits = context.controls.design_bits
    if given_bits is not None:
        return Payload(given_bits, given_bits)
    return Payload(context.uplink_bits, context.downlink_bits)


def _service(network: NetworkAccess, context: AccessContext) -> RoundServiceConfig:
    if network.compute is None or network.round is None:
        raise ValueError("rounds need compute and a rule")
    power_dbm = None if network.downlink is None else network.downlink.power
    boost_db = 0.0 if power_dbm is None or network.radio is None else power_dbm - network.radio.power
    payload = _design_payload(network, context)
    transport = transport_of(network, payload.uplink_bits)
    compute_s = network.compute.time_s(context.samples, compute_streams(context))
    if network.exempt is not None and network.exempt.compute:
        compute_s = np.array(compute_s)
        compute_s[list(network.exempt.compute)] = compute_s.min()
    return RoundServiceConfig(
        update_bits=payload.uplink_bits / transport.compression,
        samples=network.compute.work(context.samples),
        compute_s=compute_s,
        jitter=network.compute.training_jitter(compute_streams(context)),
        broadcast_bits=broadcast_bits(network, context),
        broadcast_bps=network.broadcast_rate or np.inf,
        rule=network.round,
        on_new_version=network.on_new_version,
        staleness=0 if network.staleness is None and network.is_punctual else network.staleness,
        downlink=network.downlink,
        boost_db=boost_db,
        transport=transport,
    )


def transport_of(network: NetworkAccess, bits: float) -> Transport:
    """Return the transport of an update of *bits* before compression."""
    transport = network.transport or Transport()
    frame_bits = None if network.mac is None else network.mac.max_payload_bits
    return transport.settled(bits / transport.compression, frame_bits)


def broadcast_bits(network: NetworkAccess, context: AccessContext) -> float:
    """Return the size of a version as sent."""
    payload = _design_payload(network, context)
    return payload.downlink_bits / transport_of(network, payload.uplink_bits).compression_down


def update_cut(network: NetworkAccess, context: AccessContext) -> Segmentation:
    """Return the frames that an update is sent in."""
    bits = _design_payload(network, context).uplink_bits
    transport = transport_of(network, bits)
    return transport.cut(bits / transport.compression)


def largest_frame_bits(network: NetworkAccess, context: AccessContext) -> float:
    """Return the size of the largest frame that users send; of traffic, the mean."""
    sizes = [traffic.size.mean for traffic in network.traffic if traffic.source == "users"]
    if context.duration_s is None:
        sizes.append(update_cut(network, context).max_bits)
    return max(sizes, default=0.0)


def air_bps(network: NetworkAccess) -> float:
    """Return the bit rate of the air, in the slowest mode of the reception; 0 without a radio."""
    if network.mac is not None and network.mac.rate_bps is not None:
        return network.mac.rate_bps
    if network.reception is None or network.radio is None:
        return 0.0
    reception, bandwidth_hz = network.reception, network.radio.bandwidth
    return min(reception.rate_bps(bandwidth_hz, mode) for mode in range(reception.modes))


def _unreachable_faults(medium: Medium, radio: Radio, reception: Reception, users: int, bits: float) -> Iterator[Fault]:
    snr_db, needed_db = medium.best_snr_db(np.arange(users)), reception.threshold_db(radio.bandwidth, bits)
    weak = np.flatnonzero(snr_db < needed_db)
    if weak.size:
        problem = (
            f"users that can never be received: the worst, user {snr_db.argmin()}, reaches an SNR of "
            f"{snr_db.min():.1f} dB at its best, {needed_db - snr_db.min():.1f} dB below the SNR that it needs"
        )
        remedy = (
            "move users nearer (topology), raise radio.power, or lower the losses or the SNR that the reception needs; "
            "or set unreachable: keep"
        )
        yield Fault("channel", problem, weak.tolist(), remedy)


def _unreachable_downlink_faults(
    medium: Medium, radio: Radio, reception: Reception, users: int, service: RoundServiceConfig
) -> Iterator[Fault]:
    snr_db = medium.best_snr_db(np.arange(users)) + service.boost_db
    needed_db = reception.threshold_db(radio.bandwidth, service.broadcast_bits)
    weak = np.flatnonzero(snr_db < needed_db)
    if weak.size:
        problem = (
            f"users that can never receive a version: the worst, user {snr_db.argmin()}, reaches an SNR of "
            f"{snr_db.min():.1f} dB at its best, {needed_db - snr_db.min():.1f} dB below the SNR that it needs"
        )
        yield Fault("downlink.power", problem, weak.tolist(), "raise it; or set unreachable: keep")
