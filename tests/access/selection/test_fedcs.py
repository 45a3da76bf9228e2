"""FedCS: its greedy rule against calculations by hand and a direct version of the algorithm, and in a network."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from support.small_network import play

from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection.fedcs import Fedcs, add_greedily, add_in_order
from netfl.errors import ScenarioError
from netfl.streams import Streams


def direct(download_s, train_s, upload_s, deadline_s):
    """Return the set of algorithm 3, written with sets and loops as in the paper."""
    remaining, chosen, theta = set(range(len(upload_s))), [], 0.0

    def downlink(users):
        return max((download_s[user] for user in users), default=0.0)

    while remaining:
        merit = {
            k: 1.0 / (downlink([*chosen, k]) - downlink(chosen) + upload_s[k] + max(0.0, train_s[k] - theta))
            for k in sorted(remaining)
        }
        best = max(merit, key=merit.get)
        remaining.remove(best)
        next_theta = theta + upload_s[best] + max(0.0, train_s[best] - theta)
        if downlink([*chosen, best]) + next_theta < deadline_s:
            theta = next_theta
            chosen.append(best)
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_a_direct_version(seed):
    rng = np.random.default_rng(seed)
    download_s, train_s, upload_s = rng.uniform(1, 10, 12), rng.uniform(1, 60, 12), rng.uniform(1, 10, 12)
    chosen = add_greedily(download_s, train_s, upload_s, 50.0)
    assert chosen == direct(download_s, train_s, upload_s, 50.0)
    assert 0 < len(chosen) < 12


def test_by_hand():
    """User 2 is the quickest, 0 and 1 then wait for nothing, and 3 is too late."""
    chosen = add_greedily(np.full(4, 2.0), np.array([4.0, 5.0, 1.0, 6.0]), np.array([3.0, 9.0, 4.0, 9.5]), 21.0)
    # Θ: 1 + 4 = 5, then 5 + 3 = 8, then 8 + 9 = 17 (19 with the download), then 26.5 (too late)
    assert chosen == [2, 0, 1]


def test_in_a_given_order():
    """User 1 does not fit after user 0, which ends at 7; user 2 does, and ends at 9."""
    chosen = add_in_order(np.arange(3), np.full(3, 1.0), np.array([4.0, 5.0, 1.0]), np.array([2.0, 9.0, 3.0]), 10.5)
    assert chosen == [0, 2]


def test_random_order_is_another_in_each_round():
    values = {"rate_bps": np.full(4, 100.0), "speed": np.full(4, 1e3)}
    selector = make(order="random", deadline=3.5)  # a download and two uploads of 1 s fit
    pairs = {tuple(selector.choose(RoundInfo(4, values, index)).tolist()) for index in range(1, 100)}
    assert len(pairs) == 6
    assert {len(pair) for pair in pairs} == {2}


@pytest.mark.parametrize("asked", [None, 4])
def test_equal_users_have_equal_shares(asked):
    """Two of six users with the same times fit: each is selected in a third of the rounds."""
    selection = Fedcs(deadline=3.5, asked=asked)
    selector = selection.open(UserInfo(6, Streams(1), update_bits=100.0, work=np.full(6, 0.001)))
    values = {"rate_bps": np.full(6, 100.0), "speed": np.full(6, 1.0)}
    rounds = 450
    selected = [selector.choose(RoundInfo(6, values, index)) for index in range(1, rounds + 1)]
    assert {len(users) for users in selected} == {2}
    counts = np.bincount(np.concatenate(selected), minlength=6)
    # the variance of a count is that of a draw without replacement; the sum has 5 degrees of freedom
    statistic = ((counts - rounds / 3) ** 2).sum() / (rounds * (1 / 3) * (2 / 3)) * (5 / 6)
    assert stats.chi2.sf(statistic, 5) > 1e-4


def make(**settings):
    selection = Fedcs(**{"deadline": 10.0} | settings)
    return selection.open(UserInfo(4, Streams(1), update_bits=100.0, work=np.array([10.0, 10.0, 40.0, 40.0])))


def test_times_follow_rates_speeds_and_work():
    """Downloads and uploads of 1, 2, 1 and 2.5 s, trainings of 1, 1, 4.1 and 2 s: no two users are ever equal."""
    moment = RoundInfo(
        4, {"rate_bps": np.array([100.0, 50.0, 100.0, 40.0]), "speed": np.array([10, 10, 40 / 4.1, 20.0])}, 1
    )
    train_s, upload_s = np.array([1.0, 1.0, 4.1, 2.0]), np.array([1.0, 2.0, 1.0, 2.5])
    for deadline_s in (3.5, 5.0, 6.0, 8.0, 9.0, 12.0):
        expected = sorted(direct(upload_s, train_s, upload_s, deadline_s))
        assert make(deadline=deadline_s).choose(moment).tolist() == expected
        expected = sorted(direct(np.full(4, 0.5), train_s, upload_s, deadline_s))
        assert make(deadline=deadline_s, download=0.5).choose(moment).tolist() == expected


def test_users_of_unknown_rate_are_left_out():
    moment = RoundInfo(4, {"rate_bps": np.array([100.0, np.nan, 100.0, 100.0]), "speed": np.full(4, 1e3)}, 1)
    assert make(deadline=100.0).choose(moment).tolist() == [0, 2, 3]
    assert len(make(deadline=100.0, asked=2).choose(moment)) <= 2


def test_without_a_network():
    with pytest.raises(ScenarioError, match=r"access\.kind: network"):
        Fedcs(deadline=1.0).open(UserInfo(4, Streams(1)))


def test_all_selected_users_deliver_by_the_deadline():
    """In a network whose users send one after another, the expected times hold to the end of the round."""
    users, bits, deadline_s = 8, 4e5, 4.6
    distances_m = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0]
    speed = [1.0, 0.2, 0.5, 2.0, 0.4, 1.5, 0.3, 0.25]
    channel = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}]
    rounds, _ = play(
        users,
        2,
        topology={"kind": "star", "distances": distances_m, "rate": "1000 Gbps", "delay": 0},
        radio={"power": "0 dBm", "bandwidth": 1e5},
        channel=channel,
        reception="shannon",
        mac={"kind": "round_robin", "poll": 0},
        unreachable="keep",
        compute={"samples": 1, "speed": speed},
        update_size=bits,
        round={"kind": "available", "deadline": "1 h"},
        selection={"kind": "fedcs", "deadline": deadline_s, "download": 0.0},
    )
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(distances_m)
    snr = 10.0 ** ((174.0 - 50.0 - loss_db) / 10.0)
    upload_s = bits / (1e5 * np.log2(1.0 + snr))
    expected = sorted(direct(np.zeros(users), 1.0 / np.array(speed), upload_s, deadline_s))
    assert 2 < len(expected) < users
    for round_ in rounds:
        assert sorted(delivery.user for delivery in round_.deliveries) == expected
        assert round_.closed_s - round_.opened_s < deadline_s
