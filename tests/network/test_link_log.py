"""Links of deliveries, compared with the table of attempts."""

from dataclasses import replace

import numpy as np
import pytest
from support.small_network import make

RAYLEIGH = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "3 s"}]
SNR_ONLY = {"radio": {"power": "14 dBm", "bandwidth": "125 kHz"}, "channel": RAYLEIGH}
WAIT = {"kind": "first", "m": 3, "deadline": "60 s"}
ENERGY = {"transmit": "2 W", "per_training": "5 J"}
ARQ = {"grain": "packet", "mtu": "30 bytes", "arq": {"timeout": "0.5 s", "retries": 5}}
TREE = {"kind": "tree", "fanout": [1, 2], "ring": "300 m", "radius": "500 m", "rate": "400 bps", "delay": "0.2137 s"}
SLOW_ARQ = {"grain": "packet", "mtu": "30 bytes", "arq": {"timeout": "3 s", "retries": 8}}
"""Packets that wait behind others for longer than the timeout are repeated, though none is lost."""
CASES = {
    "slotted_aloha": {"mac": {"kind": "slotted_aloha", "probability": 0.4}},
    "pure_aloha": {"mac": {"kind": "pure_aloha", "backoff": "5 s"}},
    "lorawan": {
        "mac": {"kind": "lorawan"},
        "reception": {"kind": "lora"},
        "update_size": "100 bytes",
        "round": {"kind": "first", "m": 2, "deadline": "1 h"},
    },
    "fdma": {"mac": {"kind": "fdma"}},
    "rates that follow the SNR": {"mac": {"kind": "fdma"}, "reception": {"kind": "shannon"}},
    "repeats": {"mac": {"kind": "round_robin"}, "transport": ARQ},
    "erased parts": {
        "mac": {"kind": "round_robin", "max_attempts": 1},
        "transport": {"grain": "packet", "mtu": "30 bytes", "loss": "erase"},
    },
    "asynchronous": {
        "mac": {"kind": "slotted_aloha", "probability": 0.4},
        "round": "asynchronous",
        "on_new_version": "ignore",
    },
    "finish": {"mac": {"kind": "slotted_aloha", "probability": 0.4}, "on_new_version": "finish"},
    "traffic": {
        "mac": {"kind": "round_robin"},
        "traffic": {"kind": "poisson", "source": "users", "rate": 0.3, "size": {"mean": "20 bytes"}},
    },
    "relays": {
        "mac": {"kind": "slotted_aloha", "probability": 0.4},
        "topology": TREE,
        "queue": {"kind": "relay", "weights": [3, 1, 1, 1], "flow_capacity": 1},
    },
    "relays that supersede packets": {
        "mac": {"kind": "round_robin"},
        "topology": TREE,
        "queue": {"kind": "relay", "policy": "round_robin", "flow_capacity": 1},
        "transport": SLOW_ARQ,
    },
    "copies that come after a call": {
        "mac": {"kind": "round_robin"},
        "topology": TREE,
        "queue": {"kind": "relay", "policy": "round_robin"},
        "transport": SLOW_ARQ,
        "on_new_version": "finish",
        "round": {"kind": "first", "m": 2, "deadline": "120 s"},
        "selection": {"kind": "uniform", "m": 4, "observe": {"check_in": {"airtime": "5 s"}}},
    },
    "exempt users": {
        "mac": {"kind": "slotted_aloha", "probability": 0.4},
        "exempt": {"contention": [1], "airtime": [2]},
    },
}


def links_of(users=4, rounds=8, **overrides):
    """Run the network with links; return its rounds and the columns of all attempts."""
    access, context, log = make(users, rounds, **overrides)
    played = [*access.rounds(replace(context, reports_links=True))]
    attempts = {name: np.concatenate([part[name] for part in log.attempts]) for name in log.attempts[0]}
    return played, attempts


@pytest.mark.parametrize("name", CASES)
def test_links_are_those_of_the_attempts(name):
    """Airtime and energy are sums over the attempts of an update, the rest is that of its last received frame."""
    settings = SNR_ONLY | {"round": WAIT, "energy": ENERGY} | CASES[name]
    rounds, attempts = links_of(**settings)
    deliveries = [delivery for each in rounds for delivery in each.deliveries]
    assert len(deliveries) > 5
    for delivery in deliveries:
        is_own = (attempts["user"] == delivery.user) & (attempts["base"] == delivery.base)
        is_own &= (attempts["start_s"] >= delivery.sent_s) & (attempts["start_s"] < delivery.arrived_s)
        assert is_own.sum() == delivery.attempts
        airtime_s = attempts["airtime_s"][is_own].sum()
        assert delivery.link.airtime_s == pytest.approx(airtime_s, rel=1e-12)
        assert delivery.link.energy_j == pytest.approx(2.0 * airtime_s, rel=1e-12)
        is_received = is_own & (attempts["outcome"] == "received") & (attempts["end_s"] <= delivery.arrived_s)
        last = np.flatnonzero(is_received)[-1]
        assert delivery.link.snr_db == attempts["snr_db"][last]
        assert delivery.link.mode == attempts["mode"][last]


@pytest.mark.parametrize("name", CASES)
def test_rounds_are_the_same_without_links(name):
    settings = SNR_ONLY | {"round": WAIT, "energy": ENERGY} | CASES[name]
    rounds, _ = links_of(**settings)
    access, context, _ = make(4, 8, **settings)
    silent = [*access.rounds(context)]
    without_links = [
        replace(each, deliveries=tuple(replace(delivery, link=None) for delivery in each.deliveries)) for each in rounds
    ]
    assert silent == without_links


@pytest.mark.parametrize("mac", ["tdma", "fdma"])
def test_the_gain_is_that_of_channel_and_antennas(mac):
    """Whatever power, band, share of it and noise figure the user has."""
    radio = {"power": [20.0, 14.0, 17.0], "bandwidth": "125 kHz", "noise_figure": "6 dB", "antenna_gain": "2 dB"}
    rounds, _ = links_of(
        3, 4, mac={"kind": mac}, radio=radio, channel=[{"kind": "constant", "gain": "-95 dB"}], round=WAIT
    )
    for delivery in (delivery for each in rounds for delivery in each.deliveries):
        share_db = 10.0 * np.log10(3.0) if mac == "fdma" else 0.0
        noise_dbm = -174.0 + 10.0 * np.log10(125e3) + 6.0
        assert delivery.link.gain_db == pytest.approx(-93.0, abs=1e-9)
        expected_db = radio["power"][delivery.user] - 93.0 - noise_dbm
        if mac == "tdma":
            assert delivery.link.snr_db == pytest.approx(expected_db + share_db, abs=0.1)
        assert np.isnan(delivery.link.energy_j)


def test_interference_from_outside_changes_the_snr_and_not_the_gain():
    """A block with as much interference as it has noise has 3 dB less than one without."""
    noise_dbm = -174.0 + 10.0 * np.log10(125e3 / 2)
    rounds, _ = links_of(
        2,
        12,
        mac={"kind": "fdma", "division": "blocks", "interference": [f"{noise_dbm} dBm", "-300 dBm"]},
        allocation={"kind": "block_assignment", "method": "random", "weights": "equal", "redraw": True},
        reception={"kind": "waterfall", "threshold": "0 dB", "fading": "rayleigh"},
        radio={"power": "14 dBm", "bandwidth": "125 kHz"},
        channel=[{"kind": "constant", "gain": "-95 dB"}],
        round={"kind": "available", "deadline": "1 h"},
    )
    links = [delivery.link for each in rounds for delivery in each.deliveries]
    np.testing.assert_allclose([link.gain_db for link in links], -95.0)
    snr_db = 14.0 - 95.0 - noise_dbm
    blocks = {round(snr_db - link.snr_db, 6) for link in links}
    assert blocks == {0.0, round(10.0 * np.log10(2.0), 6)}


def test_a_network_without_a_radio_knows_airtimes_alone():
    mac = {"kind": "csma_ca", "standard": "802.11b"}
    settings = {"mac": mac, "radio": None, "channel": [], "reception": None}
    rounds, attempts = links_of(**settings)
    delivery = rounds[0].deliveries[0]
    is_own = (attempts["user"] == delivery.user) & (attempts["base"] == 0)
    assert delivery.link.airtime_s == pytest.approx(attempts["airtime_s"][is_own].sum())
    assert np.isnan([delivery.link.snr_db, delivery.link.gain_db, delivery.link.energy_j]).all()
    access, _, _ = make(4, 8, **settings)
    assert access.info.link_values == {"airtime_s", "mode"}
