"""Frames that last much longer than the coherence time of their channel, where the reception has no law for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from netfl.access._building import transport_of
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
    known_bps = None if network.mac is None else network.mac.rate_bps
    rates_bps = [
        known_bps or reception.rate_bps(radio.bandwidth, mode)
        for mode in range(reception.modes)
        if not reception.follows_fading(mode)
    ]
    coherence_s, index = min((channel.coherence_s, index) for index, channel in enumerate(network.channel))
    airtime_s = _most_bits(network, setting) / min(rates_bps, default=1.0)
    if not rates_bps or airtime_s <= _LONG * coherence_s:
        return
    fading, judging = kind_of(type(network.channel[index])), kind_of(type(reception))
    yield (
        f"fast fading: a frame is on the air for up to {airtime_s:.3g} s, {airtime_s / coherence_s:.3g} times the "
        f"coherence time of {coherence_s:.3g} s (access.channel.{index}, {fading}), but '{judging}' judges it by the "
        "fade at its start, so that it fades as often as a short one; send smaller frames (access.transport), take a "
        "reception that follows the fading (shannon, modulation), or state a longer coherence time if users move slowly"
    )


def _most_bits(network: Network, setting: Setting) -> float:
    """Return the size of the largest frame that users send, in bits; of traffic, the mean."""
    sizes = [traffic.size.mean for traffic in network.traffic if traffic.enters == "users"]
    if setting.duration_s is None:
        bits = setting.uplink_bits if network.update_size is None else network.update_size
        transport = transport_of(network, bits)
        sizes.append(transport.cut(transport.up_bits(bits)).most_bits)
    return max(sizes, default=0.0)
