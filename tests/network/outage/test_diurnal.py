"""Daily windows of availability, compared with times worked out by hand."""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage.diurnal import Diurnal
from netfl.network.topology.star import Star
from netfl.streams import Streams

STREAMS = Streams(29)


def star(users):
    return Star(radius=1000).open(users, STREAMS)


class TestDiurnal:
    def open_window(self, **window):
        return Diurnal(nodes="users", **window).open(star(2), STREAMS)

    def states(self, timeline, *hours):
        return timeline.up(np.zeros(len(hours), int), 3600.0 * np.array(hours)).tolist()

    def test_window_within_day(self):
        open_window = self.open_window(opens="8 h", closes="17 h")
        assert self.states(open_window, 0, 7.999, 8, 16.999, 17, 24 + 7, 24 + 8) == [
            False,
            False,
            True,
            True,
            False,
            False,
            True,
        ]

    def test_window_over_midnight(self):
        night = self.open_window(opens="22 h", closes="6 h")
        assert self.states(night, 0, 5.999, 6, 21.999, 22, 24, 30, 46) == [
            True, True, False, False, True, True, False, True,
        ]  # fmt: skip
        user = np.array([0])
        changes = [night.next_change(user, 3600.0 * hour)[0] / 3600 for hour in (0, 6, 22, 23, 29.99)]
        assert changes == [6, 22, 30, 30, 30]

    @pytest.mark.parametrize("window", [{"opens": 0, "closes": 0.3}, {"opens": 0.7, "closes": 0.1}])
    def test_states_hold_at_many_changes(self, window):
        """0.1 and 0.7 are not binary fractions, so sums and quotients round."""
        timeline = Diurnal(nodes="users", period=0.9, spread=0.33, **window).open(star(7), STREAMS)
        users, time_s = np.arange(7), np.zeros(7)
        state = timeline.up(users, time_s)
        for _ in range(2000):
            next_s = timeline.next_change(users, time_s)
            assert (next_s > time_s).all()
            assert (timeline.up(users, np.nextafter(next_s, 0)) == state).all()
            state = ~state
            assert (timeline.up(users, next_s) == state).all()
            time_s = next_s
        assert time_s == pytest.approx(900.0, abs=2)

    def test_other_nodes_are_always_up(self):
        timeline = Diurnal(nodes=[1], opens="1 h", closes="2 h").open(star(2), STREAMS)
        assert timeline.up(np.arange(4), 0.0).tolist() == [True, False, True, True]
        assert timeline.next_change(np.arange(4), 0.0).tolist() == [math.inf, 3600.0, math.inf, math.inf]

    def test_each_node_has_constant_shift(self):
        timeline = Diurnal(nodes="users", opens="10 h", closes="12 h", spread="2 h").open(star(500), STREAMS)
        users = np.arange(500)
        opened = timeline.next_change(users, 3600.0 * 8)
        assert ((opened >= 9 * 3600) & (opened <= 11 * 3600)).all()
        assert np.ptp(opened) > 6500
        assert timeline.next_change(users, 3600.0 * 32) == pytest.approx(opened + 86400, abs=1e-6)

    @pytest.mark.parametrize(
        "window",
        [
            {"opens": 3600, "closes": 3600},
            {"opens": 0, "closes": 86400},
            {"opens": 0, "closes": "25 h"},
            {"opens": 0, "closes": 1, "spread": "2 day"},
        ],
    )
    def test_invalid_windows_are_rejected(self, window):
        with pytest.raises(ScenarioError):
            Diurnal(nodes="users", **window)
