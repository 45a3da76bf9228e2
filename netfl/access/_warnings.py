"""Warnings about networks that are valid but probably not intended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from netfl.access._builder import air_bps, build_layout, largest_frame_bits, update_cut
from netfl.network.radio.link_budget import LinkBudget
from netfl.registry import kind_of
from netfl.types import AccessContext

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess
    from netfl.network.mac import Mac

_LONG = 2.0
"""Coherence times that a frame may last without a warning: definitions differ by such a factor (0.18 to 0.42 / f)."""

_INSTANTS_S = tuple(977.0 * number for number in range(64))
"""Instants over which the gain of a link is averaged."""
_MAX_LINKS, _MAX_LISTED = 1_000, 3
"""Links whose gain is checked, spread over all users, and those that a warning lists."""
_ROUNDING_DB = 1e-9


def network_warnings(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Yield warnings about amplified links, fast fading, idle slots, fragile updates and overloaded cells."""
    yield from _amplified_links(network, context)
    yield from _fast_fading(network, context)
    bits, rates_bps = largest_frame_bits(network, context), _rates_bps(network)
    if network.mac is not None and min(rates_bps) > 0.0:
        yield from network.mac.warnings(bits / max(rates_bps), bits / min(rates_bps))
    if context.duration_s is None:
        yield from _fragile_updates(network, context)
        yield from _overload(network, context)


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
    coherence_s, index = min((channel.coherence_s, index) for index, channel in enumerate(network.channel))
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
    capacity_hz = max_frames_hz(network.mac, mean_s, longest_s)
    layout = build_layout(network, context)
    load = np.bincount(layout.tower_of) * arrivals_hz / capacity_hz
    if load.max() > 1.0:
        yield (
            f"overloaded: the users of {layout.towers[load.argmax()]} receive {load.max():.3g} times as many packets "
            "as they can send, so rounds get longer and longer; reduce the traffic, or set its buffer"
        )


def max_frames_hz(mac: Mac, airtime_s: float, longest_s: float) -> float:
    """Return an upper bound on the frames per second that leave a cell; infinity if there is none.

    Where no frame is given up, one frame at a time is received on each channel, and in each slot if there are slots.

    Args:
        mac: the MAC of the cell.
        airtime_s: lower bound on the mean airtime.
        longest_s: airtime of the longest frame.
    """
    if mac.attempt_limit is not None or not hasattr(mac, "max_attempts"):
        return math.inf
    frame_s = (mac.slot or longest_s) if hasattr(mac, "slot") else airtime_s
    return float(getattr(mac, "channels", 1) / frame_s)


def _rates_bps(network: NetworkAccess) -> list[float]:
    if network.reception is None or network.radio is None or (network.mac and network.mac.rate_bps is not None):
        return [air_bps(network)]
    return [network.reception.rate_bps(network.radio.bandwidth, mode) for mode in range(network.reception.modes)]
