"""What can be wrong between the parts of a network that are each right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.access._builder import largest_frame_bits
from netfl.access.selection._base import selection_faults
from netfl.access.selection.all import All
from netfl.errors import Fault, suggest
from netfl.registry import kind_of
from netfl.types import AccessContext, ScenarioFacts

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess


# Which causes are not at work in a network, so that nobody can be spared them.


def inactive_causes(network: NetworkAccess, facts: ScenarioFacts) -> dict[str, str]:
    """The causes of `netfl.network.counterfactual.CAUSES` that cost nobody anything in *network*, and why."""
    idle, compute = {}, network.compute
    if facts.users == 1:
        idle["contention"] = "there is one user, who meets nobody"
    if network.radio is None or network.reception is None:
        idle["fading"] = "without a radio and a reception no signal is too weak"
    if not network.outages:
        idle["outage"] = "there are no outages"
    if facts.users == 1 or (compute is not None and compute.alike):
        idle["compute"] = "all users train equally long"
    return idle


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
_MOST_DBM = 1000.0
"""The greatest power whose energy is counted."""


def network_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """Whatever *network* lacks for what the scenario wants of it, and whatever in it would have no effect."""
    timed = facts.duration_s is not None
    from_users = [traffic for traffic in network.traffic if traffic.enters == "users"]
    yield from _timed(network) if timed else _served(network, facts)
    yield from _air(network, needed=bool(from_users) or not timed)
    yield from _probe(network, facts)
    yield from _traffic(network)
    yield from _energy(network, sends=bool(from_users) or not timed)
    if timed and network.traffic and all(traffic.leaves == "tower" for traffic in network.traffic):
        yield from _behind(network)
    if network.motion is not None and network.radio is None:
        yield Fault("motion", "has no effect: without a radio nothing hangs on where users are", None, "leave it out")
    if len(from_users) > 1:
        yield Fault("traffic", "two kinds that both enter at users", None, "let users send one kind")
    if network.shared_air and network.interference == "collide" and network.capture is None:
        remedy = "set interference: sinr, or a capture ratio"
        yield Fault("shared_air", "then all cells together would be one collision domain", None, remedy)
    if network.shared_air and network.mac is not None and network.mac.has_carrier_sense:
        problem = "the users of one cell would not sense those of another on the same channel, which is not modelled"
        remedy = "leave it out, put all users into one cell, or take a MAC that does not listen before it sends"
        yield Fault("shared_air", problem, True, remedy)
    if network.capture is not None and network.interference == "sinr":
        yield Fault("capture", "has no effect with interference: sinr, which the reception decides", network.capture)


def _traffic(network: NetworkAccess) -> Iterator[Fault]:
    """What only users make use of, said of traffic that others send; priorities that nobody looks at."""
    early = all(traffic.leaves == "tower" for traffic in network.traffic)
    ranked = not early and any(queue.has_priorities for queue in (network.queue, *network.queues.values()))
    for index, traffic in enumerate(network.traffic):
        if traffic.priority and not ranked:
            key = f"traffic.{index}.priority"
            yield Fault(key, "has no effect: no queue looks at it", traffic.priority, "take queue: priority")
        for name, unset in (("leaves", "server"), ("buffer", None)):
            value = getattr(traffic, name)
            if traffic.enters != "users" and value != unset:
                yield Fault(f"traffic.{index}.{name}", "has no effect: no user sends it", value, "leave it out")


def _energy(network: NetworkAccess, *, sends: bool) -> Iterator[Fault]:
    """Devices that there are not, a power of nothing, and the cost of what nobody does."""
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
                yield Fault(f"energy.{key}{name}", "there is no radio that would have a power", None, "give transmit")
    told = any("efficiency" in costs.stated for _, costs in network.energy.each())
    if told and network.radio is not None and network.radio.power > _MOST_DBM:
        problem = "radiates more than can be counted as energy"
        yield Fault("radio.power", problem, network.radio.power, f"{_MOST_DBM:g} dBm at most, or give transmit")


def _behind(network: NetworkAccess) -> Iterator[Fault]:
    """What is behind the towers, where nothing goes."""
    remedy = "leave it out, or let traffic leave at the server"
    for name in ("queue", "queues", "routing"):
        if getattr(network, name) != type(network).model_fields[name].get_default(call_default_factory=True):
            yield Fault(name, "has no effect: all traffic leaves at the tower", None, remedy)


def _timed(network: NetworkAccess) -> Iterator[Fault]:
    """What has no effect without rounds."""
    names = [name for name in _ROUNDS if getattr(network, name) is not None]
    for name in (*names, *(["busy"] if network.busy != "restart" else [])):
        yield Fault(name, "has no effect with a duration, in which no rounds are served", None, "leave it out")
    if not isinstance(network.selection, All):
        yield Fault("selection", "has no effect with a duration, in which nobody trains", None, "leave it out")


def _served(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """What rounds need."""
    for name in _SERVICE:
        if getattr(network, name) is None:
            yield Fault(name, "missing; rounds need it", None, f"give {name}, or a duration in place of rounds")
    for name in _TIMED:
        if getattr(network, name) is not None:
            yield Fault(name, "has no effect on rounds", None, "leave it out, or give a duration in place of rounds")
    yield from selection_faults(network, facts)
    if network.spare is not None:
        for cause, why in inactive_causes(network, facts).items():
            if named := getattr(network.spare, cause):
                yield Fault(f"spare.{cause}", f"has no effect: {why}", list(named), "leave it out")
    yield from _way_down(network)
    if network.transport is not None and network.mac is not None:
        yield from (fault.under("transport") for fault in network.transport.misfits(network.mac.max_payload_bits))
    if network.round is not None and network.round.is_continuous and network.busy != "restart":
        problem = "has no effect: with this rule nobody is sent a version who is at an update"
        yield Fault("busy", problem, network.busy, "leave it out")
    if network.update_size is None and not facts.sized:
        yield Fault("update_size", "missing: there is no model that says how large an update is", None, "give it")


def _way_down(network: NetworkAccess) -> Iterator[Fault]:
    """One way down, and what it needs."""
    if network.downlink is None and network.broadcast_rate is None:
        yield Fault("broadcast_rate", "missing; an ideal way down needs it", None, "give it, or a downlink")
    if network.downlink is None:
        return
    if network.broadcast_rate is not None:
        problem = "has no effect beside a downlink, which sends at the rates of the reception"
        yield Fault("broadcast_rate", problem, None, "leave one of them out")
    if network.downlink.power is not None and network.radio is None:
        yield Fault("downlink.power", "has no effect: there is no radio", None, "leave it out")


def _air(network: NetworkAccess, *, needed: bool) -> Iterator[Fault]:
    """The parts that only users who send make use of; a MAC that knows its rate can do without radio and reception."""
    rate_bps = None if network.mac is None else network.mac.rate_bps
    alone = network.radio is None and network.reception is None and rate_bps is not None
    for name in _AIR:
        there = getattr(network, name) is not None
        if needed and not there and not alone:
            yield Fault(name, "missing; users who send over the air need it", None, f"give {name}")
        if there and not needed and not (name == "radio" and network.probe is not None):
            remedy = "leave it out, or let traffic enter at users"
            yield Fault(name, "has no effect: no user sends anything", None, remedy)
    for name, unset in (("channel", ()), ("capture", None), ("interference", "collide"), ("unreachable", "fault")):
        looked_at = name == "channel" and network.probe is not None and network.radio is not None
        if getattr(network, name) != unset and (alone or not needed) and not looked_at:
            why = "there is no reception" if needed else "no user sends anything"
            yield Fault(name, f"has no effect: {why}", None, "leave it out")
    if network.radio is not None and network.reception is not None and rate_bps is not None:
        told_bps = network.reception.rate_bps(network.radio.bandwidth)
        if network.reception.modes > 1:
            problem = "it sends at one rate, and the reception has several"
            yield Fault("mac", problem, None, "take a reception of one rate, such as snr_threshold, or another MAC")
        elif abs(told_bps - rate_bps) > 1e-6 * rate_bps:
            problem = f"it sends at {rate_bps / 1e6:g} Mbps, and the reception at {told_bps / 1e6:g} Mbps"
            yield Fault("mac", problem, None, "make them agree; where nothing fades, leave radio and reception out")
    bandwidth_hz = None if network.mac is None else network.mac.bandwidth_hz
    if network.radio is not None and bandwidth_hz not in {None, network.radio.bandwidth}:
        problem = f"its bandwidth is {bandwidth_hz:g} Hz, and the radio's {network.radio.bandwidth:g} Hz"
        yield Fault("mac", problem, None, "make them agree")


def _probe(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """A probe with nothing to look at, or keys that say nothing to it."""
    if network.probe is None:
        return
    if network.radio is None and not network.outages:
        yield Fault("probe", "there is nothing to look at", None, "give radio and channel, or outages")
    for name in ("level", "lag"):
        if getattr(network.probe, name) is not None and network.radio is None:
            yield Fault(f"probe.{name}", "has no effect: without a radio there is no SNR", None, "leave it out")
    if facts.duration_s is not None and (network.probe.lag or 0.0) >= facts.duration_s:
        problem = f"has no effect: no shorter than the duration, {facts.duration_s:g} s"
        yield Fault("probe.lag", problem, network.probe.lag, "make it shorter")


# Frames that last much longer than the coherence time of their channel, where the reception has no law for that.


_LONG = 2.0
"""Coherence times that a frame may last without a warning: definitions differ by such a factor (0.18 to 0.42 / f)."""


def fast_fading(network: NetworkAccess, setting: AccessContext) -> Iterator[str]:
    """Return what to say of frames that outlast the coherence time and are judged by the fade at their start."""
    radio, reception = network.radio, network.reception
    if radio is None or reception is None or not network.channel:
        return
    modes = [mode for mode in range(reception.modes) if not reception.can_follow_fading(mode)]
    if not modes:
        return
    slowest_bps = min(reception.rate_bps(radio.bandwidth, mode) for mode in modes)
    coherence_s, index = min((channel.coherence_s, index) for index, channel in enumerate(network.channel))
    bits = largest_frame_bits(network, setting)
    airtime_s = bits / slowest_bps if network.mac is None else network.mac.max_airtime_s(bits, slowest_bps)
    if airtime_s <= _LONG * coherence_s:
        return
    fading, judging = kind_of(type(network.channel[index])), kind_of(type(reception))
    yield (
        f"fast fading: a frame is on the air for up to {airtime_s:.3g} s, {airtime_s / coherence_s:.3g} times the "
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading}), but '{judging}' judges it by the "
        "fade at its start, so that it fades as often as a short one; send smaller frames (access.transport), take a "
        "reception that follows the fading (shannon, modulation), or state a longer coherence time if users move slowly"
    )
