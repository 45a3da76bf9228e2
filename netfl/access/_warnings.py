"""Warnings about networks that are valid but probably not intended."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from netfl.access._builder import (
    air_bps,
    broadcast_bits,
    build_layout,
    compute_streams,
    largest_frame_bits,
    update_cut,
)
from netfl.network.channel import Channel
from netfl.network.channel._fading import Fading, carriers_hz, with_carrier
from netfl.network.channel._tr38901 import Tr38901Channel
from netfl.network.channel.lognormal_shadowing import LognormalShadowing
from netfl.network.channel.markov import Markov
from netfl.network.layout import LIGHT_M_S
from netfl.network.outage.battery import Battery
from netfl.network.radio.link_budget import LinkBudget
from netfl.registry import kind_of
from netfl.types import AccessContext

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_LONG = 2.0
"""Coherence times that a frame may last without a warning: definitions differ by such a factor (0.18 to 0.42 / f)."""

_SHORTEST_COHERENCE, _LONGEST_COHERENCE = 0.18, 0.42
"""Definitions of the coherence time of a fading, in periods of the maximum Doppler shift."""
_SHADOW_M = 10.0, 500.0
"""Distances within which shadowing changes: some 10 m in streets, some 100 m in suburbs."""

_INSTANTS_S = tuple(977.0 * number for number in range(64))
"""Instants over which the gain of a link is averaged."""
_MAX_LINKS, _MAX_LISTED = 1_000, 3
"""Links whose gain is checked, spread over all users, and those that a warning lists."""
_ROUNDING_DB = _ROUNDING = 1e-9


def network_warnings(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Yield warnings about links, fading, motion, batteries, slots, late frames, updates, and backlogs up and down."""
    yield from _amplified_links(network, context)
    yield from _fast_fading(network, context)
    yield from _unfit_paces(network, context)
    yield from _costly_uses(network, context)
    bits, rates_bps = largest_frame_bits(network, context), _rates_bps(network)
    if network.mac is not None and min(rates_bps) > 0.0:
        yield from network.mac.warnings(bits / max(rates_bps), bits / min(rates_bps))
        yield from _late_frames(network, context, bits / min(rates_bps))
    if context.duration_s is None:
        yield from _fragile_updates(network, context)
        yield from _overload(network, context)
        yield from _version_backlog(network, context)


def _amplified_links(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Links with a mean gain above 0 dB, as of a channel that returns a loss in place of a gain."""
    if network.radio is None:
        return
    sites = build_layout(network, context)
    users = np.unique(np.linspace(0, sites.users - 1, _MAX_LINKS).astype(np.int64))
    gains_db = LinkBudget(network.radio, network.channel, sites, context.streams).mean_gains_db(users, _INSTANTS_S)
    total_db = gains_db.sum(axis=0)
    amplified = np.flatnonzero(total_db > _ROUNDING_DB)
    if not amplified.size:
        return
    links = [f"user {users[i]} to {sites.towers[sites.tower_of[users[i]]]}: {total_db[i]:.3g} dB" for i in amplified]
    more = f" and {len(links) - _MAX_LISTED} more" if len(links) > _MAX_LISTED else ""
    index = int(gains_db[:, amplified[0]].argmax())
    kind = kind_of(type(network.channel[index]))
    yield (
        f"amplified signals: the mean gain of a link is above 0 dB ({', '.join(links[:_MAX_LISTED])}{more}), the most "
        f"by access.channel.{index}, {kind}; a loss is a negative gain: check the sign"
    )


def _fast_fading(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Frames that outlast the coherence time, if the reception decides by the fade at their start."""
    radio, reception = network.radio, network.reception
    if radio is None or reception is None or not network.channel:
        return
    modes = [mode for mode in range(reception.modes) if not reception.can_follow_fading(mode)]
    if not modes:
        return
    slowest_bps = min(reception.rate_bps(radio.bandwidth, mode) for mode in modes)
    layout, channels = build_layout(network, context), with_carrier(network.channel)
    coherence_s, index = min((channel.coherence_in(layout), index) for index, channel in enumerate(channels))
    bits = largest_frame_bits(network, context)
    airtime_s = bits / slowest_bps if network.mac is None else network.mac.max_airtime_s(bits, slowest_bps)
    if airtime_s <= _LONG * coherence_s:
        return
    fading, judging = kind_of(type(network.channel[index])), kind_of(type(reception))
    yield (
        f"fast fading: a frame is on the air for up to {airtime_s:.3g} s, {airtime_s / coherence_s:.3g} times the "
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading}), but '{judging}' uses the fade at "
        "its start, so a long frame fades as often as a short one; send smaller frames (access.transport), use a "
        "reception that follows the fading (shannon, modulation), or state a longer coherence time if users move slowly"
    )


def _unfit_paces(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Channels that change much faster or slower than the motion of the users makes them change."""
    if network.motion is None or network.radio is None:
        return
    layout = build_layout(network, context)
    assert layout.paths is not None
    slow_m_s, fast_m_s = layout.paths.speeds_m_s(np.arange(layout.users))
    if not fast_m_s.any():
        return  # nobody moves
    speeds_m_s = float(slow_m_s[fast_m_s > 0.0].min()), float(fast_m_s.max())
    if len(carriers_hz(network.channel)) > 1:
        named = ", ".join(f"{each / 1e6:g} MHz" for each in sorted(carriers_hz(network.channel)))
        yield f"access.channel: the models of a link have several carrier frequencies ({named}); give all the same"
    for index, channel in enumerate(network.channel):
        problem = _shadowing_misfit(channel, speeds_m_s) or _fading_misfit(network, channel, speeds_m_s)
        if problem:
            yield f"access.channel.{index}, {kind_of(type(channel))}: {problem}"


def _fading_misfit(network: NetworkAccess, channel: Channel, speeds_m_s: tuple[float, float]) -> str:
    """Return how the pace of a fading contradicts the speeds of the slowest and the fastest user; or nothing.

    A pace may differ from what they allow by the factor 2.  The time in which fading changes is 0.18 / f to 0.42 / f.
    """
    (slow_m_s, fast_m_s), carriers = speeds_m_s, carriers_hz(network.channel)
    moves = f"users move at {slow_m_s:.3g} to {fast_m_s:.3g} m/s"
    remedy = "leave the key out, so that the fading follows the motion"
    if isinstance(channel, Fading) and channel.speed is not None:
        is_fit = slow_m_s / _LONG <= channel.speed <= _LONG * fast_m_s
        return "" if is_fit else f"the fading is that of a speed of {channel.speed:.3g} m/s, but {moves}; {remedy}"
    if len(carriers) != 1:
        return ""  # the Doppler shift of the motion is not known
    (carrier_hz,) = carriers
    wave_m_s = min(each.speed_m_s for each in network.channel)
    low_hz, high_hz = slow_m_s * carrier_hz / wave_m_s, fast_m_s * carrier_hz / wave_m_s
    moves += f", a Doppler shift of {low_hz:.3g} to {high_hz:.3g} Hz"
    if isinstance(channel, Fading) and channel.doppler is not None:
        is_fit = low_hz / _LONG <= channel.doppler <= _LONG * high_hz
        return "" if is_fit else f"the fading has a Doppler shift of {channel.doppler:.3g} Hz, but {moves}; {remedy}"
    first_s, last_s = _SHORTEST_COHERENCE / high_hz, _LONGEST_COHERENCE / low_hz
    moves += f", whose fading changes within {first_s:.3g} to {last_s:.3g} s"
    if isinstance(channel, Markov):
        return _chain_misfit(channel, moves, first_s / _LONG, last_s * _LONG)
    if not isinstance(channel, Fading) or channel.coherence is None:
        return ""
    is_fit = first_s / _LONG <= channel.coherence <= last_s * _LONG
    return "" if is_fit else f"coherence is {channel.coherence:.3g} s, but {moves}; {remedy}"


def _chain_misfit(channel: Markov, moves: str, shortest_s: float, longest_s: float) -> str:
    remedy = "if its states are fading, choose block and transitions by this; if shadowing, take correlated_shadowing"
    if channel.block > longest_s:
        return f"a state lasts for a block of {channel.block:.3g} s at least, but {moves}; {remedy}"
    if channel.coherence_s < shortest_s:
        return f"a state is left after {channel.coherence_s:.3g} s on average, but {moves}; {remedy}"
    return ""


def _shadowing_misfit(channel: Channel, speeds_m_s: tuple[float, float]) -> str:
    """Return how the shadowing of a channel contradicts the speeds of the users; or nothing."""
    slow_m_s, fast_m_s = speeds_m_s
    remedy = "take correlated_shadowing, which follows the positions"
    if isinstance(channel, Tr38901Channel) and channel.shadowing:
        return f"a user keeps its shadowing, though users move; set shadowing: false and {remedy}"
    if not isinstance(channel, LognormalShadowing):
        return ""
    if channel.coherence is None:
        return f"a user keeps its shadowing, though users move; {remedy}"
    (near_m, far_m), coherence_s = _SHADOW_M, channel.coherence
    if near_m / fast_m_s / _LONG <= coherence_s <= far_m / slow_m_s * _LONG:
        return ""
    way = f"users move by {slow_m_s * coherence_s:.3g} to {fast_m_s * coherence_s:.3g} m in its coherence"
    return f"{way} of {coherence_s:.3g} s, but shadowing changes within {near_m:g} to {far_m:g} m; {remedy}"


def _costly_uses(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Trainings and frames that cost more than a full battery holds, so that they always fail."""
    bits = largest_frame_bits(network, context)
    samples = 0.0
    if context.duration_s is None and network.compute is not None:
        samples = float(network.compute.work(context.samples).max())
    for index, outage in enumerate(network.outages):
        if not isinstance(outage, Battery):
            continue
        uses = [("a frame", "per_bit", outage.per_bit * bits)]
        if context.duration_s is None:
            training_j = outage.per_training + outage.per_sample * samples
            uses.append(("a training", "per_training and per_sample", training_j))
        for name, keys, cost_j in uses:
            if cost_j > outage.capacity * (1.0 + _ROUNDING):
                yield (
                    f"access.outages.{index}, battery: {name} costs up to {cost_j:.3g} J, more than the capacity of "
                    f"{outage.capacity:.3g} J, so it always empties the battery and fails; increase capacity, or lower "
                    f"{keys}"
                )


def _fragile_updates(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Updates of several frames, each of which can end the update."""
    limit = None if network.mac is None else network.mac.attempt_limit
    if limit is None or (network.transport is not None and network.transport.grain is not None):
        return
    count = update_cut(network, context).count
    if count > 1:
        yield (
            f"an update is sent in {count} frames, and it ends when one frame is given up after max_attempts: {limit}; "
            "give transport: {grain: packet, arq: {timeout: 1 s}}, or leave max_attempts out"
        )


def _overload(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Cells whose users get more packets than they can send, even without collisions, outages and updates."""
    waiting = [
        traffic
        for traffic in network.traffic
        if traffic.source == "users" and not traffic.is_saturated and traffic.buffer is None
    ]
    if not waiting or network.mac is None or network.interference == "sinr" or network.exempt is not None:
        return  # no queue grows without limit, or several frames can be received at once
    (traffic,), rates_bps = waiting, _rates_bps(network)
    arrivals_hz = traffic.rate_hz(air_bps(network)) or 0.0
    mean_s, longest_s = traffic.size.mean / max(rates_bps), largest_frame_bits(network, context) / min(rates_bps)
    capacity_hz = network.mac.max_frames_hz(mean_s, longest_s, _max_delay_s(network, context))
    layout = build_layout(network, context)
    load = np.bincount(layout.tower_of) * arrivals_hz / capacity_hz
    if load.max() > 1.0:
        yield (
            f"overloaded: the users of {layout.towers[load.argmax()]} receive {load.max():.3g} times as many packets "
            "as they can send, so rounds get longer and longer; reduce the traffic, or set its buffer"
        )


def _version_backlog(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Versions that wait at a tower while newer ones follow, as a round may close before all users have received it."""
    downlink, rule = network.downlink, network.round
    if downlink is None or downlink.mode != "unicast" or rule is None or rule.is_continuous or network.compute is None:
        return
    layout, rate_bps = build_layout(network, context), max(_rates_bps(network))
    if rate_bps == 0.0:
        return
    selected = network.selection.max_selected(context.users)
    in_cell = np.minimum(np.bincount(layout.tower_of, minlength=len(layout.towers)), selected)
    copy_s = broadcast_bits(network, context) / rate_bps
    all_copies_s = float(in_cell.max()) * copy_s
    # a round closes at the earliest when the users of its last update have received, trained and sent
    needed = min(rule.max_updates(selected), int(in_cell.sum()))
    first_copies = bisect_left(range(int(in_cell.max())), needed, key=lambda copies: np.minimum(in_cell, copies).sum())
    training_s = float(np.min(network.compute.time_s(context.samples, compute_streams(context))))
    round_s = first_copies * copy_s + training_s + largest_frame_bits(network, context) / rate_bps
    round_s = min(round_s, math.inf if rule.deadline_s is None else rule.deadline_s)
    if all_copies_s <= round_s:
        return
    effect = "newer versions replace those that wait, so many users miss versions"
    if downlink.queued_versions == "keep":
        effect = "versions queue behind older ones, and users receive ever older ones"
    yield (
        f"backlog of versions: {layout.towers[in_cell.argmax()]} needs {all_copies_s:.3g} s or more to send a version "
        f"to {in_cell.max()} users one by one, but a round may close after {round_s:.3g} s: {effect} "
        f"(downlink.queued_versions: {downlink.queued_versions}); take mode: multicast, or let rounds wait for more "
        "updates (access.round)"
    )


def _late_frames(network: NetworkAccess, context: AccessContext, largest_s: float) -> Iterator[str]:
    """Frames that end later than the MAC expects; *largest_s* is the airtime of the largest frame, or the mean one."""
    if network.mac is None:
        return
    sizes = [traffic.size.distribution for traffic in network.traffic if traffic.source == "users"]
    longest_s = math.inf if "exponential" in sizes else largest_s
    yield from network.mac.late_frame_warnings(largest_s, longest_s, _max_delay_s(network, context))


def _max_delay_s(network: NetworkAccess, context: AccessContext) -> float:
    """Return the largest propagation delay between a user and its tower; 0 at the speed of light, as negligible."""
    if network.radio is None or all(channel.speed_m_s >= LIGHT_M_S for channel in network.channel):
        return 0.0
    layout = build_layout(network, context)
    budget = LinkBudget(network.radio, network.channel, layout, context.streams)
    users, instants_s = np.arange(layout.users), _INSTANTS_S if layout.paths is not None else _INSTANTS_S[:1]
    delays_s = [budget.delay_s(users, time_s) for time_s in instants_s]
    return max(float(delay_s.max()) for delay_s in delays_s if delay_s is not None)


def _rates_bps(network: NetworkAccess) -> list[float]:
    if network.reception is None or network.radio is None or (network.mac and network.mac.rate_bps is not None):
        return [air_bps(network)]
    return [network.reception.rate_bps(network.radio.bandwidth, mode) for mode in range(network.reception.modes)]
