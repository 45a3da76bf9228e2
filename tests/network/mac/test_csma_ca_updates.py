"""Updates over Wi-Fi: larger ones than an MSDU are sent in several frames, as fast as saturated stations send."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.network.mac.csma_ca import CsmaCa
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

REFERENCE = runpy.run_path(str(Path(__file__).parents[2] / "support/dcf_reference.py"))
FULL_BITS = 8.0 * 2296
"""An MSDU of 2304 bytes, less 8 of LLC and SNAP headers."""
PLAIN = {
    "topology": {"kind": "star", "distance": "10 m"},
    "mac": {"kind": "csma_ca"},
    "compute": {"speed": 1e9, "samples": 1},
    "broadcast_rate": "1 Gbps",
    "round": {"kind": "first", "m": 10},
}


def play(size, users=10, seed=1, **said):
    """The one round of a network whose users all send an update at once, and what was recorded."""
    access = NetworkAccess.model_validate(PLAIN | {"update_size": size} | said)
    assert not [*nested_faults(access, "", ScenarioFacts(users, 1))]
    memory, streams = Memory(), Streams(seed).at("access", 0)
    (told,) = access.rounds(AccessContext(users, 1, 0, streams, np.ones(users), 1.0, 1.0, memory))
    return told, memory


def frames_of(memory):
    """The sizes of the frames of each user, in the order in which they were received."""
    sizes = {}
    for kind, _, _, user, _, value, _ in memory.rows:
        if kind == "sent":
            sizes.setdefault(user, []).append(value)
        elif kind == "failed":
            sizes[user].pop()
    return sizes


@pytest.mark.parametrize("standard", ["802.11a", "802.11b", "802.11g"])
def test_an_update_that_no_msdu_holds_is_sent_in_several_frames(standard):
    _, memory = play("5 kB", 2, mac={"kind": "csma_ca", "standard": standard}, round={"kind": "first", "m": 2})
    last_bits = 8.0 * (5000 - 2 * 2296)
    assert frames_of(memory) == {user: [FULL_BITS, FULL_BITS, last_bits] for user in range(2)}
    assert memory.told["packets_sent"] == 6


def test_an_update_that_an_msdu_holds_is_one_frame():
    round_ = {"kind": "first", "m": 2}
    _, memory = play("2296 B", 2, round=round_)
    assert frames_of(memory) == {0: [FULL_BITS], 1: [FULL_BITS]}
    assert "packets_sent" not in memory.told
    _, memory = play("2296 B", 2, round=round_, transport={"header": "40 B"})
    assert frames_of(memory) == {user: [FULL_BITS, 8.0 * 80] for user in range(2)}, "no room for 40 B of headers"
    _, memory = play("4592 B", 2, round=round_, transport={"compression": 2})
    assert frames_of(memory) == {0: [FULL_BITS], 1: [FULL_BITS]}


def test_an_explicit_transport_decides():
    round_ = {"kind": "first", "m": 2}
    _, memory = play("5 kB", 2, round=round_, transport={"grain": "message"})
    assert frames_of(memory) == {0: [40_000.0], 1: [40_000.0]}
    _, memory = play("5 kB", 2, round=round_, transport={"grain": "packet"})
    assert frames_of(memory) == {user: [12_000.0] * 3 + [4_000.0] for user in range(2)}


@pytest.mark.parametrize(
    ("transport", "key"),
    [
        ({"grain": "packet", "mtu": "2297 B"}, "transport.mtu"),
        ({"header": "2296 B"}, "transport.header"),
        ({"grain": "packet", "mtu": "2296 B"}, None),
        ({"grain": "message", "header": "2296 B"}, None),
    ],
)
def test_packets_that_no_frame_holds_are_refused(transport, key):
    access = NetworkAccess.model_validate(PLAIN | {"update_size": "5 kB", "transport": transport})
    found = [*nested_faults(access, "", ScenarioFacts(10, 1))]
    assert [fault.key for fault in found] == ([key] if key else [])
    if key:
        assert "2296 B" in found[0].problem
    assert CsmaCa().max_payload_bits == FULL_BITS


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"mac": {"kind": "csma_ca", "max_attempts": 4}}, True),
        ({"mac": {"kind": "csma_ca", "max_attempts": 4}, "update_size": "2 kB"}, False),
        ({"mac": {"kind": "csma_ca"}}, False),
        (
            {"mac": {"kind": "csma_ca", "max_attempts": 4}, "transport": {"grain": "packet", "arq": {"timeout": 1}}},
            False,
        ),
    ],
)
def test_frames_each_of_which_can_end_an_update_are_told(said, told):
    access = NetworkAccess.model_validate(PLAIN | {"update_size": "5 kB"} | said)
    setting = AccessContext(2, 1, 0, Streams(1).at("access", 0), np.ones(2), 1.0, 1.0, Memory())
    warnings = [*access.warnings(setting)]
    assert ["an update is sent in 3 frames" in warning for warning in warnings] == [True] * told


def test_with_few_attempts_an_update_ends_with_its_first_frame_that_is_given_up_unless_it_is_repeated():
    """500 kB are 218 frames; ten contenders give up one in 100 after four attempts."""
    mac = {"kind": "csma_ca", "max_attempts": 4}
    _, memory = play("500 kB", mac=mac)
    assert sum(row[0] == "given_up" for row in memory.rows) > 3
    arq = {"grain": "packet", "mtu": "2296 B", "arq": {"timeout": "100 ms"}}
    told, memory = play("500 kB", mac=mac, transport=arq)
    assert len(told.deliveries) == 10
    assert memory.told["packets_retransmitted"] > 3


def bianchi_bps(stations, setup):
    """Bianchi's fixed point for basic access (IEEE J-SAC 18(3), 2000)."""
    window, stages = setup.least + 1, round(np.log2((setup.most + 1) / (setup.least + 1)))
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2.0
        tau = 2.0 / (window + 1.0 + p * window * sum((2.0 * p) ** stage for stage in range(stages)))
        low, high = (p, high) if 1.0 - (1.0 - tau) ** (stations - 1) > p else (low, p)
    idle, good = (1.0 - tau) ** stations, stations * tau * (1.0 - tau) ** (stations - 1)
    success_us = setup.data + setup.sifs + setup.ack + setup.difs
    mean_us = idle * setup.slot + good * success_us + (1.0 - idle - good) * (setup.data + setup.difs)
    return good * setup.payload_bits / mean_us * 1e6


@pytest.mark.slow
def test_five_megabytes_from_ten_contenders_go_as_fast_as_saturated_stations_send():
    """Until the first has sent its 2178 frames all contend: within 1 % of the reference, 3 % of Bianchi's model."""
    told, memory = play("5 MB", round={"kind": "first", "m": 1})
    first_s = told.deliveries[0].arrived_s
    begun_s = min(row[1] for row in memory.rows if row[0] == "sent")
    received = sum((row[0] == "sent") - (row[0] == "failed") for row in memory.rows if row[1] <= first_s)
    goodput_bps = received * FULL_BITS / (first_s - begun_s)
    reference_bps, *_ = REFERENCE["simulate"]("802.11a", 10, 200.0, 7, setups=REFERENCE["FULL"])
    assert goodput_bps == pytest.approx(reference_bps, rel=0.01)
    assert goodput_bps == pytest.approx(bianchi_bps(10, REFERENCE["FULL"]["802.11a"]), rel=0.03)


@pytest.mark.slow
def test_ten_updates_of_five_megabytes_are_delivered_whole():
    """50 MB at the goodput of between one and ten stations."""
    told, memory = play("5 MB")
    assert len(told.deliveries) == 10
    assert memory.told["packets_sent"] == 10 * 2178
    setup = REFERENCE["FULL"]["802.11a"]
    least_s, most_s = (10 * 4e7 / bianchi_bps(stations, setup) for stations in (1, 10))
    assert least_s < max(one.arrived_s for one in told.deliveries) < 1.01 * most_s
