"""How much comes in a network that is watched for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netfl.access.network import Network

_LOOK, _WIRED = 1e-3, 0.02
"""What a look of a probe costs, and a packet that crosses no air, beside one that does."""


def packets(network: Network, users: int) -> float:
    """Roughly how many packets come each second, and looks of a probe, counted as what they cost.

    Of towers and routers one is counted, as how many there are is only known when they are laid out.
    """
    senders: float
    each_s = 0.0 if network.probe is None else _LOOK * len(network.probe.users or range(users)) / network.probe.every
    for traffic in network.traffic:
        senders, link_bps = (users, _air_bps(network)) if traffic.enters == "users" else (_WIRED, _link_bps(network))
        rate_hz = traffic.rate_hz(link_bps)
        if traffic.saturated:  # senders share what there is
            senders, rate_hz = 1, link_bps / traffic.size.mean
        each_s += senders * (rate_hz or 0.0)
    return each_s


def changes(network: Network, users: int, rounds: int, duration_s: float | None) -> float:
    """Roughly how often anybody goes down or comes up; in rounds at least, each of which takes an airtime."""
    if not network.outages:
        return 0.0
    if duration_s is None:
        bps = _air_bps(network)
        duration_s = rounds * (network.update_size or 0.0) / bps if bps else 0.0
    return duration_s * sum(outage.changes_hz(users) for outage in network.outages)


def _air_bps(network: Network) -> float:
    """The bit rate of the air."""
    if network.mac is not None and network.mac.rate_bps is not None:
        return network.mac.rate_bps
    if network.reception is None or network.radio is None:
        return 0.0
    return network.reception.rate_bps(network.radio.bandwidth)


def _link_bps(network: Network) -> float:
    """The bit rate of links, where the topology has one."""
    return float(getattr(network.topology, "rate", None) or 0.0)
