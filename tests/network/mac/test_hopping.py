"""Orders of channels: what users send, when they wait for a sub-band, and what moves with a device."""

import re
from itertools import pairwise

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.network.mac.lorawan import Lorawan, time_on_air_s

LORAWAN = {"kind": "lorawan", "spreading_factor": 7, "sub_bands": [{"channels": 3}, {"channels": 2}]}
ALOHA = {"kind": "multichannel_aloha", "channels": 5, "probability": 0.4}
NETWORK = {
    "kind": "network",
    "topology": {"kind": "star", "distance": "10 m", "rate": "1 Mbps", "delay": 0},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "constant", "gain": "-100 dB"}],
    "reception": {"kind": "lora"},
    "compute": {"speed": 1, "samples": 1, "jitter": 0.5},
    "broadcast_rate": "1 Mbps",
    "update_size": "20 B",
    "round": {"kind": "first", "m": 4},
}


def channels_of(tmp_path, mac, name="run", **changes):
    """Return the channels of all attempts of each user, in the order of their starts, and the attempts."""
    data = {"name": "hops", "users": 6, "rounds": 40, "record": {"events": "none", "attempts": True}}
    run = netfl.trace(netfl.load(data | {"access": NETWORK | {"mac": mac} | changes}), tmp_path / name, progress=False)
    attempts = run.attempts.sort_values("start_s", kind="stable")
    codes = 6 if mac["kind"] == "lorawan" else 1
    attempts["channel"] //= codes
    return {user: rows["channel"].tolist() for user, rows in attempts.groupby("user")}, attempts


@pytest.mark.parametrize(
    "mac", [LORAWAN, ALOHA, {"kind": "multichannel_aloha", "channels": 5, "adaptive": "backoff"}], ids=str
)
def test_each_channel_comes_again_after_exactly_all(tmp_path, mac):
    """With C = 5 channels, any five frames in a row have five channels, repeats included; users have other orders."""
    channels, attempts = channels_of(tmp_path, mac | {"hopping": "permutation"})
    assert (attempts["outcome"] == "collided").any(), "no repeats"
    for sequence in channels.values():
        assert len(sequence) > 20
        assert sorted(sequence[:5]) == [0, 1, 2, 3, 4]
        assert sequence[5:] == sequence[:-5]
    assert len({tuple(sequence[:5]) for sequence in channels.values()}) > 3


@pytest.mark.parametrize("mac", [LORAWAN, ALOHA], ids=str)
def test_given_order_is_that_of_all_users(tmp_path, mac):
    order = [4, 0, 4, 1]
    channels, _ = channels_of(tmp_path, mac | {"hopping": order})
    for sequence in channels.values():
        assert sequence == (order * len(sequence))[: len(sequence)]


def test_random_channels_are_those_of_before(tmp_path):
    """Without the key, and with `random`, the same channels are drawn; some come again at once."""
    mac = LORAWAN | {"sub_bands": [{"channels": 5}]}
    default, _ = channels_of(tmp_path, mac, "default")
    stated, _ = channels_of(tmp_path, mac | {"hopping": "random"}, "stated")
    assert default == stated
    assert any(one == two for sequence in default.values() for one, two in pairwise(sequence))


def test_device_waits_for_the_sub_band_of_its_next_channel(tmp_path):
    """Three channels in a row of one sub-band of 1 % begin 100 airtimes apart each; other sub-bands stay open."""
    airtime_s = float(time_on_air_s(20 + 13, 0, 125e3))
    mac = LORAWAN | {"hopping": [0, 1, 2, 3], "max_attempts": 1}
    _, attempts = channels_of(
        tmp_path,
        mac,
        compute={"speed": 1e6, "samples": 1},
        round={"kind": "first", "m": 1},
        topology=NETWORK["topology"],
    )
    rows = attempts[attempts["user"] == 0]
    pairs = zip(rows["channel"], rows["start_s"], rows["channel"].shift(-1), rows["start_s"].shift(-1), strict=True)
    waits_s = {(one, two): [] for one, two in ((0, 1), (1, 2), (2, 3), (3, 0))}
    for channel, start_s, next_channel, next_s in pairs:
        if not np.isnan(next_s):
            waits_s[channel, int(next_channel)].append(next_s - start_s)
    for pair in ((0, 1), (1, 2)):
        assert min(waits_s[pair]) == pytest.approx(100 * airtime_s), "the duty cycle"
    assert max(waits_s[2, 3]) < 100 * airtime_s, "another sub-band"


def test_order_moves_with_a_device(tmp_path):
    """Users that walk between two towers keep their orders and their places in them."""
    topology = {"kind": "tree", "fanout": [2], "ring": "50 m", "radius": "10 m", "rate": "1 Mbps", "delay": 0}
    changes = {
        "topology": topology,
        "motion": {"kind": "random_waypoint", "radius": "100 m", "speed": [20, 30]},
        "association": {"kind": "nearest_now", "moves": "any_time", "every": "250 ms"},
    }
    for mac in (LORAWAN, {"kind": "multichannel_aloha", "channels": 5, "adaptive": "backoff"}):
        channels, attempts = channels_of(tmp_path, mac | {"hopping": "permutation"}, mac["kind"], **changes)
        assert (attempts.groupby("user")["node"].nunique() == 2).sum() > 3
        for sequence in channels.values():
            assert sequence[5:] == sequence[:-5]


def test_least_time_of_frames():
    """A over the sum of the duty cycles, or over that of the sub-band that an order uses most for its duty cycle."""
    bands = [{"channels": 3, "duty_cycle": 0.01}, {"channels": 5, "duty_cycle": 0.1}]
    snr_db = np.array([10.0])
    airtime_s = float(time_on_air_s(20 + 13, 0, 125e3))
    for hopping, airtimes in (("random", 1 / 0.11), ("permutation", 3 / 8 / 0.01), ([0, 1, 7, 6], 2 / 4 / 0.01)):
        mac = Lorawan(spreading_factor=7, sub_bands=bands, hopping=hopping)
        _, spacing_s = mac.frame_times_s(160.0, snr_db, snr_db)
        assert spacing_s[0] == pytest.approx(max(airtimes * airtime_s, airtime_s + 2.0))


@pytest.mark.parametrize(
    ("mac", "words"),
    [
        (ALOHA | {"hopping": [0, 5]}, "hopping names channel 5, but the 5 channels have the numbers 0 to 4; name one"),
        (LORAWAN | {"hopping": [7]}, "hopping names channel 7, but the 5 channels have the numbers 0 to 4"),
        (ALOHA | {"hopping": "order"}, "access.mac.hopping: unknown value ('order'); known: random, permutation"),
        (ALOHA | {"hopping": []}, "access.mac.hopping: has too few entries"),
        (ALOHA | {"channels": 1, "hopping": "permutation"}, "hopping has no effect on one channel; leave it out"),
    ],
)
def test_errors_name_key_and_remedy(mac, words):
    with pytest.raises(ScenarioError, match=re.escape(words)):
        netfl.load({"name": "a", "users": 3, "rounds": 2, "access": NETWORK | {"mac": mac}})
