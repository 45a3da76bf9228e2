"""Rough cost of a network, estimated before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netfl.access import AccessCost
from netfl.access._builder import air_bps, update_cut

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_SENT_S = 3e-4
"""Processor time of an update that crosses a network, or of a packet."""
_SAMPLE, _WIRED = 1e-3, 0.02
"""Cost of a probe's sample, and of a packet that crosses no air, relative to one that does."""


def network_cost(network: NetworkAccess, users: int, rounds: int, duration_s: float | None) -> AccessCost:
    """Estimate packets of updates in *rounds*, or packets and samples in *duration_s*.

    The time is a lower bound, in which the packets of an update take as long as one; each round takes an airtime.
    """
    if duration_s is not None:
        packets = _packet_hz(network, users) * duration_s
        return AccessCost(packets, _outage_hz(network, users) * duration_s, _SENT_S * (rounds + packets))
    per_update = 1 if network.update_size is None else update_cut(network, network.update_size).count
    packets = float(network.selection.max_selected(users)) * rounds * per_update
    rate_bps = air_bps(network)
    airtime_s = rounds * (network.update_size or 0.0) / rate_bps if rate_bps else 0.0
    return AccessCost(packets, airtime_s * _outage_hz(network, users), _SENT_S * (rounds + packets / per_update))


def _outage_hz(network: NetworkAccess, users: int) -> float:
    return sum(outage.changes_hz(users) for outage in network.outages)


def _packet_hz(network: NetworkAccess, users: int) -> float:
    """Estimate the rate of packets, and samples of a probe, weighted by their cost.

    Towers and routers count as one each, as their number is only known when they are laid out.
    """
    senders: float
    total_hz = 0.0
    if network.probe is not None:
        total_hz = _SAMPLE * len(network.probe.users or range(users)) / network.probe.every
    link_bps = float(getattr(network.topology, "rate", None) or 0.0)
    for traffic in network.traffic:
        senders, rate_bps = (users, air_bps(network)) if traffic.enters == "users" else (_WIRED, link_bps)
        rate_hz = traffic.rate_hz(rate_bps)
        if traffic.is_saturated:  # senders share the rate
            senders, rate_hz = 1, rate_bps / traffic.size.mean
        total_hz += senders * (rate_hz or 0.0)
    return total_hz
