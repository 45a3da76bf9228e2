"""Rough estimates of what a network has to carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netfl.access._builder import air_bps, update_cut

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

SENT_S = 3e-4
"""Processor time of an update that crosses a network, or of a packet."""
_SAMPLE, _WIRED = 1e-3, 0.02
"""Cost of a probe's sample, and of a packet that crosses no air, relative to one that does."""


def packet_rate(network: NetworkAccess, users: int) -> float:
    """Estimate the packets, and samples of a probe, in each second, weighted by their cost.

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
        if traffic.saturated:  # senders share the rate
            senders, rate_hz = 1, rate_bps / traffic.size.mean
        total_hz += senders * (rate_hz or 0.0)
    return total_hz


def packets_of_update(network: NetworkAccess) -> int:
    """Return the number of packets of an update; 1 if the model decides its size."""
    return 1 if network.update_size is None else update_cut(network, network.update_size).count


def outage_changes(network: NetworkAccess, users: int, rounds: int, duration_s: float | None) -> float:
    """Estimate how often nodes go down or come up; each round takes at least one airtime."""
    if not network.outages:
        return 0.0
    if duration_s is None:
        rate_bps = air_bps(network)
        duration_s = rounds * (network.update_size or 0.0) / rate_bps if rate_bps else 0.0
    return duration_s * sum(outage.changes_hz(users) for outage in network.outages)
