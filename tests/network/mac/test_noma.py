"""Groups of users that a tower lets send at once: their members, and the rates that both orders of decoding give."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from support.small_network import play

from netfl.network.mac.noma import Noma
from netfl.network.radio.bench import BenchSetup, GroupMedium, MacTestBench, saturated_users
from netfl.streams import Streams

BAND_HZ, BITS = 125e3, 1000.0
NOISE_DBM = -174.0 + 10.0 * np.log10(BAND_HZ)
SNR_DB = np.array([23.0, 11.0, 30.0, 2.0])
NETWORK = {
    "radio": {"power": (SNR_DB + NOISE_DBM).tolist(), "bandwidth": BAND_HZ},
    "reception": {"kind": "shannon"},
    "mac": {"kind": "noma", "poll": "1 ms"},
    "interference": {"kind": "sic"},
    "round": {"kind": "first", "m": 4},
}
"""Four users of these SNRs, in the band of 125 kHz without a noise figure."""


def attempts(users=4, rounds=1, **overrides):
    """Return the attempts of a run: user, start, end and outcome of each, in the order of their starts."""
    _, log = play(users, rounds, **NETWORK | overrides)
    table = pd.concat([pd.DataFrame(part) for part in log.attempts], ignore_index=True)
    table = table.sort_values(["start_s", "user"], kind="stable")
    return list(zip(table.user, table.start_s, table.end_s, table.outcome, strict=True))


@pytest.fixture
def served():
    """Return a function that runs a MAC on constant SNRs and returns the groups, in the order of their ends."""

    class Constant(GroupMedium):
        snrs_db = SNR_DB

        def snr_db(self, ids, tower, time_s):
            return np.asarray(self.snrs_db[ids])

    def run(mac, groups, snrs_db=SNR_DB, seed=1):
        medium = Constant(1.0)
        medium.snrs_db = np.asarray(snrs_db, float)
        bench = MacTestBench(BenchSetup(mac, len(snrs_db), 1.0, Streams(seed)), saturated_users, medium)
        bench.env.run(until=groups + 0.5)
        ends_s = np.round([received_s for _, _, received_s in bench.deliveries], 6)
        return [frozenset(np.array(bench.users)[ends_s == end_s].tolist()) for end_s in np.unique(ends_s)]

    return run


@pytest.mark.parametrize(
    ("pairing", "group", "expected"),
    [
        ("near_far", 2, [{2, 3}, {0, 1}]),
        ("adjacent", 2, [{2, 0}, {1, 3}]),
        ("near_far", 3, [{2, 3, 0}, {1}]),
        ("adjacent", 3, [{2, 0, 1}, {3}]),
        ("near_far", 5, [{0, 1, 2, 3}]),
    ],
)
def test_groups_of_a_division(served, pairing, group, expected):
    assert served(Noma(pairing=pairing, group=group), 2 * len(expected)) == expected * 2


def test_an_odd_user_is_alone(served):
    assert served(Noma(), 3, [5.0, 4.0, 3.0, 2.0, 1.0]) == [{0, 4}, {1, 3}, {2}]
    assert served(Noma(pairing="adjacent"), 3, [5.0, 4.0, 3.0, 2.0, 1.0]) == [{0, 1}, {2, 3}, {4}]


def test_random_pairs_are_equally_likely(served):
    """Of four users there are three pairs of pairs; 900 divisions, within 4.5 standard errors."""
    groups = served(Noma(pairing="random"), 1800)
    counts = Counter(groups[0::2])
    partner = Counter(frozenset({group, groups[2 * place + 1]}) for place, group in enumerate(groups[0::2]))
    assert sum(counts.values()) == 900
    assert len(partner) == 3
    assert max(abs(count - 300) for count in partner.values()) < 4.5 * np.sqrt(900 * 2 / 9)


def test_equal_users_are_grouped_by_draws(served):
    groups = served(Noma(), 600, [7.0, 7.0, 7.0, 7.0])
    pairs = Counter(frozenset({group, groups[2 * place + 1]}) for place, group in enumerate(groups[0::2]))
    assert len(pairs) == 3
    assert max(abs(count - 100) for count in pairs.values()) < 4.5 * np.sqrt(300 * 2 / 9)


def test_a_user_that_comes_later_waits_for_the_next_division():
    """Users 0 to 2 train for 1 s, and user 3 for 1.002 s, while users 1 and 2 are on the air."""
    rows = attempts(compute={"speed": [1.0, 1.0, 1.0, 1 / 1.002], "samples": 1})
    assert [user for user, *_ in rows] == [1, 2, 0, 3]


@pytest.mark.parametrize("order", ["received_power", "weakest_first"])
def test_rates_of_a_pair_add_up_to_the_capacity(order):
    """R1 + R2 = B log2(1 + s1 + s2), by the airtimes of the table; all frames are received."""
    rows = attempts(interference={"kind": "sic", "order": order})
    assert [outcome for *_, outcome in rows] == ["received"] * 4
    snr = 10.0 ** (SNR_DB / 10.0)
    efficiency = {user: BITS / (end_s - start_s) / BAND_HZ for user, start_s, end_s, _ in rows}
    for near, far in ((2, 3), (0, 1)):
        assert efficiency[near] + efficiency[far] == pytest.approx(np.log2(1.0 + snr[near] + snr[far]), rel=1e-7)
        last = far if order == "received_power" else near
        assert efficiency[last] == pytest.approx(np.log2(1.0 + snr[last]), rel=1e-7)
    starts_s = [start_s for _, start_s, *_ in rows]
    assert starts_s[0] == starts_s[1]
    assert starts_s[2] == pytest.approx(max(end_s for *_, end_s, _ in rows[:2]) + 1e-3), "after a poll of 1 ms"


@pytest.mark.parametrize("residual", [0.01, 1.0])
def test_rates_allow_for_what_is_not_subtracted(residual):
    rows = attempts(interference={"kind": "sic", "residual": residual})
    assert [outcome for *_, outcome in rows] == ["received"] * 4
    snr = 10.0 ** (SNR_DB / 10.0)
    efficiency = {user: BITS / (end_s - start_s) / BAND_HZ for user, start_s, end_s, _ in rows}
    for near, far in ((2, 3), (0, 1)):
        assert efficiency[near] == pytest.approx(np.log2(1.0 + snr[near] / (1.0 + snr[far])), rel=1e-7)
        assert efficiency[far] == pytest.approx(np.log2(1.0 + snr[far] / (1.0 + residual * snr[near])), rel=1e-7)


def test_sinr_has_the_rates_of_a_residual_of_1():
    assert attempts(interference="sinr") == attempts(interference={"kind": "sic", "residual": 1})


def test_rates_of_radios_of_different_bandwidths():
    """User 1 has half of the band: all of its power falls into that of user 0, and half of user 0's into its own."""
    radio = {"power": [-90.0, -95.0], "bandwidth": [BAND_HZ, BAND_HZ / 2]}
    rows = attempts(users=2, radio=radio, round={"kind": "first", "m": 2})
    assert [outcome for *_, outcome in rows] == ["received"] * 2
    noise_dbm = -174.0 + 10.0 * np.log10([BAND_HZ, BAND_HZ / 2])
    power, noise = 10.0 ** (np.array([-90.0, -95.0]) / 10.0), 10.0 ** (noise_dbm / 10.0)
    sinr = power / (noise + np.array([power[1], 0.0]))  # user 0 is decoded first
    rates_bps = np.array([BAND_HZ, BAND_HZ / 2]) * np.log2(1.0 + sinr)
    airtimes_s = {user: end_s - start_s for user, start_s, end_s, _ in rows}
    assert [airtimes_s[0], airtimes_s[1]] == pytest.approx(BITS / rates_bps, rel=1e-7)


def test_modes_are_chosen_by_the_same_ratio():
    """Modes of 0, 10 and 20 dB: at 30 and 11 dB, user 0 has 30 - 10 log10(1 + 12.6) = 18.7 dB beside user 1."""
    table = [
        {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 kbps"},
        {"kind": "snr_threshold", "threshold": "10 dB", "rate": "2 kbps"},
        {"kind": "snr_threshold", "threshold": "20 dB", "rate": "4 kbps"},
    ]
    radio = {"power": [30.0 + NOISE_DBM, 11.0 + NOISE_DBM], "bandwidth": BAND_HZ}
    reception = {"kind": "mcs", "table": table}
    rows = attempts(users=2, radio=radio, reception=reception, round={"kind": "first", "m": 2})
    assert [outcome for *_, outcome in rows] == ["received"] * 2
    assert {user: round(BITS / (end_s - start_s)) for user, start_s, end_s, _ in rows} == {0: 2000, 1: 2000}
    alone = attempts(users=2, radio=radio, reception=reception, round={"kind": "first", "m": 2}, mac="round_robin")
    assert {user: round(BITS / (end_s - start_s)) for user, start_s, end_s, _ in alone} == {0: 4000, 1: 2000}


def test_users_that_send_at_random_do_not_know_of_each_other():
    """Two users of `pure_aloha` begin together: each has the rate of its own SNR, so that the stronger one is lost."""
    mac = {"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}
    rows = attempts(mac=mac, users=2, radio=NETWORK["radio"] | {"power": NETWORK["radio"]["power"][:2]},
                    round={"kind": "first", "m": 2, "deadline": "5 s"})  # fmt: skip
    efficiency = {user: BITS / (end_s - start_s) / BAND_HZ for user, start_s, end_s, _ in rows}
    assert efficiency[0] == pytest.approx(np.log2(1.0 + 10.0 ** (SNR_DB[0] / 10.0)), rel=1e-7)
    assert [outcome for *_, outcome in rows] == ["collided", "collided"]


def test_a_pair_is_faster_than_two_turns():
    """The region of two users contains that of time division, at SNRs that differ."""
    ends_s = {mac: max(end_s for *_, end_s, _ in attempts(mac=mac)) for mac in ("noma", "round_robin")}
    assert ends_s["noma"] < ends_s["round_robin"]


def test_groups_without_users_that_are_down():
    """User 3 is down when its group comes; its partner sends alone, at its own rate."""
    hours = {"nodes": [3], "start": "1.0005 s", "duration": "1 h"}
    rows = attempts(outages=[{"kind": "maintenance", "windows": [hours]}], round={"kind": "first", "m": 3})
    first = rows[0]
    assert first[0] == 2
    assert BITS / (first[2] - first[1]) / BAND_HZ == pytest.approx(np.log2(1.0 + 1000.0), rel=1e-7)
    assert {user for user, *_ in rows} == {0, 1, 2}
