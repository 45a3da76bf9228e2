"""Construction of a `NetworkConfig` from the description of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netfl.core.kinds import kind_of
from netfl.core.spec import no_effect
from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.network.association._rule import RoamingRule
from netfl.network.channel._measured import Measured, repeated_path_loss
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.counterfactual import NO_EXEMPTIONS
from netfl.network.counterfactual.connection import UninterruptedConnection
from netfl.network.counterfactual.medium import UnfadedMedium
from netfl.network.energy import EnergyMeter
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.parts import NetworkParts
from netfl.network.power_control import PowerControl
from netfl.network.radio.cell_band import CellBand
from netfl.network.radio.connection import Connection
from netfl.network.radio.downlink_boost import DownlinkBoost
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.medium import Medium
from netfl.network.radio.radios import one_if_equal
from netfl.network.radio.tower_links import TowerLinks
from netfl.network.radio.transmission import share_gain_db
from netfl.network.sampler import Sampler
from netfl.network.sizes import broadcast_bits, design_payload, largest_frame_bits, transport_of
from netfl.network.spec import NetworkSpec
from netfl.network.state_times import DownTimes
from netfl.network.theory import TheoryCase
from netfl.network.training_gate import TrainingGate
from netfl.streams import Streams
from netfl.types import AccessContext, Floats, Ints, Users

_ROUNDING = 1e-9
"""Amount by which a share may exceed the bandwidth of a radio, as rounding, relative to it."""


def build_layout(parts: NetworkParts, context: AccessContext) -> Layout:
    """Return positions, links and trajectories.

    Raises:
        ScenarioError: the topology or the motion cannot be used; keys as in the scenario.
    """
    with prefix_faults("topology"):
        layout = parts.topology.open(context.users, context.streams.at("topology"))
    if parts.motion is None:
        return layout
    with prefix_faults("motion"):
        paths = parts.motion.open(layout, context.streams.at("motion"))
    return replace(layout, paths=paths)


def device_names(spec: NetworkSpec, context: AccessContext) -> NDArray[np.str_] | None:
    """Return the class of devices of each user, ``[users]``; ``None`` without classes."""
    if spec.compute is None or spec.compute.devices is None:
        return None
    names = np.array([*spec.compute.devices])
    return np.asarray(names[spec.compute.device(context.users, compute_streams(context))])


def open_budget(spec: NetworkSpec, context: AccessContext, layout: Layout) -> LinkBudget:
    """Return the SNRs of all links of a network with a radio.

    Raises:
        ScenarioError: a channel is not valid here, or a radio is that of a tower that does not exist; keys as in the
            scenario.
    """
    if spec.radio is None:
        raise ValueError("a link budget needs a radio")
    faults = [fault.under("radio") for fault in spec.radio.tower_faults(layout.towers)]
    if faults:
        raise ScenarioError(faults)
    devices = device_names(spec, context)
    return LinkBudget(spec.radio, spec.channel, layout, context.streams, devices, spec.channels_hz)


def open_band(spec: NetworkSpec, context: AccessContext, layout: Layout) -> CellBand:
    """Return the band of the cells of a network with a radio."""
    if spec.radio is None:
        raise ValueError("a band needs a radio")
    devices = device_names(spec, context)
    radios = spec.radio.open(layout.users, layout.towers, devices, context.streams.at("radio"))
    return _band_of(spec, radios.bandwidth_hz)


def _band_of(spec: NetworkSpec, bandwidth_hz: Floats) -> CellBand:
    """Return the band of cells with radios of *bandwidth_hz*, ``[users]``."""
    width_hz = None
    if spec.mac is not None:
        width_hz = spec.mac.band_hz
    return CellBand.of_radios(bandwidth_hz, width_hz)


def compute_streams(context: AccessContext) -> Streams:
    """Return the streams of devices, speeds and training times."""
    return context.streams.at("compute")


def build_network(spec: NetworkSpec, context: AccessContext) -> NetworkConfig:
    """Return the parts of a network simulation.

    Raises:
        ScenarioError: parts do not fit each other, or the theory does not hold; keys as in the scenario.
    """
    faults: list[Fault] = []

    # where everything is, and when it is up
    layout = build_layout(spec, context)
    outages = CombinedOutages()
    try:
        with prefix_faults("outages"):
            outages = CombinedOutages.open(spec.outages, layout, context.streams, spec.association.stays)
    except ScenarioError as error:
        faults += error.faults  # reported together with those of the other parts
    faults += _layout_faults(spec, layout)

    # rounds, and the energy of users, which batteries pay
    budget = None
    band = CellBand()
    if spec.radio is not None:
        budget = open_budget(spec, context, layout)
        band = _band_of(spec, budget.radios.bandwidth_hz)
    service = None
    if context.duration_s is None:
        service = open_service(spec, context, budget)
    energy = open_energy(spec, context, service, budget)
    if energy is not None:
        users = np.arange(layout.users)
        outages.draw_from(energy)
        energy.count_idle_by(lambda now_s: outages.idle_j(users, now_s))
        energy.count_down_by(DownTimes(outages, layout.users))

    training_gate = None
    if not spec.trains_always:
        training_gate = TrainingGate(spec.trains_when, outages, context.streams.field("trains_when"))

    # the tower of each user
    roaming = None
    visitors: Mapping[int, Users] = {}
    if not faults:
        roaming = open_roaming(spec, layout, budget)
    if roaming is not None:
        visitors = roaming.visitors(layout)

    # the air
    node_state = NodeState(outages, layout.nodes)
    medium = _medium(spec, context, layout, budget, node_state)
    if medium is not None:
        medium.energy = energy
        if spec.jammer is not None:
            medium.jamming = spec.jammer.open(context.streams.at("jammer"), budget)
        frame_bits = largest_frame_bits(spec, context)
        faults += _reach_faults(spec, medium, layout, band, frame_bits, service)
        faults += _data_faults(spec, context, layout)
        if spec.mac is not None:
            longest_s = medium.longest_s(frame_bits)
            faults += [fault.under("mac") for fault in spec.mac.airtime_faults(longest_s)]
            faults += [fault.under("mac") for fault in spec.mac.layout_faults(layout)]
            faults += _width_faults(spec.mac, layout, band)

    if faults:
        raise ScenarioError(faults)
    return NetworkConfig(
        layout=layout,
        medium=medium,
        mac=spec.mac,
        shared_air=spec.shared_air,
        queue=spec.queue,
        queues=spec.queues,
        routing=spec.routing,
        outages=outages,
        node_state=node_state,
        traffic=spec.traffic,
        service=service,
        exemptions=spec.exempt or NO_EXEMPTIONS,
        allocation=spec.allocation,
        band=band,
        reception=spec.reception,
        held=context.held if spec.allocation is not None and spec.allocation.needs_sample_counts else None,
        allocation_streams=context.streams.at("allocation"),
        training_gate=training_gate,
        visitors=visitors,
        roaming=roaming,
        energy=energy,
        receivers=receivers_of(spec, layout),
        controls_power=not spec.power_control.is_full or (spec.mac is not None and spec.mac.sets_power),
        sampler=_sampler(spec, context, layout, outages),
        records_states=spec.energy is not None and spec.energy.states,
        expected=_theory_values(spec, layout, context.streams),
    )


def open_roaming(spec: NetworkSpec, layout: Layout, budget: LinkBudget | None) -> RoamingRule | None:
    """Return the rule by which users change their towers; ``None`` if they keep them.

    Raises:
        ScenarioError: the association is not valid here; the keys start with ``association``.
    """
    if not spec.association.can_move:
        return None
    links = TowerLinks(layout, budget)
    with prefix_faults("association"):
        return RoamingRule.begin(spec.association, links)


def towers_at_start(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Ints:
    """Return the tower of each user at the start, as the association decides, ``[users]``.

    Raises:
        ScenarioError: the association is not valid here; the keys start with ``association``.
    """
    if not spec.association.can_move:
        return layout.tower_at_start
    budget = None if spec.radio is None else open_budget(spec, context, layout)
    roaming = open_roaming(spec, layout, budget)
    assert roaming is not None
    return roaming.start


def _layout_faults(spec: NetworkSpec, layout: Layout) -> Iterator[Fault]:
    """Yield the errors of keys that need nodes which the layout does not have."""
    for index, traffic in enumerate(spec.traffic):
        if traffic.source != "users" and not layout.with_role(traffic.source.removesuffix("s")):
            problem = f"there are no {traffic.source} in this topology"
            yield Fault(f"traffic.{index}.source", problem, traffic.source, "set source: towers")
    if spec.shared_air and len(layout.towers) == 1:
        yield from no_effect(spec, ["shared_air"], "with one tower: there are no other cells")
    if spec.interference.sums and len(layout.towers) > 1:
        problem = f"sums are those of one tower, but there are {len(layout.towers)}"
        yield Fault("interference", problem, kind_of(type(spec.interference)), "take a topology with one, such as star")
    if spec.receivers != "own" and len(layout.towers) == 1:
        yield from no_effect(spec, ["receivers"], "with one tower: no other receives")
    elif isinstance(spec.receivers, tuple):
        for index, name in enumerate(spec.receivers):
            if name not in layout.towers:
                yield Fault(f"receivers.{index}", "no such tower", name, suggest(name, layout.towers))
    if spec.association.can_move and not spec.association.has_absences and len(layout.towers) == 1:
        yield from no_effect(spec, ["association"], "with one tower: there is no other to move to")


def _width_faults(mac: Mac, layout: Layout, band: CellBand) -> Iterator[Fault]:
    """Yield the error of users that always have shares of the band that are wider than their radios."""
    limits = band.limits(np.arange(layout.users))
    bounds = mac.share_bounds(layout, limits)
    if bounds is None:
        return
    wide_users = np.flatnonzero(bounds.smallest > limits * (1.0 + _ROUNDING))
    if not wide_users.size:
        return
    user = int(wide_users[0])
    share_hz = bounds.smallest[user] * band.width_hz
    radio_hz = limits[user] * band.width_hz
    problem = f"shares that are wider than the radio: user {user} has {share_hz:g} Hz, and its radio {radio_hz:g} Hz"
    remedy = f"give it at most {limits[user]:.6g} of the band, or a radio of a larger bandwidth"
    yield Fault("mac.shares", problem, wide_users.tolist(), remedy)


def _data_faults(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[Fault]:
    """Yield the errors of measured channels whose data do not last for the run, or have no links to other cells."""
    if spec.radio is None:
        return
    for index, channel in enumerate(spec.channel):
        prefix = f"channel.{index}"
        if context.duration_s is not None:
            misfit = channel.data_misfit(layout, context.duration_s)
            if misfit is not None:
                yield misfit.under(prefix)
        missing = channel.missing_towers(layout)
        for key, reason, towers in _other_links(spec, layout):
            unlinked = [tower for tower in missing if tower in towers]
            if unlinked:
                problem = f"{reason}, but it has no links of all users to some towers"
                remedy = f"add the column tower, and lines for all towers; or leave {key} out"
                yield Fault(f"{prefix}.file", problem, unlinked, remedy)
                break


def _other_links(spec: NetworkSpec, layout: Layout) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield keys by which users have links to other towers, with the reason and these towers."""
    if spec.shared_air:
        yield "shared_air", "with shared_air, users of other cells interfere", layout.towers
    if spec.association.can_move:
        yield "association", "with this association, users change their towers", layout.towers
    yield "receivers", "with receivers, towers receive users of other cells", receivers_of(spec, layout)


def receivers_of(spec: NetworkSpec, layout: Layout) -> tuple[str, ...]:
    """Return the towers that hear the users of every tower, beside their own, in the order of the network."""
    if spec.receivers == "own" or len(layout.towers) == 1:
        return ()
    if spec.receivers == "all":
        return layout.towers
    return tuple(name for name in layout.towers if name in spec.receivers)


def _reach_faults(
    spec: NetworkSpec,
    medium: Medium,
    layout: Layout,
    band: CellBand,
    frame_bits: float,
    service: RoundServiceConfig | None,
) -> Iterator[Fault]:
    """Yield the errors of users whose best signal is too weak for a frame, or for a version on the downlink."""
    if not isinstance(medium, FadingMedium) or spec.unreachable == "keep":
        return
    users = np.arange(layout.users)
    towers = [""]  # that of the start
    if spec.association.can_move:
        towers = [*layout.towers]
    best_snr_db = np.max([medium.best_snr_db(users, tower) for tower in towers], axis=0)
    heard_by = [*towers, *receivers_of(spec, layout)]
    heard_db = [medium.best_frame_snr_db(users, name) for name in heard_by]  # on the best frequency channel
    needed_db = medium.threshold_db(users, frame_bits)
    shares = None
    if spec.mac is not None:
        shares = spec.mac.share_bounds(layout, band.limits(users))
    remedy = _reach_remedy(spec, float(np.max(needed_db)))
    uplink_snr_db = np.max(heard_db, axis=0)
    yield from _power_faults(spec.power_control, best_snr_db, float(np.min(needed_db)))
    if shares is not None:
        with np.errstate(divide="ignore"):  # a share may be as small as needed
            uplink_snr_db = uplink_snr_db + share_gain_db(band.radio_shares(users, shares.smallest))
    yield from _weak_signal_faults("channel", "never be received", uplink_snr_db, needed_db, remedy)
    if service is not None and service.downlink is not None:
        assert service.boost is not None
        best_snr_db = np.max([_best_down_db(medium, service.boost, layout, tower) for tower in towers], axis=0)
        needed_db = medium.threshold_db(users, service.broadcast_bits)
        remedy = "raise it; or set unreachable: keep"
        yield from _weak_signal_faults("downlink.power", "never receive a version", best_snr_db, needed_db, remedy)


def _power_faults(control: PowerControl, best_snr_db: Floats, needed_db: float) -> Iterator[Fault]:
    """Yield the errors of a power control with which no frame can be received, or some users never send."""
    if control.highest_snr_db < needed_db:
        problem = f"no frame can be received: the reception needs an SNR of {needed_db:.1f} dB"
        yield Fault(
            "power_control.target", problem, control.highest_snr_db, "raise it, or take a more robust reception"
        )
    silent_users = np.flatnonzero(best_snr_db < control.least_channel_snr_db)
    if silent_users.size:
        worst = int(best_snr_db.argmin())
        problem = (
            f"users that never send: user {worst} reaches an SNR of {best_snr_db[worst]:.1f} dB at its best, and "
            f"withholds its frames below {control.least_channel_snr_db:.1f} dB"
        )
        remedy = "lower it, or move users nearer; or set unreachable: keep"
        yield Fault("power_control.threshold", problem, silent_users.tolist(), remedy)


def _best_down_db(medium: Medium, boost: DownlinkBoost, layout: Layout, tower: str) -> Floats:
    """Return the best SNR of each user on the downlink of *tower*, or of its tower of the start, ``[users]``."""
    users = np.arange(layout.users)
    senders = layout.tower_at_start
    if tower:
        senders = np.full(layout.users, layout.towers.index(tower))
    return medium.best_snr_db(users, tower) + boost.at(users, senders)


def _reach_remedy(spec: NetworkSpec, needed_snr_db: float) -> str:
    """Return what gives users a better signal: where they are and what they send, or the values of a file."""
    repeated = repeated_path_loss(spec.channel)
    if repeated:
        return repeated
    measured = [channel for channel in spec.channel if isinstance(channel, Measured)]
    if measured and spec.radio is not None:
        remedy = measured[0].weak_signal_remedy(needed_snr_db, max(spec.radio.bandwidth_bounds_hz))
    else:
        remedy = (
            "move users nearer (topology), raise radio.power, or lower the losses or the SNR that the reception needs"
        )
    return f"{remedy}; or set unreachable: keep"


def _weak_signal_faults(
    key: str, effect: str, best_snr_db: Floats, needed_db: float | Floats, remedy: str
) -> Iterator[Fault]:
    weak_users = np.flatnonzero(best_snr_db < needed_db)
    if not weak_users.size:
        return
    missing_db = needed_db - best_snr_db
    worst = int(missing_db.argmax())
    problem = (
        f"users that can {effect}: the worst, user {worst}, reaches an SNR of {best_snr_db[worst]:.1f} dB at its best, "
        f"{missing_db[worst]:.1f} dB below the SNR that it needs"
    )
    yield Fault(key, problem, weak_users.tolist(), remedy)


def _sampler(spec: NetworkSpec, context: AccessContext, layout: Layout, outages: CombinedOutages) -> Sampler | None:
    if spec.probe is None:
        return None
    budget = None
    if spec.radio is not None:
        budget = open_budget(spec, context, layout)
    return Sampler(spec.probe, layout, budget, outages, context.warmup_s)


def _theory_values(spec: NetworkSpec, layout: Layout, streams: Streams) -> Mapping[str, float]:
    if spec.theory is None:
        return {}
    case = TheoryCase(spec, layout, streams)
    faults = [*spec.theory.misfits(case)]
    if faults:
        raise ScenarioError(faults)
    return dict(spec.theory.predict(case))


def open_energy(
    spec: NetworkSpec, context: AccessContext, service: RoundServiceConfig | None, budget: LinkBudget | None
) -> EnergyMeter | None:
    """Return the meter of what users spend; ``None`` if it is not counted."""
    if spec.energy is None:
        return None
    devices = device_names(spec, context)
    if devices is None:
        devices = np.full(context.users, "")
    power_dbm: float | Floats = np.nan
    if budget is not None:
        power_dbm = one_if_equal(budget.radios.power_dbm)
    cycles_hz2: float | Floats = 0.0
    frequency_hz = None
    if spec.compute is not None:
        frequency_hz = spec.compute.frequencies_hz(context.users, compute_streams(context))
    if spec.compute is not None and frequency_hz is not None:
        cycles_hz2 = np.array(spec.compute.cycles) * np.square(frequency_hz)
    rates = spec.energy.rates(devices, power_dbm, cycles_hz2)
    if service is None:  # nobody trains, and no version is broadcast
        return EnergyMeter(rates, np.zeros(context.users))
    evaluated = None
    if spec.evaluation is not None:
        evaluated = spec.evaluation.work(context.users)
    if service.downlink is not None:  # the downlink states how long each copy takes
        return EnergyMeter(rates, service.samples, 0.0, evaluated)
    return EnergyMeter(rates, service.samples, service.broadcast_bits / service.broadcast_bps, evaluated)


def _medium(
    spec: NetworkSpec, context: AccessContext, layout: Layout, budget: LinkBudget | None, node_state: NodeState
) -> Medium | None:
    exemptions = spec.exempt or NO_EXEMPTIONS
    hearers = [layout.number(name) for name in receivers_of(spec, layout)]
    connection = exemptions.choose(Connection, UninterruptedConnection, "outage")(node_state, hearers)
    if budget is not None and spec.reception is not None:
        new_medium = exemptions.choose(FadingMedium, UnfadedMedium, "fading")
        return new_medium(
            budget,
            spec.reception,
            connection,
            context.streams.at("reception"),
            interference=spec.interference,
            power_control=fitted_control(spec, layout, budget),
            common_loss=spec.common_loss,
            codes_per_channel=None if spec.mac is None or spec.channels_hz is None else spec.mac.codes_per_channel,
        )
    if spec.mac is not None and spec.mac.rate_bps is not None:
        return Medium(spec.mac.rate_bps, connection)
    return None  # no user sends


def fitted_control(spec: NetworkSpec, layout: Layout, budget: LinkBudget) -> PowerControl:
    """Return the power control for the users of a network, by their SNRs at their towers of the start."""
    users = np.arange(layout.users)
    mean_snr_db = np.empty(layout.users)
    for index, tower in enumerate(layout.towers):
        is_there = layout.tower_at_start == index
        mean_snr_db[is_there] = budget.slow_snr_db(users[is_there], 0.0, tower)
    return spec.power_control.fitted(mean_snr_db)


def open_service(spec: NetworkSpec, context: AccessContext, budget: LinkBudget | None) -> RoundServiceConfig:
    """Return the settings of rounds.

    Raises:
        ValueError: the network has no rounds.
    """
    if spec.compute is None or spec.round is None:
        raise ValueError("rounds need compute and a rule")
    update_bits = design_payload(spec, context).uplink_bits
    transport = transport_of(spec, update_bits)

    compute_s = spec.compute.time_s(context.samples, compute_streams(context))
    warm_up_s = spec.compute.warm_up_s(context.users, compute_streams(context))
    if spec.exempt is not None and spec.exempt.compute:  # they are as fast as the fastest user
        compute_s = np.array(compute_s)
        compute_s[list(spec.exempt.compute)] = compute_s.min()
        if warm_up_s is not None:
            warm_up_s[list(spec.exempt.compute)] = warm_up_s.min()

    staleness = spec.staleness
    if staleness is None and spec.is_punctual:  # users abandon older updates anyway
        staleness = 0

    evaluate_s = None
    if spec.evaluation is not None:
        speeds = spec.compute.speeds(context.users, compute_streams(context))
        evaluate_s = np.asarray(spec.evaluation.work(context.users) / speeds)

    boost = None
    if budget is not None and spec.downlink is not None:
        boost = budget.downlink_boost(spec.downlink.power)
    return RoundServiceConfig(
        update_bits=update_bits / transport.assumed_compression,
        samples=spec.compute.work(context.samples),
        compute_s=compute_s,
        jitter=spec.compute.training_jitter(compute_streams(context)),
        broadcast_bits=broadcast_bits(spec, context),
        broadcast_bps=spec.broadcast_rate or np.inf,
        rule=spec.round,
        on_new_version=spec.on_new_version,
        staleness=staleness,
        downlink=spec.downlink,
        boost=boost,
        transport=transport,
        warm_up_s=warm_up_s,
        server_link=spec.server_link,
        evaluation=spec.evaluation,
        evaluate_s=evaluate_s,
    )
