"""Slotted ALOHA with saturated users."""

from __future__ import annotations

from collections.abc import Mapping

from netfl.network.mac.slotted_aloha import Aloha
from netfl.network.mac.slotted_aloha import SlottedAloha as Mac
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import ONLY_COLLISIONS, SATURATED


def aloha_of(mac: type[Aloha]) -> Condition:
    """Return the condition that users send by *mac* with a fixed probability."""

    def holds(case: TheoryCase) -> bool:
        return isinstance(case.network.mac, mac) and case.network.mac.probability is not None

    return Condition("mac", "this MAC, with a fixed probability", holds)


def _leaves_at_tower(case: TheoryCase) -> bool:
    return all(traffic.destination == "tower" for traffic in case.network.traffic)


ALOHA = (
    SATURATED,
    Condition("traffic", "packets that leave at the tower (destination: tower)", _leaves_at_tower),
    *ONLY_COLLISIONS,
)
"""Saturated users of one cell, where only collisions cause losses."""


class SlottedAloha(Theory):
    """Of n saturated users each sends in a slot with probability p: a slot delivers n p (1-p)^(n-1) packets.

    An attempt collides with probability 1 - (1-p)^(n-1); a packet without a retry limit takes slot / (p (1-p)^(n-1))
    from being first to being received, its delay being geometric.  N. Abramson, AFIPS 1970; L. G. Roberts, ACM CCR
    5(2), 1975.  For fixed p, without fading, capture and outages.

    Example::

        kind: slotted_aloha
    """

    conditions = (aloha_of(Mac), *ALOHA)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        return predict_aloha(case, 1)


def predict_aloha(case: TheoryCase, channels: int) -> Mapping[str, float]:
    """Return throughput, collisions and delay of saturated users that pick one of so many *channels*."""
    mac = case.network.mac
    radio = case.network.radio
    reception = case.network.reception
    (traffic,) = case.network.traffic
    assert isinstance(mac, Aloha)
    assert mac.probability is not None
    assert radio is not None
    assert radio.common_bandwidth_hz is not None
    assert reception is not None
    bits = traffic.size.mean
    users = case.layout.users
    slot_s = mac.slot or bits / reception.rate_bps(radio.common_bandwidth_hz)
    success = (1.0 - mac.probability / channels) ** (users - 1)
    metrics = {
        "throughput_theory_bps": users * mac.probability * success * bits / slot_s,
        "collision_probability_theory": 1.0 - success,
    }
    if mac.max_attempts is None and success > 0.0:  # else no packet is ever received
        metrics["delay_theory_s"] = slot_s / (mac.probability * success)
    return metrics
