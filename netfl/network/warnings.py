"""Warnings about networks that are valid but probably not intended."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from netfl.core.kinds import kind_of
from netfl.network._tracks import MAX_DEGREES
from netfl.network.association import Association
from netfl.network.build import (
    build_layout,
    compute_streams,
    open_band,
    open_budget,
    open_energy,
    open_service,
    towers_at_start,
)
from netfl.network.channel._fading import carriers_hz, with_carrier
from netfl.network.channel._measured import Measured, repeated_path_loss
from netfl.network.channel._motion_pace import COHERENCE_FACTOR, MotionPace
from netfl.network.late_groups import late_group_warnings
from netfl.network.late_updates import RoundSetting, late_update_warnings
from netfl.network.layout import Layout
from netfl.network.least_time import least_times
from netfl.network.mac import Mac
from netfl.network.motion import Motion
from netfl.network.outage import LargestUses, Outage
from netfl.network.outage._availability_file import AvailabilityFile
from netfl.network.placement import Placement
from netfl.network.radio.tower_links import TowerLinks
from netfl.network.sizes import broadcast_bits, largest_frame_bits, update_cut
from netfl.network.spec import NetworkSpec
from netfl.types import AccessContext, Ints

_INSTANTS_S = tuple(977.0 * number for number in range(64))
"""Instants over which the gain of a link is averaged."""
_MAX_LINKS, _MAX_LISTED = 1_000, 3
"""Links whose gain is checked, spread over all users, and those that a warning lists."""
_NEAR_TOWERS, _CLEAR_DB = 7, 3.0
"""Nearest towers whose signals are compared, and the difference in dB from which on another one is named."""
_ROUNDING_DB = 1e-9
_ROUNDING = 1e-9
"""Relative tolerance of a distance at a limit."""
_NARROW_M = 5.0
"""Distance to the tower that the farthest user usually exceeds."""
_LONG_ROUND_S = 86400.0
"""Length that rounds without a deadline are assumed not to reach."""


def network_warnings(
    spec: NetworkSpec, context: AccessContext, max_selected: int, *, sets_deadline: bool = False
) -> Iterator[str]:
    """Yield warnings about topologies, allocations, links, positions, fading, batteries, slots and updates.

    Args:
        spec: the network.
        context: what the network is built for.
        max_selected: largest number of users that take part in a round.
        sets_deadline: whether the selection decides the deadline of each round, so that none is known.
    """
    layout = build_layout(spec, context)
    deadline_s = None
    if spec.round is not None and not sets_deadline:
        deadline_s = spec.round.deadline_s
    for warning in spec.topology.warnings():
        yield f"access.topology, {kind_of(type(spec.topology))}: {warning}"
    yield from _values_of_allocation(spec)
    yield from _missing_allocation(spec)
    yield from _amplified_links(spec, context, layout)
    yield from _near_users(spec, layout)
    yield from _other_towers(spec, context, layout)
    yield from _narrow_layout(spec, layout)
    yield from _marked_positions(spec, layout)
    yield from _beyond_capacity(spec, context, layout)
    yield from _fast_fading(spec, context, layout)
    yield from _held_rates(spec, context, layout)
    yield from _unfit_paces(spec, layout)
    yield from _costly_uses(spec, context, layout)
    yield from _files_outside(spec, context, deadline_s)
    yield from _motion_warnings(spec, context, deadline_s)
    yield from _short_data(spec, context, layout, deadline_s)
    yield from _measured_doubts(spec)
    yield from _named_users(spec)
    yield from _repeated_path_loss(spec)
    yield from _mac_warnings(spec, context, layout)
    yield from late_group_warnings(spec, context, layout, deadline_s)
    if context.duration_s is None:
        yield from _fragile_updates(spec, context)
        yield from _overload(spec, context, layout)
        yield from _version_backlog(spec, context, layout, max_selected, deadline_s)
        yield from late_update_warnings(RoundSetting(spec, context, max_selected, deadline_s, sets_deadline))
        yield from _late_allocation(spec, deadline_s)
        yield from _repeats_in_blocks(spec)


def network_notes(spec: NetworkSpec, context: AccessContext, max_selected: int) -> Iterator[str]:
    """Yield sentences on what the settings of a network give a user; the arguments are those of `network_warnings`."""
    if spec.mac is None:
        return
    layout = build_layout(spec, context)
    users = int(np.bincount(towers_at_start(spec, context, layout)).max())
    selected = min(users, max_selected)
    if spec.allocation is None and "share" in spec.mac.control_ranges:
        yield (
            f"band: without an allocation, 1/{users} for each of {users} users of a cell all the time, unless a caller "
            f"gives other shares; with allocation: equal, 1/{selected} for each of {selected} users"
        )
    else:
        yield from spec.mac.notes(users, selected)
    if spec.mac.divides_band and spec.radio is not None:
        yield from _narrow_radios(spec, context, layout)


def _narrow_radios(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Users that cannot have all of the band, whoever else sends."""
    limits = open_band(spec, context, layout).limits(np.arange(layout.users))
    narrow = np.flatnonzero(limits < 1.0 - _ROUNDING)
    if narrow.size:
        narrowest = int(limits.argmin())
        have = "has a radio" if narrow.size == 1 else "have radios"
        yield (
            f"band: {narrow.size} of {layout.users} users {have} narrower than the band, and no larger share: "
            f"user {narrowest} at most {limits[narrowest]:.3g} of it; what is over is for the others"
        )


def _amplified_links(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Links with a mean gain above 0 dB, as of a channel that returns a loss in place of a gain."""
    if spec.radio is None:
        return
    users = np.unique(np.linspace(0, layout.users - 1, _MAX_LINKS).astype(np.int64))
    budget = open_budget(spec, context, layout)
    gains_db = budget.mean_gains_db(users, _INSTANTS_S)
    total_db = gains_db.sum(axis=0)
    amplified = np.flatnonzero(total_db > _ROUNDING_DB)
    if not amplified.size:
        return
    links = [
        f"user {users[link]} to {layout.towers[layout.tower_at_start[users[link]]]}: {total_db[link]:.3g} dB"
        for link in amplified
    ]
    more = f" and {len(links) - _MAX_LISTED} more" if len(links) > _MAX_LISTED else ""
    index = int(gains_db[:, amplified[0]].argmax())
    kind = kind_of(type(spec.channel[index]))
    yield (
        f"amplified signals: the mean gain of a link is above 0 dB ({', '.join(links[:_MAX_LISTED])}{more}), the most "
        f"by access.channel.{index}, {kind}; a loss is a negative gain: check the sign"
    )


def _near_users(spec: NetworkSpec, layout: Layout) -> Iterator[str]:
    """Users so near to their tower that distance makes no difference; of moving users those that usually are."""
    if spec.radio is None:
        return
    users, instants_s = _places_to_check(layout)
    for index, channel in enumerate(spec.channel):
        limit = channel.near_limit
        if limit is None:
            continue
        below_m = limit.distance_m * (1.0 - _ROUNDING)
        near_share = np.mean([layout.distances_m(users, time_s) < below_m for time_s in instants_s], axis=0)
        count = int(np.count_nonzero(near_share > 0.5))
        if not count:
            continue
        be = "is" if count == 1 else "are"
        yield (
            f"access.channel.{index}, {kind_of(type(channel))}: {count} of {len(users)} users {be} within "
            f"{limit.distance_m:.4g} m of their tower, where {limit.reason}; {limit.remedy}"
        )


def _other_towers(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Users whose tower is clearly weaker than another one at the start, where no association is stated."""
    is_stated = "association" in spec.model_fields_set
    if spec.radio is None or is_stated or len(layout.towers) == 1:
        return
    if any(channel.missing_towers(layout) for channel in spec.channel):  # data of links to their own towers alone
        return
    links = TowerLinks(layout, open_budget(spec, context, layout))
    users = np.unique(np.linspace(0, layout.users - 1, _MAX_LINKS).astype(np.int64))
    towers = links.nearest_few(users, 0.0, _NEAR_TOWERS)
    signals_dbm = links.signals_dbm(np.repeat(users, towers.shape[1]), towers.ravel(), 0.0).reshape(towers.shape)
    best = signals_dbm.argmax(axis=1)
    excess_db = signals_dbm.max(axis=1) - signals_dbm[:, 0]  # the nearest is the first
    weaker = np.flatnonzero(excess_db > _CLEAR_DB)
    if not weaker.size:
        return
    listed = [
        f"user {users[row]}: {layout.towers[towers[row, best[row]]]} by {excess_db[row]:.1f} dB"
        for row in weaker[:_MAX_LISTED].tolist()
    ]
    more = f" and {weaker.size - _MAX_LISTED} more" if weaker.size > _MAX_LISTED else ""
    checked = "" if len(users) == layout.users else f" of {len(users)} that were checked"
    have = "user has" if weaker.size == 1 else "users have"
    yield (
        f"access.association: {weaker.size} {have} a mean signal that is stronger at another tower than at their own, "
        f"by more than {_CLEAR_DB:g} dB{checked} ({', '.join(listed)}{more}); take association: strongest, if users "
        "choose towers by their signals"
    )


_CITY_SHARE = 0.05
"""Extent of users over their distance from the origin, below which their coordinates could be those of a city."""


def _narrow_layout(spec: NetworkSpec, layout: Layout) -> Iterator[str]:
    """Users that are all next to their towers, where their positions are listed or come from a file."""
    if spec.radio is None or not any(channel.has_path_loss for channel in spec.channel):
        return  # distances have no effect
    placement = getattr(spec.topology, "placement", None)
    models = {"access.topology.placement": placement, "access.motion": spec.motion}
    keys = [key for key, model in models.items() if model is not None and _has_positions(model)]
    if not keys:
        return  # a radius or a distance is doubted at its own key
    users, instants_s = _places_to_check(layout)
    farthest_m = max(float(np.nanmax(layout.distances_m(users, time_s), initial=0.0)) for time_s in instants_s)
    if farthest_m < _NARROW_M:
        yield (
            f"{keys[-1]}: no user is farther than {farthest_m:.3g} m from its tower, which is unusual for the extent "
            "of a network; check the unit of the positions"
        )
        return
    places_m = layout.user_xy_m
    extent_m = float(np.ptp(places_m, axis=0).max())
    is_fine = bool((np.abs(places_m * 100.0 - np.round(places_m * 100.0)) > _ROUNDING).any())  # below a centimetre
    in_degrees = is_fine and bool((np.abs(places_m) <= MAX_DEGREES).all())
    if in_degrees and 0.0 < extent_m < min(1.0, _CITY_SHARE * float(np.abs(places_m).max())):
        yield (
            f"{keys[0]}: all users are within {extent_m:.3g} m, with coordinates within ±180 and ±90, so that they "
            "look like degrees; write metres"
        )


_MARKS = (-99.0, -128.0, -255.0, -999.0, -9999.0, -32768.0)
"""Numbers that programs write for both coordinates of a position that they do not have."""


def _marked_positions(spec: NetworkSpec, layout: Layout) -> Iterator[str]:
    """Users at a place that stands for none, where their positions are listed or come from a file."""
    placement = getattr(spec.topology, "placement", None)
    if spec.radio is None or placement is None or not _has_positions(placement):
        return
    places_m = layout.user_xy_m
    is_mark = (places_m[:, 0] == places_m[:, 1]) & np.isin(places_m[:, 0], _MARKS)
    if not is_mark.any() or is_mark.all():
        return
    others_m = places_m[~is_mark]
    extent_m = float(np.ptp(others_m, axis=0).max())
    apart_m = others_m.min(axis=0).min() - places_m[is_mark, 0].max()  # all marks are below zero
    if apart_m > extent_m:
        users = np.flatnonzero(is_mark)
        mark = f"{places_m[users[0], 0]:g}"
        yield (
            f"access.topology.placement: user {users[0]} is at ({mark}, {mark}), far from all others, which usually "
            f"stands for no position ({users.size} of {layout.users} users); give each user a position"
        )


def _has_positions(model: Placement | Motion) -> bool:
    """Return whether a user of netfl writes the positions themselves, in a list or a file."""
    return bool({"file", "positions"} & {*type(model).model_fields})


def _places_to_check(layout: Layout) -> tuple[Ints, tuple[float, ...]]:
    """Return the users and the instants whose distances are checked: all users at one time, or some at several."""
    if not layout.moving:
        return np.arange(layout.users), _INSTANTS_S[:1]
    users = np.unique(np.linspace(0, layout.users - 1, _MAX_LINKS).astype(np.int64))
    return users, _INSTANTS_S


def _beyond_capacity(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Modes with more bits per second than any code could carry at the SNR from which they are received."""
    reception = spec.reception
    if spec.radio is None or reception is None or reception.follows_snr:
        return
    bandwidths_hz = open_budget(spec, context, layout).radios.bandwidth_hz
    bounds_hz = (float(bandwidths_hz.min()), float(bandwidths_hz.max()))
    excess = {}  # rate over capacity, by bandwidth and mode
    for band_hz in bounds_hz:
        for mode in range(reception.modes):
            rate_bps = reception.rate_bps(band_hz, mode)
            excess[band_hz, mode] = rate_bps / reception.capacity_bps(band_hz, mode)

    band_hz, mode = max(excess, key=lambda case: excess[case])
    times = excess[band_hz, mode]
    if times <= 1.0 + _ROUNDING:
        return
    rate_bps = reception.rate_bps(band_hz, mode)
    rate = "its rate"
    if reception.modes > 1:
        rate = f"the rate of mode {reception.mode_name(mode) or mode}"
    yield (
        f"access.reception, {kind_of(type(reception))}: {rate}, {rate_bps:.4g} bit/s, is {times:.3g} times Shannon's "
        f"limit at its threshold in a bandwidth of {band_hz:.6g} Hz ({rate_bps / times:.4g} bit/s); check the units of "
        "access.radio.bandwidth and of the rate"
    )


def _fast_fading(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Frames that outlast the coherence time, if the reception decides by the fade at their start."""
    if spec.radio is None or spec.reception is None or not spec.channel:
        return
    reception = spec.reception
    judged_at_start = [mode for mode in range(reception.modes) if not reception.can_follow_fading(mode)]
    if not judged_at_start:
        return
    slowest_bps = min(
        reception.rate_bps(band_hz, mode) for band_hz in spec.radio.bandwidth_bounds_hz for mode in judged_at_start
    )
    coherences_s = [channel.coherence_in(layout) for channel in with_carrier(spec.channel)]
    coherence_s = min(coherences_s)
    frame_bits = largest_frame_bits(spec, context)
    airtime_s = frame_bits / slowest_bps
    if spec.mac is not None:
        airtime_s = spec.mac.max_airtime_s(frame_bits, slowest_bps)
        users = np.arange(layout.users)
        band = open_band(spec, context, layout)
        shares = spec.mac.share_bounds(layout, band.limits(users))
        if shares is not None and shares.smallest.min() > 0.0:
            airtime_s /= float(np.min(band.radio_shares(users, shares.smallest)))
    if airtime_s <= COHERENCE_FACTOR * coherence_s:
        return
    index = coherences_s.index(coherence_s)
    fading_kind = kind_of(type(spec.channel[index]))
    reception_kind = kind_of(type(reception))
    remedy = "send smaller frames (access.transport), use a reception that follows the fading (shannon, modulation)"
    if reception.is_analogue:  # a sum in the air has one frame and no other reception
        remedy = "use a smaller model or a larger band (access.radio.bandwidth)"
    yield (
        f"fast fading: a frame is on the air for up to {airtime_s:.3g} s, {airtime_s / coherence_s:.3g} times the "
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading_kind}), but '{reception_kind}' uses "
        f"the fade at its start, so a long frame fades as often as a short one; {remedy}, or state a longer coherence "
        "time if users move slowly"
    )


def _held_rates(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Frames that outlast the coherence time, at rates that hold from their start."""
    if spec.radio is None or spec.reception is None or not spec.channel:
        return
    if not spec.reception.follows_snr or spec.reception.averages_fading:
        return
    usual = least_times(spec, context, at_best=False)
    if usual is None:
        return
    coherences_s = [channel.coherence_in(layout) for channel in with_carrier(spec.channel)]
    coherence_s = min(coherences_s)
    airtime_s = float(np.median(usual.airtime_s))
    if airtime_s <= COHERENCE_FACTOR * coherence_s:
        return
    index = coherences_s.index(coherence_s)
    fading_kind = kind_of(type(spec.channel[index]))
    yield (
        f"held rates: a frame is on the air for {airtime_s:.3g} s (median of the users, in the largest share of the "
        f"band), {airtime_s / coherence_s:.3g} times the coherence time of {coherence_s:.3g} s "
        f"(access.channel.{index}, {fading_kind}), at the rate that it sets at its start: from a deep fade it takes "
        "very long, from a high SNR it is lost; send smaller frames (access.transport), give all senders one rate "
        "(access.reception.rate of shannon), or state a longer coherence time if users move slowly"
    )


def _unfit_paces(spec: NetworkSpec, layout: Layout) -> Iterator[str]:
    """Channels that change much faster or slower than the motion of the users makes them change."""
    if layout.paths is None or spec.radio is None:
        return
    slowest_m_s, fastest_m_s = layout.paths.speeds_m_s(np.arange(layout.users))
    if not fastest_m_s.any():
        return  # nobody moves
    low_m_s = float(slowest_m_s[fastest_m_s > 0.0].min())
    high_m_s = float(fastest_m_s.max())
    pace = MotionPace((low_m_s, high_m_s))
    carriers = sorted(carriers_hz(spec.channel))
    if len(carriers) == 1:
        signal_m_s = min(channel.speed_m_s for channel in spec.channel)
        dopplers_hz = low_m_s * carriers[0] / signal_m_s, high_m_s * carriers[0] / signal_m_s
        pace = MotionPace((low_m_s, high_m_s), dopplers_hz)
    elif carriers:
        named = ", ".join(f"{carrier_hz / 1e6:g} MHz" for carrier_hz in carriers)
        yield f"access.channel: the models of a link have several carrier frequencies ({named}); give all the same"
    for index, channel in enumerate(spec.channel):
        problem = channel.motion_misfit(pace)
        if problem:
            yield f"access.channel.{index}, {kind_of(type(channel))}: {problem}"


def _costly_uses(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Uses of a device that an outage always ends."""
    if not spec.outages:
        return
    uses = _largest_uses(spec, context, layout)
    for index, outage in enumerate(spec.outages):
        for warning in outage.warnings(uses):
            yield f"access.outages.{index}, {kind_of(type(outage))}: {warning}"


def _largest_uses(spec: NetworkSpec, context: AccessContext, layout: Layout) -> LargestUses:
    """Return the largest uses of users' devices, and what they cost if that is counted."""
    frame_bits = largest_frame_bits(spec, context)
    has_rounds = context.duration_s is None and spec.compute is not None
    samples = None
    if has_rounds and spec.compute is not None:
        samples = float(spec.compute.work(context.samples).max())
    if spec.energy is None:
        return LargestUses(frame_bits, samples)

    budget = None if spec.radio is None else open_budget(spec, context, layout)
    service = open_service(spec, context, budget) if has_rounds else None
    energy = open_energy(spec, context, service, budget)
    assert energy is not None
    users = np.arange(context.users)
    rate_bps = max(spec.air_rates_bps, default=0.0)
    frame_j = None
    if rate_bps > 0.0:  # else rates follow the SNR
        frame_j = float(energy.sending_j(users, frame_bits / rate_bps).max())
    if service is None:
        return LargestUses(frame_bits, samples, frame_j)
    start_j = energy.starting_j(users)
    training_j = start_j + energy.computing_j(users, service.compute_s)
    dearest = int(training_j.argmax())
    return LargestUses(
        frame_bits,
        samples,
        frame_j,
        training_j=float(training_j[dearest]),
        start_j=float(start_j[dearest]),
        training_s=float(service.compute_s[dearest]),
    )


def _files_outside(spec: NetworkSpec, context: AccessContext, deadline_s: float | None) -> Iterator[str]:
    """Outages, motions and associations from files all whose times lie outside of the run."""
    end_s = _latest_end_s(context, deadline_s or _LONG_ROUND_S)
    models: list[tuple[str, Outage | Motion | Association]] = [
        (f"access.outages.{index}", outage) for index, outage in enumerate(spec.outages)
    ]
    models.append(("access.association", spec.association))
    if spec.motion is not None:
        models.append(("access.motion", spec.motion))
    for key, model in models:
        if not model.has_times_within(end_s):
            yield (
                f"{key}, {kind_of(type(model))}: no time in its file falls into the run, which ends before {end_s:.6g} "
                "s of simulated time unless rounds are very long; check the unit of the times"
                f"{_time_keys(type(model))}"
            )


def _motion_warnings(spec: NetworkSpec, context: AccessContext, deadline_s: float | None) -> Iterator[str]:
    """Warnings of the motion: about its file, and about users that are away."""
    if spec.motion is None:
        return
    end_s = _latest_end_s(context, deadline_s or math.inf)
    for warning in spec.motion.warnings(context.users, end_s):
        yield f"access.motion, {kind_of(type(spec.motion))}: {warning}"


def _time_keys(model: type[Outage | Motion | Association]) -> str:
    """Return the keys of a *model* that shift the times of its file, as the end of a remedy."""
    keys = [key for key in ("origin", "begin") if key in model.model_fields]
    return "".join(f" and {key}" for key in keys)


def _named_users(spec: NetworkSpec) -> Iterator[str]:
    """Users that a file of outages names, with the numbers that they get."""
    for index, outage in enumerate(spec.outages):
        if isinstance(outage, AvailabilityFile):
            yield from (f"access.outages.{index}.file: {note}" for note in outage.name_notes())


def _measured_doubts(spec: NetworkSpec) -> Iterator[str]:
    """Values of measured channels that probably stand for no measurement."""
    for index, channel in enumerate(spec.channel):
        if isinstance(channel, Measured):
            yield from (f"access.channel.{index}: {doubt}" for doubt in channel.doubts())


def _short_data(spec: NetworkSpec, context: AccessContext, layout: Layout, deadline_s: float | None) -> Iterator[str]:
    """Measured channels whose data may end before the rounds do; with a duration it is an error."""
    if spec.radio is None or context.duration_s is not None:
        return
    end_s = _latest_end_s(context, deadline_s or math.inf)
    for index, channel in enumerate(spec.channel):
        misfit = channel.data_misfit(layout, end_s)
        if misfit is not None:
            key = misfit.under(f"access.channel.{index}").key
            yield f"{key}: {misfit.problem}; a run that lasts so long stops there with an error: {misfit.remedy}"


def _repeated_path_loss(spec: NetworkSpec) -> Iterator[str]:
    """Measured channels beside a path loss, which they contain already."""
    repeated = repeated_path_loss(spec.channel)
    if repeated:
        yield f"access.channel: {repeated}"


def _latest_end_s(context: AccessContext, longest_round_s: float) -> float:
    """Return the time at which the run has ended at the latest."""
    if context.duration_s is not None:
        return context.duration_s
    end_s = context.rounds * longest_round_s
    if context.stop_s is not None:
        end_s = min(end_s, context.stop_s)
    return end_s


def _values_seen_for_nothing(spec: NetworkSpec, mac: Mac) -> list[str]:
    """Return the values of users that the towers see without cost or delay, and that are not the same for all."""
    if mac.observer == "users" or mac.observation_s:
        return []
    seen = [*mac.observes]
    if spec.radio is None:  # all links are equal
        seen = [name for name in seen if name not in {"snr_db", "rate_bps"}]
    if not spec.has_outages:
        seen = [name for name in seen if name != "user_up"]
    return seen


def _mac_warnings(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Warnings of the MAC: about its settings, and about frames that end later than it expects."""
    if spec.mac is None:
        return
    seen = _values_seen_for_nothing(spec, spec.mac)
    if seen:
        values = " and ".join(seen)
        remedy = ""
        if "poll" in type(spec.mac).model_fields:
            remedy = "; give poll the time that a measurement takes"
        yield (
            f"access.mac: {kind_of(type(spec.mac))} sees the present {values} of users without cost or delay, as no "
            f"real tower can{remedy}"
        )
    meets_again = spec.mac.repeats_alike and not spec.interference.sums
    if meets_again and np.bincount(layout.tower_at_start).max() > 1:
        remedy = "use another MAC, or an interference that receives several frames, such as sic"
        if "probability" in type(spec.mac).model_fields:
            remedy = "give a smaller access.mac.probability"
        yield (
            f"access.mac: {kind_of(type(spec.mac))} draws nothing before it repeats a frame, so that two users of a "
            f"cell whose frames have collided collide again, until one of them has nothing to send; {remedy}"
        )
    slowest_bps = min(spec.air_rates_bps)
    if slowest_bps <= 0.0:
        return  # rates follow the SNR
    frame_bits = largest_frame_bits(spec, context)
    slowest_s = frame_bits / slowest_bps
    yield from _equal_schedules(spec, layout, slowest_s)
    yield from spec.mac.warnings(frame_bits / max(spec.air_rates_bps), slowest_s)
    if spec.radio is not None:
        budget = open_budget(spec, context, layout)
        users = np.arange(layout.users)
        yield from spec.mac.link_warnings(frame_bits, lambda: budget.mean_snr_db(users, _INSTANTS_S))
    longest_s = slowest_s
    if any(traffic.size.distribution == "exponential" for traffic in spec.user_traffic):
        longest_s = math.inf  # the largest frame is that of the mean size only
    yield from spec.mac.late_frame_warnings(slowest_s, longest_s, _max_delay_s(spec, context, layout))


def _equal_schedules(spec: NetworkSpec, layout: Layout, slowest_s: float) -> Iterator[str]:
    """Cells that share the air, and whose users have their turns at the same times."""
    if spec.mac is None or not spec.shared_air:
        return
    sizes = np.bincount(layout.tower_at_start, minlength=len(layout.towers))
    equal = [np.flatnonzero(sizes == size) for size in np.unique(sizes[sizes > 0])]
    cells = max(equal, key=len)
    if len(cells) > 1 and spec.mac.turn_s(int(sizes[cells[0]]), slowest_s) > 0.0:
        yield (
            f"access.shared_air: {len(cells)} cells, such as {layout.towers[cells[0]]} and {layout.towers[cells[1]]}, "
            f"have the same schedule (access.mac: {kind_of(type(spec.mac))}), so that users with the same slot "
            "interfere, and again at each repeat, as nothing is drawn between: where they are near, one may never be "
            "received; take a MAC without a schedule, or leave shared_air out"
        )


def _fragile_updates(spec: NetworkSpec, context: AccessContext) -> Iterator[str]:
    """Updates of several frames, each of which can end the update."""
    limit = None if spec.mac is None else spec.mac.attempt_limit
    if limit is None or (spec.transport is not None and spec.transport.grain is not None):
        return
    frames = update_cut(spec, context).count
    if frames > 1:
        ending = f"{limit} attempts"
        remedy = ""
        if getattr(spec.mac, "max_attempts", None) is not None:
            ending, remedy = f"max_attempts: {limit}", ", or leave max_attempts out"
        yield (
            f"an update is sent in {frames} frames, and it ends when one frame is given up after {ending}"
            f"; give transport: {{grain: packet, arq: {{timeout: 1 s}}}}{remedy}"
        )


def _overload(spec: NetworkSpec, context: AccessContext, layout: Layout) -> Iterator[str]:
    """Cells whose users get more packets than they can send, even without collisions, outages and updates."""
    if spec.mac is None or spec.interference.receives_several or spec.exempt is not None:
        return  # several frames can be received at once
    if spec.reception is not None and spec.reception.follows_snr:
        return  # no rate is the highest
    users_in_cell = np.bincount(layout.tower_at_start)
    load = np.zeros(len(users_in_cell))
    for traffic in spec.user_traffic:
        if traffic.is_saturated or traffic.buffer is not None:
            continue  # no queue grows without limit
        slowest_bps = min(spec.air_rates_bps)
        arrivals_hz = traffic.rate_hz(slowest_bps) or 0.0
        mean_s = traffic.size.mean / max(spec.air_rates_bps)
        longest_s = largest_frame_bits(spec, context) / slowest_bps
        capacity_hz = spec.mac.max_frames_hz(mean_s, longest_s, _max_delay_s(spec, context, layout))
        if spec.mac.takes_whole_slots and traffic.size.distribution == "exponential" and capacity_hz < math.inf:
            # a frame of an exponential airtime takes 1 / (1 - e^-s) slots of s times its mean
            capacity_hz *= -math.expm1(-1.0 / (capacity_hz * mean_s))
        load += users_in_cell * arrivals_hz / capacity_hz
    if load.max() > 1.0:
        yield (
            f"overloaded: the users of {layout.towers[load.argmax()]} receive {load.max():.3g} times as many "
            "packets as they can send, so rounds get longer and longer; reduce the traffic, or set its buffer"
        )


def _version_backlog(
    spec: NetworkSpec, context: AccessContext, layout: Layout, max_selected: int, deadline_s: float | None
) -> Iterator[str]:
    """Versions that wait at a tower while newer ones follow, as a round may close before all users have received it."""
    downlink = spec.downlink
    rule = spec.round
    if downlink is None or downlink.mode != "unicast" or rule is None or rule.is_continuous or spec.compute is None:
        return
    rate_bps = max(spec.air_rates_bps)
    if rate_bps == 0.0:
        return
    users_in_cell = np.bincount(towers_at_start(spec, context, layout)).clip(max=max_selected)
    most_users = int(users_in_cell.max())
    copy_s = broadcast_bits(spec, context) / rate_bps
    all_copies_s = float(most_users) * copy_s
    # a round closes at the earliest when the users of its last update have received, trained and sent
    training_s = float(np.min(spec.compute.time_s(context.samples, compute_streams(context))))
    update_s = training_s + largest_frame_bits(spec, context) / rate_bps

    def least_round_s(updates: int, deadline_s: float | None) -> float:
        """Return the least time of a round that waits for so many updates."""
        first_copies = bisect_left(
            range(most_users), updates, key=lambda copies: np.minimum(users_in_cell, copies).sum()
        )
        return min(first_copies * copy_s + update_s, deadline_s or math.inf)

    all_users = int(users_in_cell.sum())
    needed = min(rule.max_updates(max_selected), all_users)
    round_s = least_round_s(needed, deadline_s)
    if all_copies_s <= round_s:
        return
    remedy = "take mode: multicast"
    if all_copies_s <= least_round_s(all_users, deadline_s):
        remedy += ", or let rounds wait for more updates (access.round)"
    elif all_copies_s <= least_round_s(needed, None):
        remedy += f", or set a later access.round.deadline, of more than {all_copies_s:.3g} s"
    elif deadline_s is not None:
        remedy += f", or let rounds wait for more updates and for more than {all_copies_s:.3g} s (access.round)"
    if downlink.queued_versions == "keep":
        effect = "versions queue behind older ones, and users receive ever older ones"
    else:
        effect = "newer versions replace those that wait, so many users miss versions"
    yield (
        f"backlog of versions: {layout.towers[users_in_cell.argmax()]} needs {all_copies_s:.3g} s or more to send a "
        f"version to {most_users} users one by one, but a round may close after {round_s:.3g} s: {effect} "
        f"(downlink.queued_versions: {downlink.queued_versions}); {remedy}"
    )


def _values_of_allocation(spec: NetworkSpec) -> Iterator[str]:
    """An allocation that sees values of users without cost or delay."""
    if spec.allocation is None or not spec.allocation.observes:
        return
    values = " and ".join(spec.allocation.observes)
    baseline = "allocation: equal"
    if spec.allocation.assigns_blocks:
        baseline = "method: random_blocks"
    time = "present"
    if spec.reception is not None and spec.reception.averages_fading:
        time = "mean"
    yield (
        f"access.allocation: the towers see the {time} {values} of users without cost or delay, as no real tower can; "
        f"compare it with {baseline}"
    )


def _missing_allocation(spec: NetworkSpec) -> Iterator[str]:
    """A MAC whose shares nothing in the scenario gives; a caller of `netfl.Simulation.step` may."""
    if spec.mac is None or spec.allocation is not None or "share" not in spec.mac.control_ranges:
        return
    yield (
        f"access.mac: {kind_of(type(spec.mac))} lets an allocation give the shares, and there is none: unless a caller "
        "of netfl.Simulation.step or a Gymnasium agent gives them (controls: share), each user has an equal share all "
        "the time; add access.allocation, or set access.mac.division: equal"
    )


def _late_allocation(spec: NetworkSpec, deadline_s: float | None) -> Iterator[str]:
    """An allocation that lets uploads end after the round."""
    if spec.allocation is None or spec.allocation.deadline_s is None or deadline_s is None:
        return
    if spec.allocation.deadline_s > deadline_s:
        yield (
            f"access.allocation: {kind_of(type(spec.allocation))} lets uploads end {spec.allocation.deadline_s:.6g} s "
            f"after the start of the trainings, but rounds close after {deadline_s:.6g} s; set a later "
            "access.round.deadline, or an earlier access.allocation.deadline"
        )


def _repeats_in_blocks(spec: NetworkSpec) -> Iterator[str]:
    """Blocks that are assigned for one frame of each update, which takes several."""
    if spec.allocation is None or not spec.allocation.assigns_blocks or spec.mac is None:
        return
    problems = []
    if spec.mac.attempt_limit != 1:
        problems.append("lost frames are sent again (access.mac.max_attempts is not 1)")
    if spec.transport is not None and spec.transport.grain == "packet":
        problems.append("updates are packets (access.transport.grain)")
    if problems:
        yield (
            f"access.allocation: {kind_of(type(spec.allocation))} counts on one frame for each update, but "
            f"{' and '.join(problems)}, so that losses, times and energies are others than those that it plans"
        )


def _max_delay_s(spec: NetworkSpec, context: AccessContext, layout: Layout) -> float:
    """Return the largest propagation delay between a user and its tower; 0 if none counts."""
    if spec.radio is None or not any(channel.has_delay for channel in spec.channel):
        return 0.0
    budget = open_budget(spec, context, layout)
    instants_s = _INSTANTS_S[:1] if layout.paths is None else _INSTANTS_S
    delays_s = [budget.delay_s(np.arange(layout.users), time_s) for time_s in instants_s]
    return max(float(delay_s.max()) for delay_s in delays_s if delay_s is not None)
