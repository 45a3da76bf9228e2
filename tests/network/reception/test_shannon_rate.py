"""The reception ``shannon`` without a rate: senders set their rates by the SNR that they expect."""

import numpy as np
import pytest
from support.small_network import make, play

from netfl.network.build import build_network
from netfl.network.layout import NodeId
from netfl.network.reception import FadedFrames
from netfl.network.reception.shannon import Shannon
from netfl.network.warnings import network_warnings
from netfl.streams import Streams
from netfl.testing.laws import check_laws

BANDWIDTH_HZ, BITS = 1e5, 1e5
DISTANCES_M = np.array([100.0, 400.0, 1000.0])
PARTS = {
    "radio": {"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
    "reception": "shannon",
    "mac": {"kind": "round_robin"},
    "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
    "topology": {"kind": "star", "distances": [*DISTANCES_M], "rate": "1000 Gbps", "delay": 0},
    "update_size": BITS,
    "round": {"kind": "first", "m": 3},
    "unreachable": "keep",
}


def rate_at(distances_m, power_dbm=0.0):
    """Return the capacity of links at these distances, in bit/s, from Friis' loss at 1 m and 30 dB in each decade."""
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(distances_m)
    snr_db = power_dbm - loss_db - (-174.0 + 10.0 * np.log10(BANDWIDTH_HZ))
    return BANDWIDTH_HZ * np.log2(1.0 + 10.0 ** (snr_db / 10.0))


@pytest.mark.parametrize("gap", [0.0, 5.0])
@pytest.mark.parametrize("rate", [None, 2e6])
def test_rates_and_fades_have_the_stated_distribution(rate, gap):
    assert check_laws(Shannon(rate=rate, gap=gap), Streams(2)) == []


@pytest.mark.parametrize("gap_db", [0.0, 3.0, 9.8])
def test_gap_raises_the_minimum_snr(gap_db):
    plain = Shannon(rate=3e5).threshold_db(BANDWIDTH_HZ)
    assert plain == pytest.approx(10 * np.log10(7.0))
    assert Shannon(rate=3e5, gap=gap_db).threshold_db(BANDWIDTH_HZ) == pytest.approx(plain + gap_db)


def test_frame_at_the_expected_rate_is_received_where_the_mean_capacity_suffices():
    model = Shannon(gap=2.0)
    rates_bps = model.expected_rate_bps(np.array([5.0, 5.0, 5.0, -400.0]), BANDWIDTH_HZ)
    assert rates_bps[0] == pytest.approx(BANDWIDTH_HZ * np.log2(1 + 10**0.3))
    assert rates_bps[3] > 0.0
    parts_db = np.array([[5.0, 5.0], [9.0, 2.0], [8.0, 0.0], [-400.0, -400.0]])
    frames = FadedFrames(parts_db, np.array([0.5, 0.5]), BANDWIDTH_HZ, BITS, rate_bps=rates_bps)
    means = np.log2(1 + 10 ** ((parts_db - 2.0) / 10.0)).mean(axis=1) * BANDWIDTH_HZ
    assert model.success_over(frames)[:3].tolist() == [1.0, *(means[1:3] >= rates_bps[1:3])]
    assert (means[1] > rates_bps[1]) != (means[2] > rates_bps[2])


def test_users_are_served_in_turn_at_the_capacity_of_their_links():
    rounds, _ = play(3, 1, **PARTS)
    ends_s = np.array([delivery.arrived_s for delivery in rounds[0].deliveries]) - 1.0
    assert ends_s == pytest.approx(np.cumsum(BITS / rate_at(DISTANCES_M)), rel=1e-5)


@pytest.mark.parametrize("mode", ["multicast", "unicast"])
def test_version_is_sent_at_the_rate_of_its_receivers(mode):
    """A multicast has the rate of the weakest user, a unicast that of each; the tower has 10 dB more power."""
    parts = PARTS | {"downlink": {"mode": mode, "power": "10 dBm"}, "broadcast_rate": None}
    _, log = play(3, 1, **parts)
    received = sorted((row[3], row[1]) for row in log.rows if row[0] == "received")[:3]
    times_s = np.array([time_s for _, time_s in received])
    expected_s = BITS / rate_at(DISTANCES_M, 10.0)
    if mode == "multicast":
        assert times_s == pytest.approx(np.full(3, expected_s.max()), rel=1e-5)
    else:  # in a drawn order
        assert np.diff(np.sort(times_s), prepend=0.0).tolist() == pytest.approx(
            expected_s[np.argsort(times_s)].tolist(), rel=1e-5
        )


def medium_of(**changes):
    access, context, _ = make(3, 1, **(PARTS | changes))
    config = build_network(access, context)
    return config.medium, NodeId("tower:0", config.layout.number("tower:0")), access, context


def test_airtimes_and_chances_for_a_selection_are_those_of_each_user():
    medium, tower, _, _ = medium_of()
    users = np.arange(3)
    modes = medium.choose(users, tower, 0.0)
    assert medium.airtimes_s(users, tower, 0.0, BITS, modes) == pytest.approx(BITS / rate_at(DISTANCES_M), rel=1e-9)
    assert medium.success_probability(users, tower, 0.0, BITS, modes).tolist() == [1.0, 1.0, 1.0]
    fading = [*PARTS["channel"], {"kind": "rayleigh", "coherence": "10 ms"}]
    medium, tower, _, _ = medium_of(channel=fading)
    chances = [medium.success_probability(users, tower, time_s, BITS, modes) for time_s in np.arange(20) / 7.0]
    assert 0.1 < np.mean(chances) < 0.9


@pytest.mark.parametrize(("mac", "share"), [("round_robin", 1.0), ({"kind": "fdma", "among": "users"}, 1 / 3)])
def test_late_updates_are_those_at_the_capacity_of_their_links(mac, share):
    gain = 10 * np.log10(1 / share)
    times_s = 1.0 + BITS / (share * rate_at(DISTANCES_M, gain))
    deadline_s = float(times_s[1:].mean())
    parts = PARTS | {"mac": mac, "round": {"kind": "first", "m": 3, "deadline": deadline_s}}
    access, context, _ = make(3, 1, **parts)
    (warning,) = network_warnings(access, context, 3)
    assert "1 of 3 users deliver no update in time: user 2" in warning
    assert f"needs {times_s[2]:.3g} s" in warning


def test_exempt_users_keep_their_rate_and_are_received():
    channel = [*PARTS["channel"], {"kind": "rayleigh", "coherence": "20 ms"}]
    parts = PARTS | {"channel": channel, "mac": {"kind": "fdma"}, "exempt": {"fading": [2]}}
    _, log = play(3, 6, **parts)
    failed = {row[3] for row in log.rows if row[0] == "failed"}
    assert failed == {0, 1}


def test_interference_adds_to_the_noise_of_the_expected_rate():
    """Under SINR, two frames that overlap are lost, as their rates leave no margin."""
    parts = PARTS | {"mac": {"kind": "pure_aloha", "backoff": "1 min"}, "interference": "sinr"}
    _, log = play(3, 1, **(parts | {"round": {"kind": "first", "m": 3, "deadline": "30 s"}}))
    failed = [row for row in log.rows if row[0] == "failed"]
    assert {row[-1] for row in failed} == {"collided"}
