"""Validation of a network: errors between parts that are each valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.errors import Fault, suggest
from netfl.network.channel._fading import NO_CARRIER, UNPACED, Fading, carriers_hz
from netfl.network.mac.lorawan import Lorawan
from netfl.network.reception.lora import Lora
from netfl.registry import no_effect
from netfl.types import ScenarioFacts

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_AIR = ("radio", "reception", "mac")
_LINK = ("channel", "capture", "interference", "unreachable")
_ROUNDS = (
    "round", "compute", "broadcast_rate", "downlink", "update_size", "payload", "transport", "staleness", "exempt",
    "learner", "on_new_version", "selection",
)  # fmt: skip


def network_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield missing parts of *network*, contradictions, and keys without effect."""
    is_timed = facts.duration_s is not None
    from_users = [traffic for traffic in network.traffic if traffic.source == "users"]
    if is_timed:
        yield from no_effect(network, _ROUNDS, "with a duration, in which no rounds are served")
    else:
        yield from _round_faults(network, facts)
    yield from _air_faults(network, needed=bool(from_users) or not is_timed)
    yield from _fading_faults(network)
    yield from _probe_faults(network, facts)
    yield from _traffic_faults(network)
    yield from _energy_faults(network, sends=bool(from_users) or not is_timed)
    if is_timed and network.traffic and all(traffic.destination == "tower" for traffic in network.traffic):
        reason, remedy = "because all traffic leaves at the tower", "leave it out, or set destination: server"
        yield from no_effect(network, ("queue", "queues", "routing"), reason, remedy)
    if network.radio is None:
        yield from no_effect(network, ["motion"], "without a radio: positions do not matter")
    if len(from_users) > 1:
        yield Fault("traffic", "two kinds of traffic enter at users", None, "give users one kind")
    if network.shared_air and network.interference == "collide" and network.capture is None:
        remedy = "set interference: sinr, or a capture ratio"
        yield Fault("shared_air", "all cells would share one collision domain", None, remedy)
    if network.shared_air and network.mac is not None and network.mac.has_carrier_sense:
        problem = "the users of one cell would not sense those of another on the same channel, which is not modelled"
        remedy = "leave it out, put all users into one cell, or take a MAC that does not listen before it sends"
        yield Fault("shared_air", problem, True, remedy)


def _traffic_faults(network: NetworkAccess) -> Iterator[Fault]:
    early = all(traffic.destination == "tower" for traffic in network.traffic)
    ranked = not early and any(queue.has_priorities for queue in (network.queue, *network.queues.values()))
    for index, traffic in enumerate(network.traffic):
        prefix = f"traffic.{index}."
        if not ranked:
            reason = "because no queue uses priorities"
            yield from no_effect(traffic, ["priority"], reason, "take queue: priority", prefix)
        if traffic.source != "users":
            yield from no_effect(traffic, ["destination", "buffer"], "because no user sends it", prefix=prefix)


def _energy_faults(network: NetworkAccess, *, sends: bool) -> Iterator[Fault]:
    """Unknown devices, efficiencies without a radio, and costs of sending if no user sends."""
    if network.energy is None:
        return
    known = [*((network.compute and network.compute.devices) or ())]
    for name in network.energy.devices:
        if name not in known:
            yield Fault(
                f"energy.devices.{name}", "compute.devices has no device of that name", None, suggest(name, known)
            )
    for key, costs in network.energy.each():
        prefix = f"energy.{key}"
        if not sends:
            yield from no_effect(costs, ["transmit", "efficiency"], "because no user sends anything", prefix=prefix)
        elif network.radio is None:
            yield from no_effect(costs, ["efficiency"], "without a radio", "give transmit", prefix)


def _round_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    for name in ("round", "compute"):
        if getattr(network, name) is None:
            yield Fault(name, "missing; rounds need it", None, f"give {name}, or a duration in place of rounds")
    yield from no_effect(
        network, ("probe", "theory"), "on rounds", "leave it out, or give a duration in place of rounds"
    )
    yield from network.selection_faults(facts)
    if network.exempt is not None:
        for cause, why in inactive_causes(network, facts).items():
            yield from no_effect(network.exempt, [cause], f"because {why}", prefix="exempt.")
    yield from _downlink_faults(network)
    if network.transport is not None and network.mac is not None:
        yield from (fault.under("transport") for fault in network.transport.misfits(network.mac.max_payload_bits))
    if network.round is not None and network.round.is_continuous:
        reason = "with this rule of a round: no version is sent to a user with an outstanding update"
        yield from no_effect(network, ["on_new_version"], reason)
    if network.update_size is None and not facts.sized:
        yield Fault("update_size", "missing: no model determines the size of an update", None, "give it")


def _downlink_faults(network: NetworkAccess) -> Iterator[Fault]:
    if network.downlink is None:
        if network.broadcast_rate is None:
            yield Fault("broadcast_rate", "missing; an ideal downlink needs it", None, "give it, or a downlink")
    elif network.radio is None:
        yield from no_effect(network.downlink, ["power"], "without a radio", prefix="downlink.")


def _air_faults(network: NetworkAccess, *, needed: bool) -> Iterator[Fault]:
    """Errors of the radio parts; a MAC with a rate of its own needs no radio and no reception."""
    rate_bps = None if network.mac is None else network.mac.rate_bps
    alone = network.radio is None and network.reception is None and rate_bps is not None
    for name in _AIR:
        is_given = getattr(network, name) is not None
        if needed and not is_given and not alone:
            yield Fault(name, "missing; users that send over the air need it", None, f"give {name}")
    sampled = {"radio", "channel"} if network.probe is not None and network.radio is not None else set()
    if not needed:
        remedy = "leave it out, or set source: users"
        keys = [key for key in (*_AIR, *_LINK) if key not in sampled]
        yield from no_effect(network, keys, "because no user sends anything", remedy)
    elif alone:
        yield from no_effect(network, [key for key in _LINK if key not in sampled], "without a reception")
    if network.radio is not None and network.reception is not None and rate_bps is not None:
        reception_bps = network.reception.rate_bps(network.radio.bandwidth)
        if network.reception.modes > 1:
            problem = "the MAC has one rate, but the reception has several"
            yield Fault("mac", problem, None, "take a reception of one rate, such as snr_threshold, or another MAC")
        elif abs(reception_bps - rate_bps) > 1e-6 * rate_bps:
            problem = f"its rate is {rate_bps / 1e6:g} Mbps, but the reception's is {reception_bps / 1e6:g} Mbps"
            yield Fault("mac", problem, None, "set the same rate; without fading, leave radio and reception out")
    if (
        isinstance(network.mac, Lorawan)
        and not isinstance(network.reception, Lora | None)
        and network.reception.modes > 1
    ):
        problem = "lorawan sets the spreading factor, but the modes of this reception are no spreading factors"
        yield Fault("reception", problem, None, "take reception: lora, or one with a single mode")
    bandwidth_hz = None if network.mac is None else network.mac.bandwidth_hz
    if network.radio is not None and bandwidth_hz not in {None, network.radio.bandwidth}:
        problem = f"its bandwidth is {bandwidth_hz:g} Hz, but the radio's is {network.radio.bandwidth:g} Hz"
        yield Fault("mac", problem, None, "set the same bandwidth")


def _fading_faults(network: NetworkAccess) -> Iterator[Fault]:
    """Fadings whose pace follows neither from a key nor from the motion."""
    for index, channel in enumerate(network.channel):
        if not isinstance(channel, Fading) or not channel.follows_motion:
            continue
        if network.motion is None:
            yield UNPACED.under(f"channel.{index}")
        elif channel.frequency is None and len(carriers_hz(network.channel)) != 1:
            yield NO_CARRIER.under(f"channel.{index}")


def _probe_faults(network: NetworkAccess, facts: ScenarioFacts) -> Iterator[Fault]:
    if network.probe is None:
        return
    if network.radio is None and not network.outages:
        yield Fault("probe", "nothing can be sampled", None, "give radio and channel, or outages")
    if network.radio is None:
        yield from no_effect(network.probe, ["level", "lag"], "without a radio: there is no SNR", prefix="probe.")
    if facts.duration_s is not None and (network.probe.lag or 0.0) >= facts.duration_s:
        reason = f"with a duration of {facts.duration_s:g} s, which is not longer"
        yield from no_effect(network.probe, ["lag"], reason, "make it shorter", prefix="probe.")


def inactive_causes(network: NetworkAccess, facts: ScenarioFacts) -> dict[str, str]:
    """Return the causes of `netfl.network.counterfactual.CAUSES` that affect no user of *network*, and the reason."""
    reasons, compute = {}, network.compute
    if facts.users == 1:
        reasons["contention"] = "with one user, transmissions do not collide"
    if network.radio is None or network.reception is None:
        reasons["fading"] = "without a radio and a reception, no signal is too weak"
    if not network.outages:
        reasons["outage"] = "there are no outages"
    if facts.users == 1 or (compute is not None and compute.alike):
        reasons["compute"] = "all users train for the same time"
    return reasons
