"""Planned windows against a clock read by hand."""

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
SITES = Star(radius=10).open(3, STREAMS)
TOWER, LINK = SITES.number("tower:0"), SITES.number("tower:0-server")


def changes(node, until, *windows):
    model = Maintenance(windows=windows)
    when, _, up = CombinedOutages([model.open(SITES, STREAMS)]).changes(np.array([node]), 0.0, until)
    return list(zip(when.tolist(), up.tolist(), strict=True))


def test_once():
    window = {"nodes": "links", "start": 90, "duration": "1 min"}
    assert changes(LINK, 1e9, window) == [(90.0, False), (150.0, True)]
    assert changes(TOWER, 1e9, window) == []


def test_again_and_again():
    window = {"nodes": "towers", "start": 100, "duration": 10, "every": 50}
    expected = [(t, up) for begin in (100.0, 150.0, 200.0) for t, up in ((begin, False), (begin + 10, True))]
    assert changes(TOWER, 220.0, window) == expected


def test_windows_that_overlap():
    one, other = (
        {"nodes": [0, 1], "start": 10, "duration": 20, "every": 100},
        {"nodes": [1], "start": 25, "duration": 10},
    )
    assert changes(0, 120, one, other) == [(10.0, False), (30.0, True), (110.0, False)]
    assert changes(1, 120, one, other) == [(10.0, False), (35.0, True), (110.0, False)]


def test_down_from_the_start_and_states_at_the_edges():
    model = Maintenance(windows=[{"nodes": [2], "start": 0, "duration": 5, "every": 7}])
    timeline = model.open(SITES, STREAMS)
    times = np.array([0, 4.999, 5, 6.999, 7, 11.999, 12, 7e6, 7e6 + 5])
    down = [True, True, False, False, True, True, False, True, False]
    assert (~timeline.up(np.full(9, 2), times)).tolist() == down
    assert timeline.next_change(np.array([2, 0]), 0.0).tolist() == [5.0, math.inf]


def test_periods_that_are_no_binary_fractions():
    timeline = Maintenance(windows=[{"nodes": [0], "start": 0.3, "duration": 0.2, "every": 0.7}]).open(SITES, STREAMS)
    user, time_s, state = np.array([0]), 0.0, True
    for _ in range(2000):
        following = timeline.next_change(user, time_s)[0]
        assert following > time_s
        assert timeline.up(user, np.nextafter(following, 0))[0] == state
        state = not state
        assert timeline.up(user, following)[0] == state
        time_s = following
    assert time_s == pytest.approx(700.0, abs=1)


def test_faults_have_their_places():
    windows = [{"nodes": [0], "start": 0, "duration": 1}, {"nodes": [3, "tower:9"], "start": 0, "duration": 1}]
    model = Maintenance(windows=windows)
    assert [fault.key for fault in model.faults(ScenarioFacts(users=3, rounds=1))] == ["windows.1.nodes"]
    with pytest.raises(ScenarioError) as caught:
        model.open(SITES, STREAMS)
    assert [fault.key for fault in caught.value.faults] == ["windows.1.nodes"]


@pytest.mark.parametrize(
    "window", [{"duration": 0}, {"duration": 10, "every": 10}, {"start": -1}, {"nodes": "everything"}, {"often": 3}]
)
def test_windows_that_are_none(window):
    with pytest.raises(ScenarioError):
        Maintenance(windows=[{"nodes": "users", "start": 0, "duration": 1} | window])
    with pytest.raises(ScenarioError):
        Maintenance(windows=[])
