"""The least time of an update, and the warning of updates that no round is long enough for."""

import numpy as np
import pytest

from netfl.access.network import NetworkAccess
from netfl.network.least_time import counts_until_close, least_times
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

SETTINGS = {
    "topology": {"kind": "star", "distances": [100, 100, 4000], "rate": "1 Gbps", "delay": 0},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "log_distance", "exponent": 3.4, "frequency": "868 MHz"}],
    "reception": "lora",
    "mac": "lorawan",
    "update_size": "86 B",
    "transport": {"grain": "packet", "mtu": "51 B", "header": "8 B"},
    "compute": {"speed": [1, 0.5, 1], "samples": 1},
    "broadcast_rate": "1 Mbps",
    "round": {"kind": "first", "deadline": 60.0},
}
"""Users 0 and 1 send two frames of 51 B with SF7, user 2 with SF12, at a duty cycle of 1 %; user 1 trains for 2 s."""
SF7_S = 0.118016
"""Airtime of 51 B and 13 B of header: 12.25 + 8 + 5 ceil((8 x 64 - 28 + 28 + 16) / 28) = 115.25 symbols of 1.024 ms."""
SF12_S = 2.793472
"""With low data rate optimisation: 12.25 + 8 + 5 ceil((8 x 64 - 48 + 28 + 16) / 40) = 85.25 symbols of 32.768 ms."""


def network(**changes):
    return NetworkAccess.model_validate(SETTINGS | changes)


def context_of(access, users=3):
    return AccessContext(
        users,
        1,
        0,
        Streams(1).at("access", 0),
        np.ones(users),
        688.0,
        688.0,
        NullRecorder(),
        held=np.arange(users) + 1.0,
    )


def late_warnings(access):
    return [text for text in access.warnings(context_of(access)) if "in time" in text]


def test_no_update_is_late_where_the_selection_sets_the_deadline():
    rule = {"kind": "first", "deadline": 1.0}
    assert late_warnings(network(round=rule))
    assert late_warnings(network(round=rule, selection={"kind": "fedcs", "deadline": "1 h"})) == []


def test_least_time_is_training_and_frames_with_the_silence_between_them():
    access = network()
    times = least_times(access, context_of(access), at_best=False)
    assert times.frames == 2
    assert times.train_s.tolist() == [1, 2, 1]
    assert times.airtime_s == pytest.approx([SF7_S, SF7_S, SF12_S])
    assert times.spacing_s == pytest.approx([100 * SF7_S, 100 * SF7_S, 100 * SF12_S])  # a duty cycle of 1 %
    assert times.first_s == pytest.approx(times.train_s + 101 * times.airtime_s)


def test_jitter_leaves_no_least_training():
    access = network(compute={"speed": 1.0, "samples": 1, "jitter": 0.1})
    assert least_times(access, context_of(access), at_best=True).train_s.tolist() == [0, 0, 0]
    assert least_times(access, context_of(access), at_best=False).train_s.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"on_new_version": "finish", "staleness": 3}, False),
        ({"on_new_version": "finish", "staleness": 0}, True),
        ({"staleness": 3}, True),  # the user abandons it
        ({"round": {"kind": "asynchronous"}, "on_new_version": "finish"}, False),
    ],
)
def test_updates_count_until_the_round_closes(changes, counts):
    assert counts_until_close(network(**changes)) == counts


def test_some_users_are_too_late():
    (warning,) = late_warnings(network())
    assert warning.startswith(
        "with their mean signal, 1 of 3 users deliver no update in time: user 2, the fastest of them, needs 283 s or "
        "more (training 1 s, 2 frames of 2.79 s, one every 279 s), but rounds close after 60 s"
    )


def test_all_users_are_too_late():
    (warning,) = late_warnings(network(round={"kind": "first", "deadline": 10.0}))
    assert warning.startswith("no update can arrive in time: user 0, the fastest of them, needs 12.9 s or more")


@pytest.mark.parametrize(
    "changes",
    [{"round": {"kind": "first"}}, {"round": {"kind": "first", "deadline": 300.0}}, {"mac": "round_robin"}],
)
def test_nobody_is_too_late(changes):
    assert late_warnings(network(**changes)) == []
