"""Sums in the air: slots, energy, who is left out, and what does not fit."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.small_network import make, play

from netfl.errors import ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.scenario.validation import nested_faults
from netfl.types import OUTCOMES, ScenarioFacts

USERS = 6
NUMBERS = 500
SUMS = {
    "topology": {"kind": "star", "radius": "200 m", "rate": "1 Gbps", "delay": 0},
    "channel": [{"kind": "log_distance", "exponent": 3.76, "reference_loss": "15.3 dB"}],
    "radio": {"power": "20 dBm", "bandwidth": "100 kHz"},
    "reception": "analogue",
    "interference": "over_the_air",
    "power_control": {"kind": "truncated_inversion", "target": "10 dB", "threshold": "10 dB"},
    "mac": "simultaneous",
    "round": {"kind": "available"},
    "energy": {"transmit": "2 W"},
    "update_size": 32.0 * NUMBERS,
    "compute": {"speed": [1.0, 0.9, 0.8, 1.1, 1.2, 0.7], "samples": 1},
}
RAYLEIGH = {"kind": "rayleigh", "coherence": "500 ms"}
SLOT_S = NUMBERS / 100e3


def run(rounds=30, users=USERS, **overrides):
    return play(users, rounds, 3, **SUMS | overrides)


def outcomes(log):
    """Return the number of updates by outcome, and the outcomes of each update."""
    ends = [(kind, user, base) for kind, _, _, user, _, base, _ in log.rows if kind in OUTCOMES]
    return Counter(kind for kind, *_ in ends), ends


def column(log, name):
    return np.concatenate([part[name] for part in log.attempts])


def test_a_slot_takes_one_symbol_for_each_number_whoever_sends():
    for users in (2, USERS):
        rounds, log = run(4, users, compute={"speed": 1.0, "samples": 1})
        assert column(log, "airtime_s") == pytest.approx(SLOT_S)
        assert [len(each.deliveries) for each in rounds] == [users] * 4
        assert {each.arrived_s for each in rounds[0].deliveries} == {rounds[0].closed_s}
        assert rounds[0].closed_s == pytest.approx(1.0 + SLOT_S, abs=1e-4)
        assert log.final_values["uplink_symbols"] == 4 * NUMBERS
        assert sum(each.uplink_bits for each in rounds) == 0.0
        assert set(column(log, "bits")) == {0.0}


def test_signals_arrive_with_one_amplitude_at_the_energy_that_was_sent():
    _, log = run(10, channel=[*SUMS["channel"], RAYLEIGH])
    assert column(log, "snr_db") == pytest.approx(10.0)
    joules = 2.0 * SLOT_S * 10.0 ** (column(log, "power_db") / 10.0)
    assert log.spendings["send_J"] == pytest.approx(np.bincount(column(log, "user"), joules, minlength=USERS))


@pytest.mark.slow
def test_users_take_part_with_the_probability_of_their_fading():
    """exp(-g / s) at the threshold g and the mean SNR s; the others end as not summed, and send nothing later."""
    at_one = {"topology": {"kind": "star", "distance": "100 m", "rate": "1 Gbps", "delay": 0}}
    access, context, _ = make(USERS, 1, 3, **SUMS | at_one)
    mean_db = open_budget(access, context, build_layout(access, context)).snr_db(np.arange(1), 0.0)[0]
    threshold_db = mean_db - 3.0
    control = {"kind": "truncated_inversion", "target": f"{threshold_db} dB", "threshold": f"{threshold_db} dB"}
    rounds, log = run(150, **at_one, channel=[*SUMS["channel"], RAYLEIGH], power_control=control)
    counts, ends = outcomes(log)
    expected = np.exp(-(10.0**-0.3))
    share = counts["delivered"] / (150 * USERS)
    assert abs(share - expected) < 4.0 * np.sqrt(expected * (1.0 - expected) / (150 * USERS))
    assert counts["delivered"] + counts["not_summed"] == 150 * USERS == len(ends)
    assert len(column(log, "user")) == counts["delivered"] == log.final_values["attempts"]
    assert log.final_values["frames_withheld"] == counts["not_summed"]
    assert all(delivery.base == each.index - 1 for each in rounds for delivery in each.deliveries)


def test_users_that_miss_the_slot_are_not_summed():
    """Slots 200 ms after the first update: those of 1/1.2 s, 1/1.1 s and 1 s are in time, the others not."""
    rounds, log = run(5, mac={"kind": "simultaneous", "wait": "200 ms"})
    counts, _ = outcomes(log)
    assert counts == {"delivered": 15, "not_summed": 15}
    assert {delivery.user for each in rounds for delivery in each.deliveries} == {0, 3, 4}
    assert rounds[0].closed_s == pytest.approx(1 / 1.2 + 0.2 + SLOT_S, abs=1e-4)


def test_rounds_state_what_they_did_not_sum():
    access, context, _ = make(USERS, 3, 3, **SUMS | {"mac": {"kind": "simultaneous", "wait": "200 ms"}})
    rounds = [*access.rounds(replace(context, reports_not_summed=True))]
    assert [each.not_summed for each in rounds] == [
        ((1, base), (2, base), (5, base)) for base in range(3)
    ]  # fmt: skip


def test_a_user_that_returns_after_the_slot_is_not_summed():
    """It gets the version late, and its update is of a version whose sum was made, while the round is open."""
    slow = {"speed": [1.0, 0.9, 0.8, 1.1, 1.2, 0.2], "samples": 1}
    waiting = {"kind": "available", "losses": "unknown", "deadline": "5 s"}
    slots = {"kind": "simultaneous", "wait": "300 ms"}
    rounds, log = run(1, compute=slow, outages=away(0, 0, "1.2 s"), mac=slots, round=waiting)
    _, ends = outcomes(log)
    assert sorted(user for kind, user, _ in ends if kind == "delivered") == [1, 3, 4]
    assert sorted(user for kind, user, _ in ends if kind == "not_summed") == [0, 2, 5]
    assert rounds[0].closed_s == 5.0
    assert sorted(column(log, "user")) == [1, 3, 4]


def away(user, start, duration):
    return [{"kind": "maintenance", "windows": [{"nodes": [user], "start": start, "duration": duration}]}]


@pytest.mark.parametrize("user", [0, 5])
def test_a_sum_counts_as_a_whole(user):
    """A user that was away when the round opened, and is back before the slot, is in the sum, whatever its number."""
    alike = {"speed": 1.0, "samples": 1}
    rounds, log = run(3, compute=alike, outages=away(user, 0, "100 ms"))
    assert [len(each.deliveries) for each in rounds] == [USERS] * 3
    assert outcomes(log)[0] == {"delivered": 3 * USERS}


def test_a_slot_does_not_wait_for_users_that_are_away():
    """User 0 is away from 0.5 s to 100.5 s; it cannot take part, and delays nobody."""
    rounds, _ = run(5, compute={"speed": 1.0, "samples": 1}, outages=away(0, "500 ms", "100 s"))
    assert rounds[-1].closed_s < 6.0
    assert all(len(each.deliveries) == USERS - 1 for each in rounds)


def test_a_user_whose_channel_never_suffices_is_left_out_of_each_sum():
    far = {"kind": "star", "distances": ["100 m"] * 5 + ["900 m"], "rate": "1 Gbps", "delay": 0}
    control = {"kind": "truncated_inversion", "target": "10 dB", "threshold": "20 dB"}
    _, log = run(4, topology=far, power_control=control, unreachable="keep")
    assert outcomes(log)[0] == {"delivered": 20, "not_summed": 4}


@pytest.mark.parametrize(
    ("change", "key", "problem"),
    [
        ({"reception": {"kind": "shannon"}}, "reception", "analogue signals"),
        ({"mac": "round_robin"}, "mac", "send at once"),
        ({"power_control": "full"}, "power_control", "one amplitude"),
        ({"round": {"kind": "first", "m": 2}}, "round", "before the whole sum"),
        ({"downlink": {"mode": "multicast"}, "broadcast_rate": None}, "downlink", "sends bits"),
        ({"transport": {"grain": "packet", "mtu": "1 kB"}}, "transport", "sends bits"),
        ({"receivers": "all"}, "receivers", "of the users of one tower"),
        ({"interference": "collide"}, "reception", "nothing decodes"),
        ({"exempt": {"airtime": [0]}}, "exempt.airtime", "one length"),
        ({"exempt": {"contention": [0]}}, "exempt.contention", "none disturbs another"),
        ({"exempt": {"deadline": [0]}}, "exempt.deadline", "in no sum"),
        ({"staleness": 1}, "staleness", "an older version"),
        ({"on_new_version": "finish"}, "on_new_version", "an older version"),
        ({"channel": [{"kind": "underwater", "frequency": "12 kHz"}]}, "channel.0", "do not arrive in step"),
    ],
)
def test_parts_that_do_not_fit_sums_are_named(change, key, problem):
    access, _, _ = make(USERS, 1, 1, **SUMS | change)
    faults = [*nested_faults(access, "access", ScenarioFacts(users=USERS, rounds=1, sized=True))]
    found = [fault.problem for fault in faults if fault.key == f"access.{key}"]
    assert any(problem in text for text in found), faults


def test_several_towers_make_no_sum():
    tree = {"kind": "tree", "fanout": [2], "ring": "100 m", "radius": "50 m", "rate": "1 Mbps", "delay": 0}
    access, context, _ = make(USERS, 1, 1, **SUMS | {"topology": tree})
    with pytest.raises(ScenarioError, match="sums are those of one tower"):
        build_network(access, context)


def test_the_warning_of_fast_fading_names_what_sums_can_have():
    access, setting, _ = make(USERS, 1, 1, **SUMS | {"channel": [{"kind": "rayleigh", "coherence": "1 us"}]})
    (warning,) = (text for text in access.warnings(setting) if "fast fading" in text)
    assert "use a smaller model or a larger band (access.radio.bandwidth)" in warning
    assert "access.transport" not in warning
