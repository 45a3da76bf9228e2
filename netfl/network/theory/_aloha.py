"""Assumptions and formulas of slotted ALOHA on one or several channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac._slotted import Aloha
from netfl.network.theory import TheoryCase, misfit_fault
from netfl.network.theory._air import clear_misfits, saturated_misfits


def aloha_misfits(case: TheoryCase, mac: type[Aloha]) -> Iterator[Fault]:
    """Yield misfits of the MAC, of the traffic, and of the medium."""
    yield from saturated_misfits(case)
    if not isinstance(case.network.mac, mac) or case.network.mac.probability is None:
        yield misfit_fault("mac", "this MAC, with a fixed probability")
    if any(traffic.leaves != "tower" for traffic in case.network.traffic):
        yield misfit_fault("traffic", "packets that have arrived as soon as the air is behind them (leaves: tower)")
    yield from clear_misfits(case)


def predict_aloha(case: TheoryCase, channels: int) -> Mapping[str, float]:
    """Return throughput, collisions and delay of saturated users that pick one of so many *channels*."""
    mac, radio, reception, (traffic,) = (
        case.network.mac,
        case.network.radio,
        case.network.reception,
        case.network.traffic,
    )
    assert isinstance(mac, Aloha)
    assert mac.probability is not None
    assert radio is not None
    assert reception is not None
    bits, users = traffic.size.mean, case.layout.users
    slot_s = mac.slot or bits / reception.rate_bps(radio.bandwidth)
    success = (1.0 - mac.probability / channels) ** (users - 1)
    metrics = {
        "throughput_theory_bps": users * mac.probability * success * bits / slot_s,
        "collision_probability_theory": 1.0 - success,
    }
    if mac.max_attempts is None and success > 0.0:  # else no packet is ever received
        metrics["delay_theory_s"] = slot_s / (mac.probability * success)
    return metrics
