"""Windows of the day, against a clock read by hand."""

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
    def day(self, **window):
        return Diurnal(nodes="users", **window).open(star(2), STREAMS)

    def states(self, timeline, *hours):
        return timeline.up(np.zeros(len(hours), int), 3600.0 * np.array(hours)).tolist()

    def test_a_window_within_the_day(self):
        day = self.day(opens="8 h", closes="17 h")
        assert self.states(day, 0, 7.999, 8, 16.999, 17, 24 + 7, 24 + 8) == [
            False,
            False,
            True,
            True,
            False,
            False,
            True,
        ]

    def test_a_window_over_midnight(self):
        night = self.day(opens="22 h", closes="6 h")
        assert self.states(night, 0, 5.999, 6, 21.999, 22, 24, 30, 46) == [
            True, True, False, False, True, True, False, True,
        ]  # fmt: skip
        user = np.array([0])
        changes = [night.next_change(user, 3600.0 * hour)[0] / 3600 for hour in (0, 6, 22, 23, 29.99)]
        assert changes == [6, 22, 30, 30, 30]

    @pytest.mark.parametrize("window", [{"opens": 0, "closes": 0.3}, {"opens": 0.7, "closes": 0.1}])
    def test_the_new_state_holds_at_each_of_many_changes(self, window):
        """0.1 and 0.7 are no binary fractions, so that sums and quotients round."""
        timeline = Diurnal(nodes="users", period=0.9, spread=0.33, **window).open(star(7), STREAMS)
        users, time_s = np.arange(7), np.zeros(7)
        state = timeline.up(users, time_s)
        for _ in range(2000):
            following = timeline.next_change(users, time_s)
            assert (following > time_s).all()
            assert (timeline.up(users, np.nextafter(following, 0)) == state).all()
            state = ~state
            assert (timeline.up(users, following) == state).all()
            time_s = following
        assert time_s == pytest.approx(900.0, abs=2)

    def test_those_not_named_are_always_up(self):
        timeline = Diurnal(nodes=[1], opens="1 h", closes="2 h").open(star(2), STREAMS)
        assert timeline.up(np.arange(4), 0.0).tolist() == [True, False, True, True]
        assert timeline.next_change(np.arange(4), 0.0).tolist() == [math.inf, 3600.0, math.inf, math.inf]

    def test_each_node_has_its_own_shift_for_good(self):
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
    def test_windows_that_are_none(self, window):
        with pytest.raises(ScenarioError):
            Diurnal(nodes="users", **window)
