"""What the theories of slotted ALOHA on one channel and on several have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac._slotted import Aloha
from netfl.network.theory import TheoryCase, misfit_fault
from netfl.network.theory._air import clear_misfits, saturated_misfits


def aloha_misfits(case: TheoryCase, mac: type[Aloha]) -> Iterator[Fault]:
    """Another MAC, users who run dry, air on which more fails."""
    yield from saturated_misfits(case)
    if not isinstance(case.said.mac, mac) or case.said.mac.probability is None:
        yield misfit_fault("mac", "this MAC, with a fixed probability")
    if any(traffic.leaves != "tower" for traffic in case.said.traffic):
        yield misfit_fault("traffic", "packets that have arrived as soon as the air is behind them (leaves: tower)")
    yield from clear_misfits(case)


def aloha_figures(case: TheoryCase, channels: int) -> Mapping[str, float]:
    """Throughput, collisions and delay of saturated users who pick one of so many *channels*."""
    mac, radio, reception, (traffic,) = case.said.mac, case.said.radio, case.said.reception, case.said.traffic
    assert isinstance(mac, Aloha)
    assert mac.probability is not None
    assert radio is not None
    assert reception is not None
    bits, users = traffic.size.mean, case.sites.users
    slot_s = mac.slot or bits / reception.rate_bps(radio.bandwidth)
    alone = (1.0 - mac.probability / channels) ** (users - 1)
    told = {
        "throughput_theory_bps": users * mac.probability * alone * bits / slot_s,
        "collision_probability_theory": 1.0 - alone,
    }
    if mac.max_attempts is None and alone > 0.0:  # else nobody ever gets through
        told["delay_theory_s"] = slot_s / (mac.probability * alone)
    return told
