"""Frequency division: shares of the band, their noise, rates and ends, and errors of a scenario."""

import copy

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from support.error_messages import assert_one_fault
from support.small_network import SECTION, make, play
from test_compositions import outcomes

from netfl.errors import ScenarioError
from netfl.network._band_division import BandRequest, fill_water, finish_together
from netfl.network.mac import Mac
from netfl.network.mac.fdma import Fdma
from netfl.network.radio.transmission import share_gain_db
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import Law

BANDWIDTH_HZ, BITS = 1e5, 1e5
DISTANCES_M = np.array([100.0, 250.0, 400.0, 700.0, 1000.0])
FADING = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "50 ms"}]


def snr_at(distances_m):
    """Return the SNR of users of 0 dBm in the whole band: Friis' loss at 1 m, and 30 dB in each decade."""
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(distances_m)
    return 10.0 ** ((0.0 - loss_db - (-174.0 + 10.0 * np.log10(BANDWIDTH_HZ))) / 10.0)


SNR = snr_at(DISTANCES_M)


def ends_s(mac, distances_m=DISTANCES_M, reception="shannon", rounds=1, **overrides):
    """Return the time of each user's delivery after the end of its training, which takes 1 s, ``[users]``."""
    users = len(distances_m)
    parts = {
        "radio": {"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
        "reception": reception,
        "mac": {"kind": "fdma"} | mac,
        "channel": FADING[:1],
        "topology": {"kind": "star", "distances": [*distances_m], "rate": "1000 Gbps", "delay": 0},
        "update_size": BITS,
        "round": {"kind": "first", "m": users},
        "unreachable": "keep",
    }
    played, _ = play(users, rounds, **(parts | overrides))
    deliveries = sorted(played[-1].deliveries, key=lambda delivery: delivery.user)
    assert [delivery.user for delivery in deliveries] == [*range(users)]
    return np.array([delivery.arrived_s for delivery in deliveries]) - played[-1].opened_s - 1.0


def capacity(snr, share):
    """Return the capacity in a share of the band, in bit/s."""
    return share * BANDWIDTH_HZ * np.log2(1.0 + snr / share)


def test_noise_follows_the_bandwidth():
    """A fifth of the band has 7 dB less noise."""
    assert share_gain_db(0.2) == pytest.approx(6.9897, abs=1e-4)
    assert share_gain_db(np.array([0.5, 1.0])) == pytest.approx([3.0103, 0.0], abs=1e-4)


def test_users_of_equal_shares_send_at_the_capacity_of_their_share():
    assert ends_s({}) == pytest.approx(BITS / capacity(SNR, 0.2), rel=1e-5)


def test_users_of_given_shares_send_at_the_capacity_of_their_share():
    shares = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
    mac = {"division": "given", "shares": [*shares]}
    assert ends_s(mac) == pytest.approx(BITS / capacity(SNR, shares), rel=1e-5)


def test_gap_divides_the_snr():
    expected_s = BITS / capacity(SNR / 10**0.6, 0.2)
    assert ends_s({}, reception={"kind": "shannon", "gap": "6 dB"}) == pytest.approx(expected_s, rel=1e-5)


def test_sum_of_rates_under_water_filling_is_the_capacity_of_the_multiple_access_channel():
    rates_bps = BITS / ends_s({"division": "water_filling"})
    assert rates_bps.sum() == pytest.approx(BANDWIDTH_HZ * np.log2(1.0 + SNR.sum()), rel=1e-5)
    assert rates_bps == pytest.approx(rates_bps.sum() * SNR / SNR.sum(), rel=1e-5)


@pytest.mark.parametrize("gap_db", [0.0, 6.0])
def test_users_by_need_end_together_at_the_least_time(gap_db):
    """The least T is the root of Σ s_i(T) = 1, where s_i(T) is the root of T times the capacity in s_i, less the bits.

    The reference finds both by Brent's method.
    """
    snr = SNR / 10 ** (gap_db / 10.0)

    def shares(time_s):
        return [brentq(lambda s, i=i: time_s * capacity(snr[i], s) - BITS, 1e-9, 1.0, xtol=1e-15) for i in range(5)]

    slowest_s = (BITS / capacity(snr, 1.0)).max()
    expected_s = brentq(lambda time_s: sum(shares(time_s)) - 1.0, slowest_s * (1 + 1e-9), 100 * slowest_s, xtol=1e-12)
    found_s = ends_s({"division": "need"}, reception={"kind": "shannon", "gap": gap_db})
    assert found_s == pytest.approx(np.full(5, expected_s), rel=1e-5)


def test_users_by_need_end_together_under_one_rate():
    reception = {"kind": "snr_threshold", "threshold": "-30 dB", "rate": "100 kbps"}
    found_s = ends_s({"division": "need"}, reception=reception)
    assert found_s == pytest.approx(np.full(5, 5 * BITS / 1e5), rel=1e-5)


@pytest.mark.parametrize("mac", [{"division": "need"}, {}])
def test_rounding_does_not_decide_which_of_equal_ends_comes_first(mac):
    """Five users end together in every round: by need at unequal distances, with equal shares at equal ones."""
    distances_m = DISTANCES_M if mac else np.full(5, 300.0)
    played, _ = play(
        5, 30, mac={"kind": "fdma"} | mac, reception="shannon", radio={"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
        channel=FADING[:1], topology={"kind": "star", "distances": [*distances_m]}, unreachable="keep",
        update_size=BITS,
    )  # fmt: skip
    first_users = {round_.deliveries[0].user for round_ in played}
    assert first_users == {0, 1, 2, 3, 4}


def test_share_of_a_mode_has_its_share_of_the_rate_and_the_noise():
    """The threshold is just below, and just above, the SNR of the last user and 6.99 dB."""
    threshold_db = 10 * np.log10(SNR[-1]) + 6.98
    reception = {"kind": "snr_threshold", "threshold": threshold_db, "rate": "100 kbps"}
    assert ends_s({}, reception=reception) == pytest.approx(5 * BITS / 1e5, rel=1e-5)
    reception["threshold"] += 0.02
    mac = {"max_attempts": 1}
    played = play(
        5, 1, reception=reception, mac={"kind": "fdma"} | mac, radio={"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
        channel=FADING[:1], topology={"kind": "star", "distances": [*DISTANCES_M]}, unreachable="keep",
        round={"kind": "first", "m": 5, "deadline": "1 min"}, update_size=BITS,
    )[0]  # fmt: skip
    assert sorted(delivery.user for delivery in played[0].deliveries) == [0, 1, 2, 3]


def test_users_without_backlog_keep_their_shares_or_lose_them():
    """User 1 trains for 4 s longer: with ``backlog`` it leaves the whole band to user 0, and has it then itself."""
    two = SNR[[1, 3]]
    options = {"distances_m": DISTANCES_M[[1, 3]], "compute": {"samples": 1, "speed": [1.0, 0.2]}}
    alone_s = BITS / capacity(two, 1.0)
    assert ends_s({"among": "backlog"}, **options) - [0, 4] == pytest.approx(alone_s, rel=1e-5)
    assert ends_s({"among": "users"}, **options) - [0, 4] == pytest.approx(BITS / capacity(two, 0.5), rel=1e-5)


def test_users_that_join_wait_for_the_next_division():
    """User 1 has its update when user 0 has sent a half of its own."""
    two = SNR[[1, 3]]
    alone_s = BITS / capacity(two, 1.0)
    speed = 1.0 / (1.0 + alone_s[0] / 2)
    found_s = ends_s({"among": "backlog"}, DISTANCES_M[[1, 3]], compute={"samples": 1, "speed": [1.0, speed]})
    assert found_s == pytest.approx([alone_s[0], alone_s.sum()], rel=1e-5)


def test_rates_follow_the_fading_at_the_start_of_a_frame():
    """A frame that is on the air for some coherence times is lost if its mean capacity is below that at its start."""
    played, log = play(
        1, 25, reception="shannon", mac={"kind": "fdma"}, radio={"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
        channel=FADING, topology={"kind": "star", "distance": "400 m"}, unreachable="keep", update_size=BITS,
    )  # fmt: skip
    failed = [row for row in log.rows if row[0] == "failed"]
    assert {row[-1] for row in failed} == {"faded"}
    assert len(failed) > 5
    assert all(round_.deliveries for round_ in played)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 2, 7])
def test_water_filling_has_the_largest_sum_of_rates(seed, size):
    """Compare with a general optimiser, and with the level: all power densities are equal."""
    rng = np.random.default_rng(seed)
    request = BandRequest(rng.uniform(-10.0, 20.0, size), np.full(size, BITS))
    shares = fill_water(request)
    assert shares.sum() == pytest.approx(1.0)
    assert request.snr / shares == pytest.approx(np.full(size, request.snr.sum()))

    def negative_rate(values):
        return -capacity(request.snr, np.abs(values) + 1e-12).sum() / BANDWIDTH_HZ

    start = np.full(size, 1.0 / size)
    sums_to_one = {"type": "eq", "fun": lambda values: np.abs(values).sum() - 1.0}
    best = minimize(negative_rate, start, method="SLSQP", constraints=[sums_to_one], options={"ftol": 1e-12})
    assert -negative_rate(shares) >= -best.fun - 1e-6
    assert -negative_rate(shares) == pytest.approx(np.log2(1.0 + request.snr.sum()))


@pytest.mark.parametrize(("low_db", "high_db"), [(-90.0, -60.0), (-40.0, 60.0), (100.0, 300.0)])
def test_shares_by_need_are_exact_for_weak_and_strong_signals(low_db, high_db):
    rng = np.random.default_rng(5)
    request = BandRequest(rng.uniform(low_db, high_db, 30), rng.uniform(1.0, 3.0, 30))
    shares = finish_together(request)
    times = request.bits / (shares * np.log1p(request.snr / shares))
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() > 0.0
    assert times == pytest.approx(np.full(30, times.mean()), rel=1e-5)


@pytest.mark.parametrize("divide", [fill_water, finish_together])
def test_one_user_has_exactly_the_whole_band(divide):
    assert divide(BandRequest(np.array([-np.inf]), np.ones(1))).tolist() == [1.0]


ONE_USER = {
    "plain": {},
    "fading": {"channel": FADING},
    "outage": {"outages": [{"kind": "renewal", "nodes": "users", "up": {"distribution": "exponential", "mean": "10 s"},
                            "down": {"distribution": "exponential", "mean": "5 s"}}]},
    "modes": {"channel": FADING, "reception": {"kind": "mcs", "standard": "lte"}},
    "downlink": {"channel": FADING, "downlink": {"mode": "multicast"}, "broadcast_rate": None},
    "packets": {"transport": {"grain": "packet", "mtu": "100 B", "arq": {"timeout": "1 s"}}, "channel": FADING},
    "traffic": {"traffic": {"kind": "poisson", "rate": 1, "size": {"mean": "1 kbit"}}},
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_USER)
@pytest.mark.parametrize("reception", ["shannon", {"kind": "snr_threshold", "threshold": "0 dB", "rate": "100 kbps"}])
@pytest.mark.parametrize(
    "mac", [{}, {"among": "backlog"}, {"division": "need"}, {"division": "water_filling"},
            {"division": "given", "shares": [1]}], ids=str
)  # fmt: skip
def test_one_user_equals_round_robin_to_the_bit(case, reception, mac):
    parts = {
        "radio": {"power": "0 dBm", "bandwidth": BANDWIDTH_HZ}, "reception": reception, "channel": FADING[:1],
        "topology": {"kind": "star", "distance": "400 m"}, "unreachable": "keep", "update_size": 3e3,
        "round": {"kind": "first", "m": 1, "deadline": "20 s"},
    }  # fmt: skip
    tables = []
    for spec in ({"kind": "round_robin"}, {"kind": "fdma"} | mac):
        played, log = play(1, 8, **(copy.deepcopy(parts) | ONE_USER[case] | {"mac": spec}))
        tables.append((played, log.rows))
    assert len(tables[0][1]) > 8
    assert tables[1] == tables[0]


def scenario_of(users=3, **changes):
    """Return a scenario of a cell of FDMA; *changes* are keys of ``access``, ``None`` to leave one out."""
    access = copy.deepcopy(SECTION) | {"mac": {"kind": "fdma"}, "update_size": "1 kB"}
    access["compute"] = {"speed": 100, "samples": 1}
    access |= changes
    access = {key: value for key, value in access.items() if value is not None}
    return {"name": "band", "users": users, "rounds": 2, "access": access}


def given(*shares):
    """Return a division by the user."""
    return {"kind": "fdma", "division": "given", "shares": [*shares]}


TWO_CELLS = {
    "topology": {"kind": "tree", "fanout": [2], "towers": [[0, 0], [9, 9]],
                 "placement": {"kind": "listed", "positions": [[0, 1], [1, 0], [9, 8]]}},
    "unreachable": "keep",
}  # fmt: skip
SLOTS = {"kind": "slotted_aloha", "probability": 0.2}
BAD = {
    "shares above the band": (
        {"mac": given(0.5, 0.4, 0.2)}, "access.mac.shares", "tower:0 add up to more", "at most 1"),
    "shares of a cell above the band": (
        TWO_CELLS | {"mac": given(0.6, 0.6, 0.2)}, "access.mac.shares", "tower:0 add up to more", "at most 1"),
    "shares that miss users": ({"mac": given(0.5, 0.4)}, "access.mac.shares", "2 shares for 3 users", "one for each"),
    "no shares": ({"mac": {"kind": "fdma", "division": "given"}}, "access.mac.shares", "missing", "give it"),
    "shares without effect": (
        {"mac": {"kind": "fdma", "shares": [0.1, 0.2, 0.3]}}, "access.mac.shares", "no effect", "division: given"),
    "a share of nothing": ({"mac": given(0.5, 0.0, 0.2)}, "access.mac.shares.1", "greater than 0", ""),
    "need among users": (
        {"mac": {"kind": "fdma", "division": "need", "among": "users"}}, "access.mac", "no meaning", "leave among out"),
    "given among backlog": ({"mac": given(0.1, 0.1, 0.1) | {"among": "backlog"}}, "access.mac", "no meaning", "leave"),
    "no bandwidth for a rate": (
        {"radio": None, "channel": None, "reception": "shannon"}, "access.radio", "missing", "give radio"),
    "slots without an airtime": (
        {"reception": "shannon", "mac": SLOTS}, "access.reception.rate", "no longest airtime", "fdma or round_robin"),
    "a MAC with a rate": (
        {"reception": "shannon", "mac": "csma_ca"}, "access.mac", "the reception follow the SNR", "another MAC"),
    "a row without a rate": (
        {"reception": {"kind": "mcs", "table": [{"kind": "shannon"}]}}, "access.reception", "no rate", "take shannon"),
    "load without a rate": (
        {"reception": "shannon", "traffic": {"kind": "poisson", "load": 0.1, "size": {"mean": "1 kbit"}}},
        "access.traffic.0.load", "follow the SNR", "packets per second"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_located_error(case):
    changes, key, problem, remedy = BAD[case]
    with pytest.raises(ScenarioError) as caught:
        outcomes(validate(ScenarioDocument(scenario_of(**changes), "band.yaml")))
    assert_one_fault(caught.value, key, problem, remedy)


def test_shares_of_two_cells_add_up_in_each():
    rows, _ = outcomes(validate(ScenarioDocument(scenario_of(**TWO_CELLS, mac=given(0.5, 0.5, 1.0)), "cells")))
    assert len(rows) == 2


def test_bounds_of_shares_are_those_of_each_division():
    class TwoCells:
        users, towers, tower_at_start = 3, ("a", "b"), np.array([0, 0, 1])

    def bounds(**keys):
        shares = Fdma(**keys).share_bounds(TwoCells, np.ones(3))
        return shares.smallest.tolist(), shares.largest.tolist()

    assert bounds(among="users") == ([0.5, 0.5, 1.0], [0.5, 0.5, 1.0])
    assert bounds() == ([0.5, 0.5, 1.0], [1.0, 1.0, 1.0])
    assert bounds(division="need") == ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    assert bounds(division="given", shares=(0.1, 0.2, 0.3)) == ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])


class Sharing(Mac):
    """A MAC from outside that gives each user of the backlog the same fraction of the band."""

    share: float = 0.5
    """The fraction."""

    def serve(self, cell):
        while True:
            yield cell.wait_for_backlog()
            cell.attempt(cell.backlog(), share=self.share)

    def laws(self):
        return (Law.none("nothing is drawn"),)


@pytest.mark.parametrize(("share", "problem"), [(0.4, None), (0.6, "more than the band"), (-0.1, "not positive")])
def test_shares_of_a_mac_from_outside_are_checked(share, problem):
    access, context, _ = make(2, 2, unreachable="keep")
    access = access.model_copy(update={"mac": Sharing(share=share)})
    if problem is None:
        assert len([*access.rounds(context)]) == 2
        return
    with pytest.raises(ScenarioError, match=problem):
        list(access.rounds(context))


def test_longest_airtime_is_an_error_for_a_mac_from_outside_where_rates_follow_the_snr():
    class Slots(Sharing):
        """A MAC that takes the longest airtime as its slot."""

        def serve(self, cell):
            yield cell.env.timeout(cell.airtime_s)

    access, context, _ = make(2, 2, reception="shannon")
    access = access.model_copy(update={"mac": Slots()})
    with pytest.raises(ScenarioError, match=r"reception\.rate: missing.*no longest airtime"):
        list(access.rounds(context))
