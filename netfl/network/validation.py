"""Validation of a network: errors between parts that are each valid."""

from __future__ import annotations

from collections.abc import Iterator

from netfl.core.kinds import kind_of
from netfl.core.spec import no_effect
from netfl.errors import Fault, suggest
from netfl.network.allocation import ALLOCATION_VALUES, Allocation
from netfl.network.channel._fading import Fading, pace_faults
from netfl.network.compute import Compute
from netfl.network.energy import Energy
from netfl.network.evaluation_rounds import ANSWERS
from netfl.network.interference import Interference
from netfl.network.mac import CELL_VALUES, Mac
from netfl.network.radio.radios import Radio
from netfl.network.reception import Reception
from netfl.network.spec import NetworkSpec
from netfl.network.sum_validation import sum_faults
from netfl.network.traffic import class_names
from netfl.network.versions import Downlink
from netfl.types import DECLARE, UNDECLARED, ScenarioFacts

NO_ROUNDS = "without round: no rounds are served"
"""Reason why a key of rounds has no effect."""
_LINK = ("channel", "power_control", "interference", "receivers", "common_loss", "unreachable")
_ROUNDS = (
    "round", "compute", "broadcast_rate", "downlink", "update_size", "payload", "transport", "staleness", "exempt",
    "on_new_version", "allocation", "association", "trains_when", "server_link",
    "evaluation",
)  # fmt: skip


def network_faults(spec: NetworkSpec, facts: ScenarioFacts, *, selects_all: bool) -> Iterator[Fault]:
    """Yield missing parts of a network, contradictions, and keys without effect.

    Args:
        spec: the network.
        facts: facts of the scenario.
        selects_all: whether the server selects all users in every round.
    """
    is_timed = facts.duration_s is not None
    users_send = bool(spec.user_traffic) or not is_timed
    if is_timed:
        yield from no_effect(spec, _ROUNDS, NO_ROUNDS)
    else:
        yield from _round_faults(spec, facts, selects_all=selects_all)
    yield from _air_faults(spec, users_send=users_send)
    yield from pace_faults(spec.channel, moving=spec.motion is not None)
    yield from _probe_faults(spec, facts)
    yield from _traffic_faults(spec)
    yield from _energy_faults(spec, users_send=users_send)
    yield from _allocation_faults(spec, facts)
    yield from _association_faults(spec, is_timed=is_timed)
    yield from _radio_faults(spec)
    if is_timed and spec.traffic and all(traffic.destination == "tower" for traffic in spec.traffic):
        reason = "because all traffic leaves at the tower"
        remedy = "leave it out, or set destination: server"
        yield from no_effect(spec, ("queue", "queues", "routing"), reason, remedy)
    if spec.radio is None and not spec.association.follows_position:
        yield from no_effect(spec, ["motion"], "without a radio: positions do not matter")
    yield from _frequency_faults(spec)
    yield from _shared_air_faults(spec)
    yield from _jammer_faults(spec, users_send=users_send)
    yield from sum_faults(spec)
    if spec.receivers == ():
        yield Fault("receivers", "a list that names no tower", [], "name towers, such as [tower:0], or set own or all")


def _frequency_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Gains, noise and frequencies of channels that the MAC does not have, or that do not differ."""
    selective = [index for index, channel in enumerate(spec.channel) if channel.is_frequency_selective]
    if spec.mac is not None and not selective:
        for key in spec.mac.frequency_keys:
            problem = "has no effect without gains that differ by frequency"
            remedy = "leave it out, or add {kind: frequency_selective, …} to channel"
            yield Fault(f"mac.{key}", problem, None, remedy)
    if spec.mac is None or spec.radio is None:
        return
    remedy = "leave it out, or take a MAC with several channels, such as lorawan or multichannel_aloha"
    centres_hz = spec.mac.channels_hz(max(spec.radio.bandwidth_bounds_hz))
    if centres_hz is None:
        for index in selective:
            yield Fault(f"channel.{index}", "has no effect with a MAC of one frequency channel", None, remedy)
        reason = "with a MAC of one frequency channel"
        yield from no_effect(spec.radio, ["channel_noise"], reason, remedy, prefix="radio.")
    elif spec.radio.channel_noise is not None and len(spec.radio.channel_noise) != len(centres_hz):
        problem = f"{len(spec.radio.channel_noise)} values for the {len(centres_hz)} channels of the MAC"
        yield Fault("radio.channel_noise", problem, None, "give one for each channel")


def _shared_air_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Cells that would share one collision domain, and users that would not sense those of other cells."""
    if not spec.shared_air:
        if spec.mac is not None:
            reason = "without shared_air: no other cells interfere"
            yield from no_effect(spec.mac, spec.mac.shared_air_keys, reason, prefix="mac.")
        return
    if spec.interference.loses_all:
        remedy = "set interference: sinr, or interference: {kind: capture, margin: 6 dB}"
        yield Fault("shared_air", "all cells would share one collision domain", None, remedy)
    if spec.mac is not None and spec.mac.has_carrier_sense:
        problem = "the users of one cell would not sense those of another on the same channel, which is not modelled"
        remedy = "leave it out, put all users into one cell, or take a MAC that does not listen before it sends"
        yield Fault("shared_air", problem, True, remedy)


def _jammer_faults(spec: NetworkSpec, *, users_send: bool) -> Iterator[Fault]:
    """A jammer that meets nothing, or whose power has no effect or is missing, and what does not know of it."""
    jammer = spec.jammer
    if jammer is None:
        return
    if not users_send:
        yield Fault(
            "jammer", "has no effect, because no user sends anything", None, "leave it out, or set source: users"
        )
        return
    if spec.theory is not None:
        yield Fault("theory", "no formula counts a jammer", kind_of(type(spec.theory)), "leave it out, or the jammer")
    mac = spec.mac
    senses_by_power = mac is not None and mac.senses_by_power
    if spec.radio is None or (spec.interference.loses_all and not senses_by_power):
        reason = "where all frames that meet a burst are lost: no power is compared"
        if spec.radio is None:
            reason = "without a radio: no power is compared"
        yield from no_effect(jammer, ["power", "position"], reason, prefix="jammer.")
    elif jammer.power is None:
        problem = "missing: the signals of users are compared with it"
        yield Fault("jammer.power", problem, None, "give the received power, or set interference: collide")
    else:
        yield from (fault.under("jammer") for fault in jammer.channel_faults(spec.channel))
    if mac is not None:
        yield from (fault.under("mac") for fault in mac.jammer_faults())


def _traffic_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Names that occur twice, priorities that no queue uses, and keys of users' traffic in other traffic."""
    names = class_names(spec.traffic)
    for index, name in enumerate(names):
        if name in names[:index]:
            remedy = "give each class of traffic a name of its own"
            yield Fault(f"traffic.{index}.name", f"the same name as traffic.{names.index(name)}", name, remedy)
    all_leave_early = all(traffic.destination == "tower" for traffic in spec.traffic)
    has_priorities = any(queue.has_priorities for queue in (spec.queue, *spec.queues.values()))
    for index, traffic in enumerate(spec.traffic):
        prefix = f"traffic.{index}."
        if all_leave_early or not has_priorities:
            reason = "because no queue uses priorities"
            yield from no_effect(traffic, ["priority"], reason, "take queue: priority", prefix)
        if traffic.source != "users":
            yield from no_effect(traffic, ["destination", "buffer"], "because no user sends it", prefix=prefix)


def _energy_faults(spec: NetworkSpec, *, users_send: bool) -> Iterator[Fault]:
    """Batteries that nothing drains, unknown devices, and costs of cycles or of sending that are not known."""
    for index, outage in enumerate(spec.outages):
        yield from (fault.under(f"outages.{index}") for fault in outage.energy_faults(spec.energy))
    if spec.energy is None:
        return
    known_devices: list[str] = []
    if spec.compute is not None and spec.compute.devices is not None:
        known_devices = [*spec.compute.devices]
    has_down = any(costs.down is not None for _, costs in spec.energy.each())
    if has_down and any(outage.has_batteries for outage in spec.outages):
        problem = "a battery states when its user is off, and costs nothing then"
        yield Fault("energy.down", problem, spec.energy.down, "leave it out: idle counts while the battery is on")
    elif has_down and not spec.has_outages:
        for key, costs in spec.energy.each():
            yield from no_effect(costs, ["down"], "without outages: no user is ever down", prefix=f"energy.{key}")
    for name in spec.energy.devices:
        if name not in known_devices:
            problem = "compute.devices has no device of that name"
            yield Fault(f"energy.devices.{name}", problem, None, suggest(name, known_devices))
    for key, costs in spec.energy.each():
        prefix = f"energy.{key}"
        if spec.compute is None or spec.compute.cycles is None:
            reason = "without compute.cycles, the processor cycles of a sample"
            yield from no_effect(costs, ["capacitance"], reason, "give compute.cycles", prefix)
        if not users_send:
            reason = "because no user sends anything"
            yield from no_effect(costs, ["transmit", "efficiency"], reason, prefix=prefix)
        elif spec.radio is None:
            yield from no_effect(costs, ["efficiency"], "without a radio", "give transmit", prefix)


def _association_faults(spec: NetworkSpec, *, is_timed: bool) -> Iterator[Fault]:
    """An association that nothing lets users move, or that lacks signals, and packets that stay behind."""
    if is_timed or not spec.association.can_move:
        return
    if spec.association.follows_signal and spec.radio is None:
        problem = "compares the signals of towers, but there is no radio"
        yield Fault("association", problem, None, "give radio and channel, or use nearest_now")
    if spec.association.follows_reception and spec.receivers == "own":
        problem = "only the user's own tower hears it"
        yield Fault("association", problem, None, "give receivers: all, or use nearest_at_start")
    if spec.association.follows_position and spec.motion is None:
        yield from no_effect(spec, ["association"], "without a motion: users stay where they are")
    if spec.user_traffic:
        problem = "users change their towers, but their packets of traffic stay in the queues of a tower"
        yield Fault("association", problem, None, "use nearest_at_start, or set source: towers for the traffic")


def _unknown_values(allocation: Allocation) -> Iterator[Fault]:
    """Values that an allocation observes and that none can have."""
    unknown = [name for name in allocation.observes if name not in ALLOCATION_VALUES]
    if unknown:
        problem = f"it observes {', '.join(unknown)}, which an allocation cannot"
        yield Fault("allocation", problem, None, f"take names of {', '.join(ALLOCATION_VALUES)} in `observes`")


def _allocation_faults(spec: NetworkSpec, facts: ScenarioFacts) -> Iterator[Fault]:
    """An allocation whose shares no MAC uses, or that does not know the rates or energies that it depends on."""
    allocation = spec.allocation
    if allocation is None and _has_blocks(spec.mac):
        remedy = "add allocation: {kind: block_assignment, …}"
        if spec.round is None:
            remedy = "use another division, as an allocation assigns blocks when a round opens, and there are no rounds"
        yield Fault("mac", "its band is blocks, but nothing assigns them", None, remedy)
    if allocation is None or spec.round is None:
        return
    if allocation.needs_sample_counts and facts.classes is None:
        problem = "depends on the users' amounts of data, but there are no data"
        yield Fault("allocation", problem, None, "add data")
    if not allocation.reports and type(allocation).metrics is not Allocation.metrics:
        yield Fault("allocation", UNDECLARED, kind_of(type(allocation)), DECLARE)
    yield from _unknown_values(allocation)
    yield from _division_faults(allocation, spec.mac)
    if allocation.follows_capacity:
        yield from _capacity_faults(spec.reception)
    if not allocation.needs_energy:
        return
    if spec.energy is None:
        yield Fault("allocation", "depends on the energy of users, which is not counted", None, "give energy")
        return
    for key, costs in spec.energy.each():
        if costs.compute:  # its optimum would be another one
            problem = "the allocation plans with the energy of processor cycles, and not with a power while training"
            yield Fault(f"energy.{key}compute", problem, costs.compute, "give capacitance and compute.cycles")
    if not _knows_sending_power(spec.energy, spec.compute):
        problem = "depends on the power of sending, which is not given"
        yield Fault("allocation", problem, None, "give energy.transmit or energy.efficiency")


def _has_blocks(mac: Mac | None) -> bool:
    """Return whether the band of *mac* is blocks."""
    return mac is not None and mac.block_interference_dbm is not None


def _division_faults(allocation: Allocation, mac: Mac | None) -> Iterator[Fault]:
    """An allocation and a MAC of which one divides the band and the other does not, or not in that way."""
    has_blocks = _has_blocks(mac)
    if allocation.assigns_blocks and not has_blocks:
        remedy = "use mac: {kind: fdma, division: blocks, interference: […]}"
        yield Fault("allocation", "assigns blocks of the band, but the band of the MAC is no blocks", None, remedy)
    elif not allocation.assigns_blocks and has_blocks:
        remedy = "use allocation: {kind: block_assignment, …}, or mac: {kind: fdma, division: allocated}"
        yield Fault("allocation", "divides the band, but the band of the MAC is blocks", None, remedy)
    elif not has_blocks and (mac is None or "share" not in mac.control_ranges):
        remedy = "use mac: {kind: fdma, division: allocated}"
        yield Fault("allocation", "divides the band, but the MAC has its own division", None, remedy)


def _capacity_faults(reception: Reception | None) -> Iterator[Fault]:
    """A reception under which users do not send at capacity, as an allocation assumes."""
    remedy = "use reception: {kind: shannon}, without rate"
    if reception is None or not reception.follows_snr:
        problem = "assumes that users send at capacity, but the rates of the reception do not follow the SNR"
        yield Fault("allocation", problem, None, remedy)
    elif reception.averages_fading:
        problem = "assumes that users send at the capacity of their SNR, but they send at its mean over the fading"
        yield Fault("allocation", problem, None, remedy)


def _knows_sending_power(energy: Energy, compute: Compute | None) -> bool:
    """Return whether the power of sending is given for all users, or for each class of devices."""
    if energy.has_sending_power:
        return True
    if compute is None or not compute.devices:
        return False
    return all(name in energy.devices and energy.devices[name].has_sending_power for name in compute.devices)


def _round_faults(spec: NetworkSpec, facts: ScenarioFacts, *, selects_all: bool) -> Iterator[Fault]:
    """Missing parts of rounds, and keys that have no effect on them."""
    for name, part in (("round", spec.round), ("compute", spec.compute)):
        if part is None:
            yield Fault(name, "missing; rounds need it", None, f"give {name}, or traffic and a duration without rounds")
    remedy = "leave it out, or give traffic and a duration without rounds"
    yield from no_effect(spec, ("probe", "theory"), "on rounds", remedy)
    if spec.exempt is not None:
        for cause, reason in inactive_causes(spec, facts, selects_all=selects_all).items():
            yield from no_effect(spec.exempt, [cause], f"because {reason}", prefix="exempt.")
    yield from _downlink_faults(spec)
    if spec.transport is not None and spec.mac is not None:
        yield from (fault.under("transport") for fault in spec.transport.misfits(spec.mac.max_payload_bits))
    if spec.transport is not None:
        assumed = {"codec": "assumed_compression", "codec_down": "assumed_compression_down"}
        for codec in facts.coded:
            reason = f"because the {codec} of the scenario states the size"
            yield from no_effect(spec.transport, [assumed[codec]], reason, prefix="transport.")
    if spec.round is not None and spec.round.is_continuous:
        reason = "with this rule of a round: no version is sent to a user with an outstanding update"
        yield from no_effect(spec, ["on_new_version"], reason)
    yield from _training_rule_faults(spec)
    yield from _evaluation_faults(spec)
    if spec.update_size is None and not facts.sized:
        yield Fault("update_size", "missing: no model determines the size of an update", None, "give it")


def _evaluation_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Evaluations whose frames do not fit the air, or whose users may be at another tower when they answer."""
    if spec.evaluation is None:
        return
    if spec.association.can_move:
        problem = "users change their towers, but an evaluation stays at the tower that sent the model"
        yield Fault("evaluation", problem, None, "use association: nearest_at_start, or leave it out")
    if spec.round is not None and spec.round.is_continuous:
        problem = "with this rule of a round, rounds have no end at which users wait: they train while others deliver"
        yield Fault("evaluation", problem, None, "leave it out, or take another rule of round")
    answer_bits = spec.evaluation.answer
    if answer_bits is None:
        return
    if spec.interference.sums:
        problem = "answers have bits, which no sum has"
        yield Fault("evaluation.answer", problem, answer_bits, "leave it out: users evaluate, and answer nothing")
    if ANSWERS in class_names(spec.traffic):
        index = class_names(spec.traffic).index(ANSWERS)
        yield Fault(f"traffic.{index}.name", "the name of the answers of evaluations", ANSWERS, "choose another name")
    if spec.allocation is not None:
        problem = "users without a share of the band, which the allocation gives for rounds, could not answer"
        yield Fault("evaluation.answer", problem, answer_bits, "leave it out: users evaluate, and answer nothing")
    frame_bits = None if spec.mac is None else spec.mac.max_payload_bits
    if frame_bits is not None and answer_bits > frame_bits:
        problem = f"larger than a frame of the MAC ({frame_bits / 8:g} B)"
        yield Fault("evaluation.answer", problem, answer_bits, "make it smaller")


def _training_rule_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Rules of trainings that read batteries which nobody has, and users that would decide again without end."""
    if spec.trains_always:
        return
    needs_batteries = any(rule.needs_batteries for rule in spec.trains_when)
    needs_charging_times = any(rule.needs_charging_times for rule in spec.trains_when)
    if needs_batteries and not any(outage.has_batteries for outage in spec.outages):
        problem = "depends on batteries, but no user has one"
        yield Fault("trains_when", problem, None, "give outages a battery, or leave it out")
    elif needs_charging_times and not any(outage.has_charging_times for outage in spec.outages):
        problem = "depends on the times at which batteries are charged, but no battery has a source of power"
        yield Fault("trains_when", problem, None, "give a battery a charger of constant power, or a solar panel")
    if spec.round is not None and spec.round.is_continuous:
        problem = "with this rule of a round, a user that does not train would get the same version again, without end"
        yield Fault("trains_when", problem, None, "leave it out, or take another rule of round")


def _downlink_faults(spec: NetworkSpec) -> Iterator[Fault]:
    if spec.downlink is None:
        if spec.broadcast_rate is None:
            yield Fault("broadcast_rate", "missing; an ideal downlink needs it", None, "give it, or a downlink")
    elif spec.radio is None:
        yield from no_effect(spec.downlink, ["power"], "without a radio", prefix="downlink.")
    is_multicast = spec.downlink is not None and spec.downlink.mode == "multicast"
    if spec.server_link is not None and spec.server_link.copies == "user" and is_multicast:
        problem = "one for each user, but each tower sends one copy to all (downlink.mode)"
        yield Fault("server_link.copies", problem, "user", "set copies: tower, or downlink.mode: unicast")


def _air_faults(spec: NetworkSpec, *, users_send: bool) -> Iterator[Fault]:
    """Missing parts of the air, parts without effect, and parts that do not fit each other."""
    parts = {"radio": spec.radio, "reception": spec.reception, "mac": spec.mac}
    mac_has_rate = spec.mac is not None and spec.mac.rate_bps is not None
    is_without_radio = spec.radio is None and spec.reception is None and mac_has_rate  # no frame is too weak
    if users_send and not is_without_radio:
        for name, part in parts.items():
            if part is None:
                yield Fault(name, "missing; users that send over the air need it", None, f"give {name}")
    sampled_keys = set()
    if spec.probe is not None and spec.radio is not None:
        sampled_keys = {"radio", "channel"}
    if not users_send:
        remedy = "leave it out, or set source: users"
        keys = [key for key in (*parts, *_LINK) if key not in sampled_keys]
        yield from no_effect(spec, keys, "because no user sends anything", remedy)
    elif is_without_radio:
        yield from no_effect(spec, [key for key in _LINK if key not in sampled_keys], "without a reception")
    yield from _mac_faults(spec)
    if spec.reception is not None and spec.reception.averages_fading:
        yield from _double_fading_faults(spec)
    if spec.reception is not None and spec.reception.follows_snr:
        yield from _load_faults(spec)


def _double_fading_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Channels that fade beside a reception that averages over the fading."""
    for index, channel in enumerate(spec.channel):
        if isinstance(channel, Fading):
            problem = "fades, but the reception takes the mean over the fading itself"
            yield Fault(f"channel.{index}", problem, None, "leave it out, or set reception.fading: channel")


def _load_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Traffic of users that is a share of a rate of the air, where the reception fixes none."""
    for index, traffic in enumerate(spec.traffic):
        if traffic.source == "users" and traffic.rate_hz(1.0) != traffic.rate_hz(2.0):
            problem = "a load relative to the rate of the air, but the rates of the reception follow the SNR"
            yield Fault(f"traffic.{index}.load", problem, None, "give rate, in packets per second, in its place")


def _mac_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """A MAC that does not fit the reception or the bandwidth of the radio."""
    mac = spec.mac
    if mac is None:
        return
    unknown = [name for name in mac.observes if name not in CELL_VALUES]
    if unknown:
        known = ", ".join(CELL_VALUES)
        remedy = f"take names of {known} in `observes`; metrics such as age are named in `user_metrics`"
        yield Fault("mac", f"it observes {', '.join(unknown)}, which a MAC cannot", None, remedy)
    if mac.rate_bps is not None and spec.reception is not None and spec.reception.follows_snr:
        problem = "the MAC has one rate, but the rates of the reception follow the SNR"
        yield Fault("mac", problem, None, "take a reception of one rate, such as snr_threshold, or another MAC")
    elif mac.rate_bps is not None and spec.radio is not None and spec.reception is not None:
        yield from _fixed_rate_faults(mac, spec.radio, spec.reception)
    yield from _group_faults(mac, spec.interference)
    is_half_duplex = mac.receiver_limits is not None and mac.receiver_limits.is_half_duplex
    if is_half_duplex and spec.downlink is None and not mac.tower_answers:
        problem = "has no effect: without a downlink and acknowledgements, towers send nothing"
        yield Fault("mac.half_duplex", problem, True, "leave it out, or give one of both")
    yield from (fault.under("mac") for fault in mac.radio_faults(spec.radio, spec.channel, spec.reception))
    if spec.reception is not None:
        yield from (fault.under("reception") for fault in mac.reception_faults(spec.reception))
    if spec.radio is not None:
        yield from _band_faults(mac, spec.radio)
    yield from _station_faults(spec, mac)


def _station_faults(spec: NetworkSpec, mac: Mac) -> Iterator[Fault]:
    """A MAC that needs users of full power, or users that stay at their towers, in a network of others."""
    if mac.needs_full_power and not spec.power_control.is_full:
        problem = "lowers the power of frames, but the MAC decides who senses a frame by the full power of its sender"
        remedy = "leave it out, or let all stations sense each other (mac.senses: all)"
        yield Fault("power_control", problem, kind_of(type(spec.power_control)), remedy)
    if mac.needs_fixed_towers and spec.association.can_move:
        problem = "lets users change towers, but the MAC cannot move the backoff of stations that sense by power"
        remedy = "set nearest_at_start, or let all stations sense each other (mac.senses: all)"
        yield Fault("association", problem, kind_of(type(spec.association)), remedy)


def _fixed_rate_faults(mac: Mac, radio: Radio, reception: Reception) -> Iterator[Fault]:
    """A MAC of one rate, and a reception of another or of several."""
    if reception.modes > 1 and not mac.sets_modes:
        problem = "the MAC has one rate, but the reception has several"
        yield Fault("mac", problem, None, "take a reception of one rate, such as snr_threshold, or another MAC")
    if reception.modes > 1 or len(mac.rates_bps) > 1 or mac.rate_bps is None:
        return
    rates_bps = [reception.rate_bps(band_hz) for band_hz in radio.bandwidth_bounds_hz]
    reception_bps = max(rates_bps, key=lambda rate_bps: abs(rate_bps - (mac.rate_bps or 0.0)))
    if abs(reception_bps - mac.rate_bps) > 1e-6 * mac.rate_bps:
        problem = f"its rate is {mac.rate_bps / 1e6:g} Mbps, but the reception's is {reception_bps / 1e6:g} Mbps"
        yield Fault("mac", problem, None, "set the same rate; without fading, leave radio and reception out")


def _group_faults(mac: Mac, interference: Interference) -> Iterator[Fault]:
    """A MAC whose users send at once though one at most is received, and signals that do not overlap."""
    if mac.sends_groups and not interference.receives_several:
        problem = "the MAC lets several users send at once, of whom at most one is received"
        yield Fault("interference", problem, kind_of(type(interference)), "set interference: sic, or sinr")
    if mac.divides_band and interference.decodes_others:
        problem = "it decodes signals that overlap, but the MAC gives each user of a cell a share of the band"
        remedy = "set interference: sinr, or take a MAC whose users send in the whole band, such as noma"
        yield Fault("interference", problem, kind_of(type(interference)), remedy)


def _band_faults(mac: Mac, radio: Radio) -> Iterator[Fault]:
    """A MAC that has another bandwidth than the radio, or blocks for radios of several bandwidths."""
    low_hz, high_hz = radio.bandwidth_bounds_hz
    if _has_blocks(mac) and low_hz < high_hz:
        problem = (
            "the band of the MAC is blocks, which an allocation assigns to equal radios, but their bandwidths differ"
        )
        remedy = "give one bandwidth, or use mac: {kind: fdma, division: allocated}"
        yield Fault("radio.bandwidth", problem, None, remedy)
    if mac.bandwidth_hz is None or mac.bandwidth_hz == low_hz == high_hz:
        return
    radio_text = f"{high_hz:g} Hz" if low_hz == high_hz else f"from {low_hz:g} to {high_hz:g} Hz"
    problem = f"its bandwidth is {mac.bandwidth_hz:g} Hz, but the radio's is {radio_text}"
    yield Fault("mac", problem, None, "set the same bandwidth")


def _radio_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Radios of unknown classes, and what does not fit the downlink or its absence."""
    radio = spec.radio
    if radio is None:
        return
    known_devices: list[str] = []
    if spec.compute is not None and spec.compute.devices is not None:
        known_devices = [*spec.compute.devices]
    for fault in radio.device_faults(known_devices):
        yield fault.under("radio")
    if spec.downlink is None:
        yield from _faults_without_downlink(radio)
    else:
        yield from _downlink_radio_faults(radio, spec.downlink)


def _faults_without_downlink(radio: Radio) -> Iterator[Fault]:
    """Powers of towers that send nothing, and noise figures of users that receive nothing."""
    towers = {"tower": radio.tower}
    for name, tower in radio.towers.items():
        towers[f"towers.{name}"] = tower
    for key, tower in towers.items():
        reason = "without a downlink: towers send nothing over the air"
        yield from no_effect(tower, ["power"], reason, prefix=f"radio.{key}.")

    if "noise_figure" in radio.differing:
        problem = "has no effect by user without a downlink, on which alone users receive"
        yield Fault("radio.noise_figure", problem, None, "give one number")
    elif radio.tower.noise_figure is not None:  # towers receive with this one, and users do not receive
        reason = "beside radio.tower.noise_figure and without a downlink, on which alone users receive"
        yield from no_effect(radio, ["noise_figure"], reason, "leave it out, or give the downlink", prefix="radio.")


def _downlink_radio_faults(radio: Radio, downlink: Downlink) -> Iterator[Fault]:
    """A power of towers that is given twice or not at all, and a common signal in bands that differ."""
    power_is_known = radio.tower.power is not None or downlink.power is not None
    if radio.tower.power is not None and downlink.power is not None:
        problem = "the power of towers is given twice: downlink.power has it, too"
        yield Fault("radio.tower.power", problem, radio.tower.power, "leave one of them out")
    if "power" in radio.differing and not power_is_known:
        problem = "missing: without it towers have the power of their users, but these powers differ"
        yield Fault("downlink.power", problem, None, "give the power of towers")
    if "bandwidth" in radio.differing and downlink.mode == "multicast":
        problem = "one signal is sent to all users of a tower in one band, but their bandwidths differ"
        yield Fault("downlink.mode", problem, "multicast", "take unicast, or give one bandwidth")


def _probe_faults(spec: NetworkSpec, facts: ScenarioFacts) -> Iterator[Fault]:
    if spec.probe is None:
        return
    if spec.radio is None and not spec.has_outages:
        yield Fault("probe", "nothing can be sampled", None, "give radio and channel, or outages")
    if spec.radio is None:
        yield from no_effect(spec.probe, ["level", "lag"], "without a radio: there is no SNR", prefix="probe.")
    lag_s = spec.probe.lag or 0.0
    if facts.duration_s is not None and lag_s >= facts.duration_s:
        reason = f"with a duration of {facts.duration_s:g} s, which is not longer"
        yield from no_effect(spec.probe, ["lag"], reason, "make it shorter", prefix="probe.")


def inactive_causes(spec: NetworkSpec, facts: ScenarioFacts, *, selects_all: bool) -> dict[str, str]:
    """Return the causes of `netfl.network.counterfactual.CAUSES` that affect no user of a network, and the reason."""
    rule = spec.round
    is_continuous = rule is not None and rule.is_continuous
    reasons = {}
    if not spec.has_outages:
        reasons["outage"] = "there are no outages"
    if selects_all:
        reasons["selection"] = "the server selects all users"
    if facts.users == 1 or (spec.compute is not None and spec.compute.alike):
        reasons["compute"] = "all users train for the same time"
    if facts.users == 1:
        reasons["contention"] = "with one user, transmissions do not collide"
    elif spec.mac is not None and not spec.mac.has_contention:
        reasons["contention"] = "the MAC gives each user its share of the band, whoever else sends"
    if spec.radio is None or spec.reception is None:
        reasons["fading"] = "without a radio and a reception, no signal is too weak"
    if is_continuous or spec.on_new_version != "restart":
        reasons["superseded"] = "users abandon no update for a newer version"
        if spec.staleness is None:
            reasons["deadline"] = "the server takes updates whenever they come"
    if spec.interference.sums:
        reasons["airtime"] = "all signals of a sum have one length"
        reasons["contention"] = "all users of a sum send at once, and none disturbs another"
        reasons["deadline"] = "an update that comes later is in no sum"
    return reasons
