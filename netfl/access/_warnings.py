"""Warnings about networks that are valid but probably not intended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from netfl.access._builder import air_bps, build_layout, largest_frame_bits, update_cut
from netfl.registry import kind_of
from netfl.types import AccessContext

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_LONG = 2.0
"""Coherence times that a frame may last without a warning: definitions differ by such a factor (0.18 to 0.42 / f)."""


def network_warnings(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Yield warnings about fast fading, idle slots, fragile updates and overloaded cells."""
    yield from _fast_fading(network, context)
    bits, rates_bps = largest_frame_bits(network, context), _rates_bps(network)
    if network.mac is not None and min(rates_bps) > 0.0:
        yield from network.mac.warnings(bits / max(rates_bps), bits / min(rates_bps))
    if context.duration_s is None:
        yield from _fragile_updates(network, context)
        yield from _overload(network, context)


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
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading}), but '{judging}' judges it by the "
        "fade at its start, so that it fades as often as a short one; send smaller frames (access.transport), take a "
        "reception that follows the fading (shannon, modulation), or state a longer coherence time if users move slowly"
    )


def _fragile_updates(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Updates of several frames, each of which can end the update."""
    limit = getattr(network.mac, "max_attempts", None)
    if limit is None or (network.transport is not None and network.transport.grain is not None):
        return
    count = update_cut(network, context.uplink_bits).count
    if count > 1:
        yield (
            f"an update is sent in {count} frames, and the first that is given up after max_attempts: {limit} ends it; "
            "give transport: {grain: packet, arq: {timeout: 1 s}}, or leave max_attempts out"
        )


def _overload(network: NetworkAccess, context: AccessContext) -> Iterator[str]:
    """Cells whose users get more packets than they can send, even without collisions, outages and updates."""
    waiting = [
        traffic
        for traffic in network.traffic
        if traffic.enters == "users" and not traffic.is_saturated and traffic.buffer is None
    ]
    if not waiting or network.mac is None or network.interference == "sinr" or network.spare is not None:
        return  # no queue grows without limit, or several frames can be received at once
    (traffic,), rates_bps = waiting, _rates_bps(network)
    arrivals_hz = traffic.rate_hz(air_bps(network)) or 0.0
    capacity_hz = network.mac.max_frames_hz(
        traffic.size.mean / max(rates_bps), largest_frame_bits(network, context) / min(rates_bps)
    )
    sites = build_layout(network, context)
    load = np.bincount(sites.cell) * arrivals_hz / capacity_hz
    if load.max() > 1.0:
        yield (
            f"overloaded: to the users of {sites.towers[load.argmax()]} come {load.max():.3g} times as many packets as "
            "can leave them, so that rounds get longer and longer; let less come (traffic), or give it a buffer"
        )


def _rates_bps(network: NetworkAccess) -> list[float]:
    """Return the bit rates of the air in each mode of the reception."""
    if network.reception is None or network.radio is None or (network.mac and network.mac.rate_bps is not None):
        return [air_bps(network)]
    return [network.reception.rate_bps(network.radio.bandwidth, mode) for mode in range(network.reception.modes)]
