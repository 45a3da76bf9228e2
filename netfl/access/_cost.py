"""How much comes in a network, and whether that is too much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from netfl.access._builder import build_layout, largest_frame_bits, update_cut
from netfl.types import AccessContext

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_LOOK, _WIRED = 1e-3, 0.02
"""What a look of a probe costs, and a packet that crosses no air, beside one that does."""


def packet_rate(network: NetworkAccess, users: int) -> float:
    """Roughly how many packets come each second, and looks of a probe, counted as what they cost.

    Of towers and routers one is counted, as how many there are is only known when they are laid out.
    """
    senders: float
    each_s = 0.0 if network.probe is None else _LOOK * len(network.probe.users or range(users)) / network.probe.every
    for traffic in network.traffic:
        senders, link_bps = (users, _air_bps(network)) if traffic.enters == "users" else (_WIRED, _link_bps(network))
        rate_hz = traffic.rate_hz(link_bps)
        if traffic.is_saturated:  # senders share what there is
            senders, rate_hz = 1, link_bps / traffic.size.mean
        each_s += senders * (rate_hz or 0.0)
    return each_s


def packets_of_update(network: NetworkAccess) -> int:
    """How many packets an update is sent in; 1 where the model decides how large it is."""
    return 1 if network.update_size is None else update_cut(network, network.update_size).count


def outage_changes(network: NetworkAccess, users: int, rounds: int, duration_s: float | None) -> float:
    """Roughly how often anybody goes down or comes up; in rounds at least, each of which takes an airtime."""
    if not network.outages:
        return 0.0
    if duration_s is None:
        bps = _air_bps(network)
        duration_s = rounds * (network.update_size or 0.0) / bps if bps else 0.0
    return duration_s * sum(outage.changes_hz(users) for outage in network.outages)


def overload(network: NetworkAccess, setting: AccessContext) -> Iterator[str]:
    """What there is to say of cells to whose users more packets come than can leave them: rounds get ever longer.

    That is certain: collisions, outages and the updates themselves are left out.
    """
    waiting = [one for one in network.traffic if one.enters == "users" and not one.is_saturated and one.buffer is None]
    if not waiting or network.mac is None or network.interference == "sinr" or network.spare is not None:
        return  # nothing waits without end, or several can be received at once
    (traffic,), rates_bps = waiting, _rates_bps(network)
    each_hz = traffic.rate_hz(_air_bps(network)) or 0.0
    most_hz = network.mac.max_frames_hz(
        traffic.size.mean / max(rates_bps), largest_frame_bits(network, setting) / min(rates_bps)
    )
    sites = build_layout(network, setting)
    load = np.bincount(sites.cell) * each_hz / most_hz
    if load.max() > 1.0:
        yield (
            f"overloaded: to the users of {sites.towers[load.argmax()]} come {load.max():.3g} times as many packets as "
            "can leave them, so that rounds get longer and longer; let less come (traffic), or give it a buffer"
        )


def fragile_updates(network: NetworkAccess, setting: AccessContext) -> Iterator[str]:
    """What there is to say of updates that are sent in frames, each of which can end them."""
    limit = getattr(network.mac, "max_attempts", None)
    if limit is None or (network.transport is not None and network.transport.grain is not None):
        return
    count = update_cut(network, setting.uplink_bits).count
    if count > 1:
        yield (
            f"an update is sent in {count} frames, and the first that is given up after max_attempts: {limit} ends it; "
            "give transport: {grain: packet, arq: {timeout: 1 s}}, or leave max_attempts out"
        )


def idle_slots(network: NetworkAccess, setting: AccessContext) -> Iterator[str]:
    """Return what the MAC says of the airtimes of its frames in the modes of the reception."""
    bits, rates_bps = largest_frame_bits(network, setting), _rates_bps(network)
    if network.mac is not None and min(rates_bps) > 0.0:
        yield from network.mac.warnings(bits / max(rates_bps), bits / min(rates_bps))


def _rates_bps(network: NetworkAccess) -> list[float]:
    """The bit rates of the air, in each mode of the reception."""
    if network.reception is None or network.radio is None or (network.mac and network.mac.rate_bps is not None):
        return [_air_bps(network)]
    return [network.reception.rate_bps(network.radio.bandwidth, mode) for mode in range(network.reception.modes)]


def _air_bps(network: NetworkAccess) -> float:
    """The bit rate of the air."""
    if network.mac is not None and network.mac.rate_bps is not None:
        return network.mac.rate_bps
    if network.reception is None or network.radio is None:
        return 0.0
    return network.reception.rate_bps(network.radio.bandwidth)


def _link_bps(network: NetworkAccess) -> float:
    """The bit rate of links, where the topology has one."""
    return float(getattr(network.topology, "rate", None) or 0.0)
