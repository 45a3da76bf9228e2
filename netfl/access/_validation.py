"""Validation of a network: errors between parts that are each valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.access.selection.all import All
from netfl.errors import Fault, suggest
from netfl.types import ScenarioFacts

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_AIR = ("radio", "reception", "mac")
_SERVICE = ("round", "compute")
_ROUNDS = (
    "round",
    "compute",
    "broadcast_rate",
    "downlink",
    "update_size",
    "transport",
    "staleness",
    "spare",
    "learner",
)
_TIMED = ("probe", "theory")
_MAX_DBM = 1000.0
"""Largest power whose energy can be counted."""


def network_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield missing parts of *network*, contradictions, and keys without effect."""
    is_timed = facts.duration_s is not None
    from_users = [traffic for traffic in network.traffic if traffic.enters == "users"]
    yield from _timed_faults(network) if is_timed else _round_faults(network, facts)
    yield from _air_faults(network, needed=bool(from_users) or not is_timed)
    yield from _probe_faults(network, facts)
    yield from _traffic_faults(network)
    yield from _energy_faults(network, sends=bool(from_users) or not is_timed)
    if is_timed and network.traffic and all(traffic.leaves == "tower" for traffic in network.traffic):
        yield from _wired_faults(network)
    if network.motion is not None and network.radio is None:
        yield Fault("motion", "has no effect: without a radio positions do not matter", None, "leave it out")
    if len(from_users) > 1:
        yield Fault("traffic", "two kinds enter at users", None, "let users send one kind")
    if network.shared_air and network.interference == "collide" and network.capture is None:
        remedy = "set interference: sinr, or a capture ratio"
        yield Fault("shared_air", "all cells would be one collision domain", None, remedy)
    if network.shared_air and network.mac is not None and network.mac.has_carrier_sense:
        problem = "the users of one cell would not sense those of another on the same channel, which is not modelled"
        remedy = "leave it out, put all users into one cell, or take a MAC that does not listen before it sends"
        yield Fault("shared_air", problem, True, remedy)
    if network.capture is not None and network.interference == "sinr":
        yield Fault("capture", "has no effect with interference: sinr, which the reception decides", network.capture)


def _traffic_faults(network: NetworkAccess) -> Iterator[Fault]:
    """Keys of users' traffic on other traffic, and priorities that no queue uses."""
    early = all(traffic.leaves == "tower" for traffic in network.traffic)
    ranked = not early and any(queue.has_priorities for queue in (network.queue, *network.queues.values()))
    for index, traffic in enumerate(network.traffic):
        if traffic.priority and not ranked:
            key = f"traffic.{index}.priority"
            yield Fault(key, "has no effect: no queue uses priorities", traffic.priority, "take queue: priority")
        for name, unset in (("leaves", "server"), ("buffer", None)):
            value = getattr(traffic, name)
            if traffic.enters != "users" and value != unset:
                yield Fault(f"traffic.{index}.{name}", "has no effect: no user sends it", value, "leave it out")


def _energy_faults(network: NetworkAccess, *, sends: bool) -> Iterator[Fault]:
    """Unknown devices, efficiencies without a radio, and costs of sending if no user sends."""
    if network.energy is None:
        return
    known = [*((network.compute and network.compute.devices) or ())]
    for name in network.energy.devices:
        if name not in known:
            yield Fault(f"energy.devices.{name}", "compute.devices has none of that name", None, suggest(name, known))
    for key, costs in network.energy.each():
        for name in {"transmit", "efficiency"} & {*costs.stated}:
            if not sends:
                yield Fault(f"energy.{key}{name}", "has no effect: no user sends anything", None, "leave it out")
            elif name == "efficiency" and network.radio is None:
                yield Fault(f"energy.{key}{name}", "there is no radio whose power could be used", None, "give transmit")
    has_efficiency = any("efficiency" in costs.stated for _, costs in network.energy.each())
    if has_efficiency and network.radio is not None and network.radio.power > _MAX_DBM:
        problem = "too large to count its energy"
        yield Fault("radio.power", problem, network.radio.power, f"{_MAX_DBM:g} dBm at most, or give transmit")


def _wired_faults(network: NetworkAccess) -> Iterator[Fault]:
    """Queues and routes behind the towers if all traffic leaves at the tower."""
    remedy = "leave it out, or let traffic leave at the server"
    for name in ("queue", "queues", "routing"):
        if getattr(network, name) != type(network).model_fields[name].get_default(call_default_factory=True):
            yield Fault(name, "has no effect: all traffic leaves at the tower", None, remedy)


def _timed_faults(network: NetworkAccess) -> Iterator[Fault]:
    """Keys without effect if there are no rounds."""
    names = [name for name in _ROUNDS if getattr(network, name) is not None]
    for name in (*names, *(["busy"] if network.busy != "restart" else [])):
        yield Fault(name, "has no effect with a duration, in which no rounds are served", None, "leave it out")
    if not isinstance(network.selection, All):
        yield Fault("selection", "has no effect with a duration, in which nobody trains", None, "leave it out")


def _round_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """Keys that rounds need, and keys without effect on rounds."""
    for name in _SERVICE:
        if getattr(network, name) is None:
            yield Fault(name, "missing; rounds need it", None, f"give {name}, or a duration in place of rounds")
    for name in _TIMED:
        if getattr(network, name) is not None:
            yield Fault(name, "has no effect on rounds", None, "leave it out, or give a duration in place of rounds")
    yield from network.selection_faults(facts)
    if network.spare is not None:
        for cause, why in inactive_causes(network, facts).items():
            if named := getattr(network.spare, cause):
                yield Fault(f"spare.{cause}", f"has no effect: {why}", list(named), "leave it out")
    yield from _downlink_faults(network)
    if network.transport is not None and network.mac is not None:
        yield from (fault.under("transport") for fault in network.transport.misfits(network.mac.max_payload_bits))
    if network.round is not None and network.round.is_continuous and network.busy != "restart":
        problem = "has no effect: with this rule no version is sent to a user with an outstanding update"
        yield Fault("busy", problem, network.busy, "leave it out")
    if network.update_size is None and not facts.sized:
        yield Fault("update_size", "missing: no model determines the size of an update", None, "give it")


def _downlink_faults(network: NetworkAccess) -> Iterator[Fault]:
    """Errors of the downlink."""
    if network.downlink is None and network.broadcast_rate is None:
        yield Fault("broadcast_rate", "missing; an ideal downlink needs it", None, "give it, or a downlink")
    if network.downlink is None:
        return
    if network.broadcast_rate is not None:
        problem = "has no effect beside a downlink, which sends at the rates of the reception"
        yield Fault("broadcast_rate", problem, None, "leave one of them out")
    if network.downlink.power is not None and network.radio is None:
        yield Fault("downlink.power", "has no effect: there is no radio", None, "leave it out")


def _air_faults(network: NetworkAccess, *, needed: bool) -> Iterator[Fault]:
    """Errors of the radio parts; a MAC with a rate of its own needs no radio and no reception."""
    rate_bps = None if network.mac is None else network.mac.rate_bps
    alone = network.radio is None and network.reception is None and rate_bps is not None
    for name in _AIR:
        is_given = getattr(network, name) is not None
        if needed and not is_given and not alone:
            yield Fault(name, "missing; users who send over the air need it", None, f"give {name}")
        if is_given and not needed and not (name == "radio" and network.probe is not None):
            remedy = "leave it out, or let traffic enter at users"
            yield Fault(name, "has no effect: no user sends anything", None, remedy)
    for name, unset in (("channel", ()), ("capture", None), ("interference", "collide"), ("unreachable", "fault")):
        is_sampled = name == "channel" and network.probe is not None and network.radio is not None
        if getattr(network, name) != unset and (alone or not needed) and not is_sampled:
            why = "there is no reception" if needed else "no user sends anything"
            yield Fault(name, f"has no effect: {why}", None, "leave it out")
    if network.radio is not None and network.reception is not None and rate_bps is not None:
        reception_bps = network.reception.rate_bps(network.radio.bandwidth)
        if network.reception.modes > 1:
            problem = "the MAC has one rate, and the reception has several"
            yield Fault("mac", problem, None, "take a reception of one rate, such as snr_threshold, or another MAC")
        elif abs(reception_bps - rate_bps) > 1e-6 * rate_bps:
            problem = f"it sends at {rate_bps / 1e6:g} Mbps, and the reception at {reception_bps / 1e6:g} Mbps"
            yield Fault("mac", problem, None, "make them agree; where nothing fades, leave radio and reception out")
    bandwidth_hz = None if network.mac is None else network.mac.bandwidth_hz
    if network.radio is not None and bandwidth_hz not in {None, network.radio.bandwidth}:
        problem = f"its bandwidth is {bandwidth_hz:g} Hz, and the radio's {network.radio.bandwidth:g} Hz"
        yield Fault("mac", problem, None, "make them agree")


def _probe_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """A probe without anything to sample, and keys without effect on it."""
    if network.probe is None:
        return
    if network.radio is None and not network.outages:
        yield Fault("probe", "there is nothing to sample", None, "give radio and channel, or outages")
    for name in ("level", "lag"):
        if getattr(network.probe, name) is not None and network.radio is None:
            yield Fault(f"probe.{name}", "has no effect: without a radio there is no SNR", None, "leave it out")
    if facts.duration_s is not None and (network.probe.lag or 0.0) >= facts.duration_s:
        problem = f"has no effect: no shorter than the duration, {facts.duration_s:g} s"
        yield Fault("probe.lag", problem, network.probe.lag, "make it shorter")


def inactive_causes(network: NetworkAccess, facts: ScenarioFacts) -> dict[str, str]:
    """Return the causes of `netfl.network.counterfactual.CAUSES` that affect no user of *network*, and the reason."""
    reasons, compute = {}, network.compute
    if facts.users == 1:
        reasons["contention"] = "there is one user, who meets nobody"
    if network.radio is None or network.reception is None:
        reasons["fading"] = "without a radio and a reception no signal is too weak"
    if not network.outages:
        reasons["outage"] = "there are no outages"
    if facts.users == 1 or (compute is not None and compute.alike):
        reasons["compute"] = "all users train equally long"
    return reasons
