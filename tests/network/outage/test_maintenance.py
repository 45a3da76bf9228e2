"""Maintenance windows compared with times worked out by hand."""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage.maintenance import Maintenance
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(53)
LAYOUT = Star(radius=10).open(3, STREAMS)
TOWER, LINK = LAYOUT.number("tower:0"), LAYOUT.number("tower:0-server")


def list_changes(node, until, *windows):
    model = Maintenance(windows=windows)
    times_s, _, up = CombinedOutages([model.open(LAYOUT, STREAMS)]).changes(np.array([node]), 0.0, until)
    return list(zip(times_s.tolist(), up.tolist(), strict=True))


def test_single_window():
    window = {"nodes": "links", "start": 90, "duration": "1 min"}
    assert list_changes(LINK, 1e9, window) == [(90.0, False), (150.0, True)]
    assert list_changes(TOWER, 1e9, window) == []


def test_repeated_window():
    window = {"nodes": "towers", "start": 100, "duration": 10, "every": 50}
    expected = [(t, up) for start_s in (100.0, 150.0, 200.0) for t, up in ((start_s, False), (start_s + 10, True))]
    assert list_changes(TOWER, 220.0, window) == expected


def test_overlapping_windows_are_merged():
    first, second = (
        {"nodes": [0, 1], "start": 10, "duration": 20, "every": 100},
        {"nodes": [1], "start": 25, "duration": 10},
    )
    assert list_changes(0, 120, first, second) == [(10.0, False), (30.0, True), (110.0, False)]
    assert list_changes(1, 120, first, second) == [(10.0, False), (35.0, True), (110.0, False)]


def test_states_at_start_and_edges():
    model = Maintenance(windows=[{"nodes": [2], "start": 0, "duration": 5, "every": 7}])
    timeline = model.open(LAYOUT, STREAMS)
    times = np.array([0, 4.999, 5, 6.999, 7, 11.999, 12, 7e6, 7e6 + 5])
    down = [True, True, False, False, True, True, False, True, False]
    assert (~timeline.up(np.full(9, 2), times)).tolist() == down
    assert timeline.next_change(np.array([2, 0]), 0.0).tolist() == [5.0, math.inf]


def test_periods_that_are_not_binary_fractions():
    timeline = Maintenance(windows=[{"nodes": [0], "start": 0.3, "duration": 0.2, "every": 0.7}]).open(LAYOUT, STREAMS)
    user, time_s, state = np.array([0]), 0.0, True
    for _ in range(2000):
        next_s = timeline.next_change(user, time_s)[0]
        assert next_s > time_s
        assert timeline.up(user, np.nextafter(next_s, 0))[0] == state
        state = not state
        assert timeline.up(user, next_s)[0] == state
        time_s = next_s
    assert time_s == pytest.approx(700.0, abs=1)


def test_errors_name_their_key():
    windows = [{"nodes": [0], "start": 0, "duration": 1}, {"nodes": [3, "tower:9"], "start": 0, "duration": 1}]
    model = Maintenance(windows=windows)
    assert [fault.key for fault in model.faults(ScenarioFacts(users=3, rounds=1))] == ["windows.1.nodes"]
    with pytest.raises(ScenarioError) as error:
        model.open(LAYOUT, STREAMS)
    assert [fault.key for fault in error.value.faults] == ["windows.1.nodes"]


@pytest.mark.parametrize(
    "window", [{"duration": 0}, {"duration": 10, "every": 10}, {"start": -1}, {"nodes": "everything"}, {"often": 3}]
)
def test_invalid_windows_are_rejected(window):
    with pytest.raises(ScenarioError):
        Maintenance(windows=[{"nodes": "users", "start": 0, "duration": 1} | window])
    with pytest.raises(ScenarioError):
        Maintenance(windows=[])
