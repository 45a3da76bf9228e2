"""Trainings whose updates were lost, as rounds state them where a learner asks for them."""

from dataclasses import replace

import pytest
from support.small_network import FADES, RULES, make

LOSSES = {"late", "discarded", "collided", "faded", "lost", "given_up", "dropped"}
NETWORKS = {
    "collisions": {"mac": {"kind": "slotted_aloha", "probability": 0.4, "max_attempts": 2}},
    "single attempts": {"mac": {"kind": "slotted_aloha", "probability": 0.4, "max_attempts": 1}},
    "fades": {
        "mac": {"kind": "tdma", "max_attempts": 1},
        "channel": FADES,
        "radio": {"power": "-30 dBm", "bandwidth": "125 kHz"},
    },
    "outages": {
        "outages": [
            {
                "kind": "renewal",
                "nodes": "users",
                "up": {"distribution": "exponential", "mean": "8 s"},
                "down": {"distribution": "exponential", "mean": "2 s"},
            }
        ]
    },
    "stale": {"mac": {"kind": "slotted_aloha", "probability": 0.4}, "on_new_version": "finish", "staleness": 1},
    "batteries": {
        "energy": {"per_training": 1, "transmit": "1 W"},
        "outages": [{"kind": "battery", "capacity": 6, "charger": {"power": "300 mW"}}],
    },
}


def rounds_of(rule, network, *, reports_losses):
    access, context, log = make(6, 25, round=rule, compute={"speed": 1.0, "samples": 1, "jitter": 0.5}, **network)
    return list(access.rounds(replace(context, reports_losses=reports_losses))), log


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rounds_state_the_outcomes_that_are_recorded(rule, network):
    """Each from a version that is still kept; nothing else differs from a run without them."""
    rounds, log = rounds_of(rule, NETWORKS[network], reports_losses=True)
    plain, plain_log = rounds_of(rule, NETWORKS[network], reports_losses=False)
    assert [each.deliveries for each in rounds] == [each.deliveries for each in plain]
    assert all(each.lost == () for each in plain)
    expected = [
        (user, int(base)) for kind, _, _, user, _, base, detail in log.rows if kind in LOSSES and detail != "battery"
    ]
    found = [tuple(lost) for each in rounds for lost in each.lost]
    assert found == expected[: len(found)]
    assert log.rows == plain_log.rows
    kept = {0}
    for each in rounds:
        assert {lost.base for lost in each.lost} <= kept
        needed = range(each.oldest, each.index) if each.needed is None else each.needed
        kept = {*needed, each.index}


def test_the_networks_lose_updates_in_each_way():
    outcomes = set()
    for network in NETWORKS.values():
        for rule in RULES:
            rounds, log = rounds_of(rule, network, reports_losses=True)
            if any(each.lost for each in rounds):
                outcomes |= {kind for kind, *_ in log.rows} & LOSSES
    assert outcomes >= {"late", "discarded", "collided", "faded", "lost", "given_up"}
