"""The warning of groups of users that a MAC lets send at once, at rates that the others leave too low."""

import re

import numpy as np
import pytest

from netfl.access.network import NetworkAccess
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

BAND_HZ, BITS = 125e3, 1000.0
NOISE_DBM = -174.0 + 10.0 * np.log10(BAND_HZ)
SNR_DB = np.array([60.0, 11.0, 40.0, 2.0])
"""By near and far, users 0 and 3 are a group, and users 2 and 1."""
SETTINGS = {
    "topology": {"kind": "star", "radius": "100 m", "rate": "1 Gbps", "delay": 0},
    "radio": {"power": (SNR_DB + NOISE_DBM).tolist(), "bandwidth": BAND_HZ},
    "reception": "shannon",
    "interference": "sinr",
    "mac": {"kind": "noma", "poll": "1 ms"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "update_size": BITS,
    "compute": {"speed": 1, "samples": 1},
    "broadcast_rate": "1 Mbps",
    "round": {"kind": "first", "deadline": 600.0},
}


def group_warnings(duration_s=None, **changes):
    settings = {key: value for key, value in (SETTINGS | changes).items() if value is not None}
    access = NetworkAccess.model_validate(settings)
    context = AccessContext(
        4,
        5,
        0,
        Streams(1).at("access", 0),
        np.ones(4),
        BITS,
        BITS,
        NullRecorder(),
        held=np.ones(4),
        duration_s=duration_s,
    )
    return [text for text in access.warnings(context) if "send at once" in text]


def airtime_s(user, others):
    """Return the airtime of *user* at the capacity over the interference of *others*."""
    snr = 10.0 ** (SNR_DB / 10.0)
    return BITS / (BAND_HZ * np.log2(1.0 + snr[user] / (1.0 + snr[others].sum())))


def late_users(text):
    """Return the number of late users, the slowest one, and its airtimes in the group and alone."""
    return re.search(
        r"(\d) of 4 users? .*user (\d) is on the air for ([\d.e+]+) s, alone for ([\d.e+-]+) s", text
    ).groups()


@pytest.mark.parametrize(
    ("mac", "late", "slowest", "others"),
    [
        ({"kind": "noma"}, 2, 3, [0]),
        ({"kind": "noma", "pairing": "adjacent"}, 1, 2, [0]),
        ({"kind": "noma", "group": 4}, 2, 3, [0, 1, 2]),
        ({"kind": "simultaneous"}, 2, 3, [0, 1, 2]),
    ],
)
def test_a_rate_over_the_others_of_the_group_is_too_low(mac, late, slowest, others):
    (text,) = group_warnings(mac=mac)
    count, user, together_s, alone_s = late_users(text)
    assert int(count) == late
    assert int(user) == slowest
    assert float(together_s) == pytest.approx(airtime_s(slowest, others), rel=5e-3)
    assert float(alone_s) == pytest.approx(airtime_s(slowest, []), rel=5e-3)
    assert "rounds close after 600 s" in text


def test_random_groups_are_judged_by_users_that_are_evenly_spaced():
    """By their SNRs the order is 0, 2, 1, 3, so that users 0 and 1 are a group, and users 2 and 3."""
    (text,) = group_warnings(mac={"kind": "noma", "pairing": "random"})
    assert late_users(text)[:2] == ("2", "1")
    assert float(late_users(text)[2]) == pytest.approx(airtime_s(1, [0]), rel=5e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"interference": "sic"},
        {"mac": {"kind": "round_robin", "poll": "1 ms"}},
        {"power_control": {"kind": "inversion", "target": "2 dB"}},
        {"reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "1 Mbps"}, "unreachable": "keep"},
    ],
)
def test_groups_are_no_concern_if_the_rates_suit_them(changes):
    assert group_warnings(**changes) == []


def test_a_group_matters_to_a_deadline_that_its_users_meet_alone():
    """Adjacent users 1 and 3: the weaker one needs 0.05 s in the group and 0.0066 s alone, which is no other order."""
    alike = {
        "mac": {"kind": "noma", "pairing": "adjacent"},
        "radio": SETTINGS["radio"] | {"power": [-100, -101, -102, -103]},
    }
    assert group_warnings(**alike) == []
    (text,) = group_warnings(**alike, round={"kind": "first", "deadline": 0.005}, compute={"speed": 1e6, "samples": 1})
    assert "rounds close after 0.005 s" in text


def test_what_is_not_cancelled_is_interference():
    """A hundredth of the power of user 0 is 40 dB over the noise, and user 3 is at 2 dB."""
    (text,) = group_warnings(interference={"kind": "sic", "residual": 0.01})
    assert late_users(text)[:2] == ("1", "3")
    snr = 10.0 ** (SNR_DB / 10.0)
    together_s = BITS / (BAND_HZ * np.log2(1.0 + snr[3] / (1.0 + 0.01 * snr[0])))
    assert float(late_users(text)[2]) == pytest.approx(together_s, rel=5e-3)
    assert "residual" in text


def test_without_a_deadline_the_frames_alone_are_compared():
    (text,) = group_warnings(round={"kind": "first"})
    assert "rounds close" not in text


def test_a_tower_without_users_has_no_groups():
    nodes = {
        name: {"role": "server" if name == "server" else "tower", "position": [place_m, 0]}
        for name, place_m in (("server", 0), ("near", 0), ("empty", 9000))
    }
    links = [{"between": [name, "server"], "rate": "1 Gbps"} for name in ("near", "empty")]
    placement = {"kind": "listed", "positions": [[0, 5]] * 4}
    topology = {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}
    for mac in ("noma", "simultaneous"):
        (text,) = group_warnings(topology=topology, mac={"kind": mac})
        assert late_users(text)[:2] == ("2", "3")


def test_users_that_withhold_their_frames_are_in_no_group():
    """Users 1 and 3 are below the threshold, so that users 0 and 2 are a group of equal power."""
    control = {"kind": "truncated_inversion", "target": "2 dB", "threshold": "20 dB"}
    assert group_warnings(power_control=control) == []


def test_traffic_without_rounds_is_warned_of():
    changes = {"round": None, "compute": None, "update_size": None, "broadcast_rate": None}
    traffic = {"kind": "saturated", "size": {"distribution": "fixed", "mean": BITS}, "destination": "tower"}
    (text,) = group_warnings(duration_s=60.0, **changes, traffic=traffic)
    assert late_users(text)[:2] == ("2", "3")
    assert "rounds close" not in text
