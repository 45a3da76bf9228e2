"""Updates over Wi-Fi: updates above the maximum MSDU are sent in several frames, at the rate of saturated stations."""

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
"""Payload of an MSDU of 2304 bytes without 8 bytes of LLC and SNAP headers."""
PLAIN = {
    "topology": {"kind": "star", "distance": "10 m"},
    "mac": {"kind": "csma_ca"},
    "compute": {"speed": 1e9, "samples": 1},
    "broadcast_rate": "1 Gbps",
    "round": {"kind": "first", "m": 10},
}


def run_round(size, users=10, seed=1, **overrides):
    """Return the round of a network whose users all send an update at once, and the recorder."""
    access = NetworkAccess.model_validate(PLAIN | {"update_size": size} | overrides)
    assert not [*nested_faults(access, "", ScenarioFacts(users, 1))]
    recorder, streams = Memory(), Streams(seed).at("access", 0)
    (result,) = access.rounds(AccessContext(users, 1, 0, streams, np.ones(users), 1.0, 1.0, recorder))
    return result, recorder


def received_frame_sizes(recorder):
    """Return the sizes of the received frames of each user, in order."""
    sizes = {}
    for kind, _, _, user, _, value, _ in recorder.rows:
        if kind == "sent":
            sizes.setdefault(user, []).append(value)
        elif kind == "failed":
            sizes[user].pop()
    return sizes


@pytest.mark.parametrize("standard", ["802.11a", "802.11b", "802.11g"])
def test_update_above_msdu_is_split_into_frames(standard):
    _, recorder = run_round("5 kB", 2, mac={"kind": "csma_ca", "standard": standard}, round={"kind": "first", "m": 2})
    last_bits = 8.0 * (5000 - 2 * 2296)
    assert received_frame_sizes(recorder) == {user: [FULL_BITS, FULL_BITS, last_bits] for user in range(2)}
    assert recorder.final_values["packets_sent"] == 6


def test_update_below_msdu_is_one_frame():
    round_settings = {"kind": "first", "m": 2}
    _, recorder = run_round("2296 B", 2, round=round_settings)
    assert received_frame_sizes(recorder) == {0: [FULL_BITS], 1: [FULL_BITS]}
    assert "packets_sent" not in recorder.final_values
    _, recorder = run_round("2296 B", 2, round=round_settings, transport={"header": "40 B"})
    assert received_frame_sizes(recorder) == {user: [FULL_BITS, 8.0 * 80] for user in range(2)}, (
        "no room for 40 B of headers"
    )
    _, recorder = run_round("4592 B", 2, round=round_settings, transport={"assumed_compression": 2})
    assert received_frame_sizes(recorder) == {0: [FULL_BITS], 1: [FULL_BITS]}


def test_explicit_transport_takes_precedence():
    round_settings = {"kind": "first", "m": 2}
    _, recorder = run_round("5 kB", 2, round=round_settings, transport={"grain": "message"})
    assert received_frame_sizes(recorder) == {0: [40_000.0], 1: [40_000.0]}
    _, recorder = run_round("5 kB", 2, round=round_settings, transport={"grain": "packet"})
    assert received_frame_sizes(recorder) == {user: [12_000.0] * 3 + [4_000.0] for user in range(2)}


@pytest.mark.parametrize(
    ("transport", "key"),
    [
        ({"grain": "packet", "mtu": "2297 B"}, "transport.mtu"),
        ({"header": "2296 B"}, "transport.header"),
        ({"grain": "packet", "mtu": "2296 B"}, None),
        ({"grain": "message", "header": "2296 B"}, None),
    ],
)
def test_packets_above_frame_size_are_rejected(transport, key):
    access = NetworkAccess.model_validate(PLAIN | {"update_size": "5 kB", "transport": transport})
    problems = [*nested_faults(access, "", ScenarioFacts(10, 1))]
    assert [fault.key for fault in problems] == ([key] if key else [])
    if key:
        assert "2296 B" in problems[0].problem
    assert CsmaCa().max_payload_bits == FULL_BITS


@pytest.mark.parametrize(
    ("overrides", "is_expected"),
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
def test_warning_for_updates_that_need_all_frames(overrides, is_expected):
    access = NetworkAccess.model_validate(PLAIN | {"update_size": "5 kB"} | overrides)
    setting = AccessContext(2, 1, 0, Streams(1).at("access", 0), np.ones(2), 1.0, 1.0, Memory())
    warnings = [*access.warnings(setting)]
    assert ["an update is sent in 3 frames" in warning for warning in warnings] == [True] * is_expected


def test_arq_saves_updates_whose_frames_are_given_up():
    """500 kB take 218 frames; ten stations give up one frame in 100 after four attempts."""
    mac = {"kind": "csma_ca", "max_attempts": 4}
    _, recorder = run_round("500 kB", mac=mac)
    assert sum(row[0] == "given_up" for row in recorder.rows) > 3
    arq = {"grain": "packet", "mtu": "2296 B", "arq": {"timeout": "100 ms"}}
    result, recorder = run_round("500 kB", mac=mac, transport=arq)
    assert len(result.deliveries) == 10
    assert recorder.final_values["packets_retransmitted"] > 3


def bianchi_bps(stations, setup):
    """Return the saturation throughput of Bianchi's fixed point for basic access (IEEE J-SAC 18(3), 2000)."""
    window, stages = setup.least + 1, round(np.log2((setup.most + 1) / (setup.least + 1)))
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2.0
        tau = 2.0 / (window + 1.0 + p * window * sum((2.0 * p) ** stage for stage in range(stages)))
        low, high = (p, high) if 1.0 - (1.0 - tau) ** (stations - 1) > p else (low, p)
    idle, success_probability = (1.0 - tau) ** stations, stations * tau * (1.0 - tau) ** (stations - 1)
    success_us = setup.data + setup.sifs + setup.ack + setup.difs
    mean_us = (
        idle * setup.slot
        + success_probability * success_us
        + (1.0 - idle - success_probability) * (setup.data + setup.difs)
    )
    return success_probability * setup.payload_bits / mean_us * 1e6


@pytest.mark.slow
def test_large_updates_reach_saturation_throughput():
    """All stations contend for 2178 frames: within 1 % of the reference and 3 % of Bianchi's model."""
    result, recorder = run_round("5 MB", round={"kind": "first", "m": 1})
    first_s = result.deliveries[0].arrived_s
    start_s = min(row[1] for row in recorder.rows if row[0] == "sent")
    received = sum((row[0] == "sent") - (row[0] == "failed") for row in recorder.rows if row[1] <= first_s)
    goodput_bps = received * FULL_BITS / (first_s - start_s)
    reference_bps, *_ = REFERENCE["simulate"]("802.11a", 10, 200.0, 7, setups=REFERENCE["FULL"])
    assert goodput_bps == pytest.approx(reference_bps, rel=0.01)
    assert goodput_bps == pytest.approx(bianchi_bps(10, REFERENCE["FULL"]["802.11a"]), rel=0.03)


@pytest.mark.slow
def test_all_large_updates_are_delivered():
    """The time for 50 MB lies between those at the goodput of one and of ten stations."""
    result, recorder = run_round("5 MB")
    assert len(result.deliveries) == 10
    assert recorder.final_values["packets_sent"] == 10 * 2178
    setup = REFERENCE["FULL"]["802.11a"]
    min_s, max_s = (10 * 4e7 / bianchi_bps(stations, setup) for stations in (1, 10))
    assert min_s < max(delivery.arrived_s for delivery in result.deliveries) < 1.01 * max_s
