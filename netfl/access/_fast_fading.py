"""Frames that last much longer than the coherence time of their channel, where the reception has no law for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.access._building import largest_frame_bits
from netfl.registry import kind_of
from netfl.types import Setting

if TYPE_CHECKING:
    from netfl.access.network import Network

_LONG = 2.0
"""Coherence times that a frame may last without a warning: definitions differ by such a factor (0.18 to 0.42 / f)."""


def fast_fading(network: Network, setting: Setting) -> Iterator[str]:
    """Return what to say of frames that outlast the coherence time and are judged by the fade at their start."""
    radio, reception = network.radio, network.reception
    if radio is None or reception is None or not network.channel:
        return
    modes = [mode for mode in range(reception.modes) if not reception.follows_fading(mode)]
    if not modes:
        return
    slowest_bps = min(reception.rate_bps(radio.bandwidth, mode) for mode in modes)
    coherence_s, index = min((channel.coherence_s, index) for index, channel in enumerate(network.channel))
    bits = largest_frame_bits(network, setting)
    airtime_s = bits / slowest_bps if network.mac is None else network.mac.longest_s(bits, slowest_bps)
    if airtime_s <= _LONG * coherence_s:
        return
    fading, judging = kind_of(type(network.channel[index])), kind_of(type(reception))
    yield (
        f"fast fading: a frame is on the air for up to {airtime_s:.3g} s, {airtime_s / coherence_s:.3g} times the "
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading}), but '{judging}' judges it by the "
        "fade at its start, so that it fades as often as a short one; send smaller frames (access.transport), take a "
        "reception that follows the fading (shannon, modulation), or state a longer coherence time if users move slowly"
    )
