"""Slotted ALOHA with saturated users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.mac.slotted_aloha import Aloha
from netfl.network.mac.slotted_aloha import SlottedAloha as Mac
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._links import medium_misfits, saturated_misfits


class SlottedAloha(Theory):
    """Of n saturated users each sends in a slot with probability p: a slot delivers n p (1-p)^(n-1) packets.

    An attempt collides with probability 1 - (1-p)^(n-1); a packet without a retry limit takes slot / (p (1-p)^(n-1))
    from being first to being received, its delay being geometric.  N. Abramson, AFIPS 1970; L. G. Roberts, ACM CCR
    5(2), 1975.  For fixed p, without fading, capture and outages.

    Example::

        kind: slotted_aloha
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        yield from aloha_misfits(case, Mac)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        return predict_aloha(case, 1)


def aloha_misfits(case: TheoryCase, mac: type[Aloha]) -> Iterator[Fault]:
    """Yield misfits of the MAC, of the traffic, and of the medium."""
    yield from saturated_misfits(case)
    if not isinstance(case.network.mac, mac) or case.network.mac.probability is None:
        yield misfit_fault("mac", "this MAC, with a fixed probability")
    if any(traffic.destination != "tower" for traffic in case.network.traffic):
        yield misfit_fault("traffic", "packets that leave at the tower (destination: tower)")
    yield from medium_misfits(case)


def predict_aloha(case: TheoryCase, channels: int) -> Mapping[str, float]:
    """Return throughput, collisions and delay of saturated users that pick one of so many *channels*."""
    network = case.network
    mac, radio, reception, (traffic,) = network.mac, network.radio, network.reception, network.traffic
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
