"""Several timelines as one, against a reckoning instant by instant."""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage import NodeAvailability
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.outage.diurnal import Diurnal
from netfl.network.outage.maintenance import Maintenance
from netfl.network.outage.renewal import Renewal
from netfl.network.topology.star import Star
from netfl.streams import Streams

STREAMS = Streams(31)


class Switch(NodeAvailability):
    """Node n starts up and changes at the instants ``changes[n]``."""

    def __init__(self, *changes):
        self.changes = [np.array(one, float) for one in changes]

    def up(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        return np.array([(self.changes[n] <= t).sum() % 2 == 0 for n, t in zip(nodes, times, strict=True)], bool)

    def next_change(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        after = [self.changes[n][self.changes[n] > t] for n, t in zip(nodes, times, strict=True)]
        return np.array([one[0] if len(one) else math.inf for one in after])


A = Switch([10, 20, 40, 50], [5, 6])
B = Switch([15, 30], [])
BOTH = CombinedOutages([A, B])
ZERO, ONE = np.array([0]), np.array([1])


def test_up_needs_all():
    times = np.array([0, 9.9, 10, 14, 17, 20, 25, 30, 39, 40, 50])
    expected = [True, True, False, False, False, False, False, True, True, False, True]
    assert BOTH.up(np.zeros(11, int), times).tolist() == expected


@pytest.mark.parametrize(
    ("time_s", "expected"), [(0, 10), (10, 30), (16, 30), (25, 30), (30, 40), (40, 50), (50, math.inf)]
)
def test_the_next_change_is_of_the_state_of_all_together(time_s, expected):
    assert BOTH.next_change(ZERO, time_s) == [expected]


@pytest.mark.parametrize(("time_s", "expected"), [(0, 0), (10, 30), (19, 30), (29.9, 30), (30, 30), (45, 50), (60, 60)])
def test_the_next_time_up(time_s, expected):
    assert BOTH.next_up(ZERO, time_s) == [expected]


def test_all_changes_in_order():
    when, who, up = BOTH.changes(np.array([0, 1]), 0.0, 40.0)
    assert when.tolist() == [5, 6, 10, 30, 40]
    assert who.tolist() == [1, 1, 0, 0, 0]
    assert up.tolist() == [False, True, False, True, False]
    assert BOTH.changes(ZERO, 10.0, 30.0)[0].tolist() == [30.0]
    assert [len(column) for column in BOTH.changes(ZERO, 30.0, 39.0)] == [0, 0, 0]


def test_two_changes_at_one_instant_cancel():
    when, _, up = CombinedOutages([Switch([5, 5, 8])]).changes(ZERO, 0.0, 10.0)
    assert (when.tolist(), up.tolist()) == ([8.0], [False])


def test_one_goes_down_at_the_instant_another_comes_back():
    relay = CombinedOutages([Switch([5, 10]), Switch([10, 12])])
    assert relay.next_up(ZERO, 5.0) == [12.0]
    assert relay.changes(ZERO, 0.0, 20.0)[0].tolist() == [5.0, 12.0]


def test_windows_that_never_meet_are_never_up():
    sites = Star(radius=1).open(2, STREAMS)
    days = (Diurnal(nodes=[0], opens="8 h", closes="10 h"), Diurnal(nodes=[0], opens="12 h", closes="14 h"))
    never = CombinedOutages.open(days, sites, STREAMS)
    assert never.next_up(np.array([0, 1]), 3.0).tolist() == [math.inf, 3.0]
    assert never.next_change(np.array([0, 1]), 3.0).tolist() == [math.inf, math.inf]


def test_windows_that_never_meet_are_found_without_drawing_what_else_happens_meanwhile(monkeypatch):
    """Two windows a day that do not overlap: outages that change each hour need not be followed for years."""
    looks, look = [], AlternatingRenewal._look
    monkeypatch.setattr(AlternatingRenewal, "_look", lambda *told: looks.append(1) or look(*told))
    hours = {"distribution": "exponential", "mean": "1 h"}
    outages = (
        Renewal(nodes="users", up=hours, down=hours),
        Diurnal(nodes="users", opens="8 h", closes="10 h"),
        Diurnal(nodes="users", opens="12 h", closes="14 h"),
    )
    never = CombinedOutages.open(outages, Star(radius=1).open(2, STREAMS), STREAMS)
    looks.clear()
    assert never.next_up(np.array([0, 1]), 3.0).tolist() == [math.inf, math.inf]
    assert len(looks) < 10


class Counted(Switch):
    """A switch that counts how often it is asked when it changes."""

    asked = 0

    def next_change(self, nodes, time_s):
        self.asked += 1
        return super().next_change(nodes, time_s)


def test_who_stays_down_is_followed_no_further_than_matters():
    """One of the two is down at any time: of the changes in five of them it takes a few looks, not a thousand."""
    even, odd = Counted(range(1, 4000)), Counted(range(4000))
    never = CombinedOutages([even, odd])
    assert [len(column) for column in never.changes(ZERO, 0.0, 5.0)] == [0, 0, 0]
    assert never.next_up(ZERO, 0.0, by_s=5.0)[0] > 5.0
    assert even.asked + odd.asked < 40
    assert never.next_up(ZERO, 0.0) == [math.inf]


def test_who_is_known_to_be_down_is_not_asked_about_again():
    switch = Counted([2, 8], [])
    presence, both = NodeState(CombinedOutages([switch]), 2), np.array([[0, 1]])
    assert presence.all_up_from_s(both, 2.0) == [8.0]
    asked = switch.asked
    assert [presence.all_up_from_s(both, now_s)[0] for now_s in (3.0, 5.0, 7.9)] == [8.0, 8.0, 8.0]
    assert not presence.up(ZERO, 7.9).any()
    assert switch.asked == asked
    assert presence.all_up_from_s(both, 8.0) == [8.0]


def test_what_is_found_of_a_time_to_come_does_not_hold_now():
    presence = NodeState(CombinedOutages([Switch([2, 8])]), 1)
    assert presence.all_up_later_s(ZERO[None], 5.0) == [8.0]
    assert presence.all_up_from_s(ZERO[None], 1.0) == [1.0]
    assert presence.up(ZERO, 1.0).all()


def test_without_outages_everything_is_up_for_ever():
    none = CombinedOutages()
    nodes = np.arange(3)
    assert not none
    assert BOTH
    assert none.up(nodes, 5.0).all()
    assert none.next_up(nodes, 5.0).tolist() == [5.0] * 3
    assert none.next_change(nodes, 5.0).tolist() == [math.inf] * 3
    assert [len(column) for column in none.changes(nodes, 0.0, 1e9)] == [0, 0, 0]


def test_nobody_may_be_asked_about():
    nobody = np.array([], int)
    assert BOTH.up(nobody, 1.0).shape == BOTH.next_up(nobody, 1.0).shape == BOTH.next_change(nobody, 1.0).shape == (0,)
    assert len(BOTH.changes(nobody, 0.0, 1.0)[0]) == 0


@pytest.mark.slow
def test_real_outages_agree_with_a_fine_grid():
    """Three outages on 20 users over two days, each second looked at."""
    outages = CombinedOutages.open(
        [
            Renewal(
                nodes="users",
                up={"distribution": "exponential", "mean": "2 h"},
                down={"distribution": "fixed", "mean": "20 min"},
            ),
            Renewal(
                nodes="users",
                up={"distribution": "weibull", "mean": "3 h", "shape": 2},
                down={"distribution": "lognormal", "mean": "1 h", "sigma": 1},
            ),
            Diurnal(nodes="users", opens="20 h", closes="9 h", spread="2 h"),
        ],
        Star(radius=1).open(20, STREAMS),
        STREAMS,
    )
    users, grid = np.arange(20), np.arange(0.0, 172_800.0, 10.0)
    states = np.array([outages.up(users, time_s) for time_s in grid])
    when, who, went_up = outages.changes(users, 0.0, grid[-1])
    rebuilt = np.repeat(states[:1], len(grid), axis=0)
    for time_s, user, up in zip(when, who, went_up, strict=True):
        rebuilt[grid >= time_s, user] = up
    assert (rebuilt == states).all()
    for start in (0, 3000, 9000):
        following = outages.next_up(users, grid[start])
        for user in users:
            later = np.flatnonzero(states[start:, user])
            assert following[user] <= grid[start + later[0]] if later.size else following[user] > grid[-1]
            assert not states[start:, user][grid[start:] < following[user]].any()


def test_each_outage_draws_for_itself():
    sites, users = Star(radius=1).open(50, STREAMS), np.arange(50)
    model = Renewal(
        nodes="users", up={"distribution": "exponential", "mean": 1}, down={"distribution": "exponential", "mean": 1}
    )
    alone = CombinedOutages.open([model], sites, STREAMS).next_change(users, 0.0)
    twice = CombinedOutages.open([model, model], sites, STREAMS)
    first, second = (timeline.next_change(users, 0.0) for timeline in twice._timelines)
    assert (first == alone).all()
    assert (first != second).all()


def test_the_order_of_the_outages_leaves_their_draws():
    sites, users = Star(radius=1).open(50, STREAMS), np.arange(50)
    failing = Renewal(
        nodes="users", up={"distribution": "exponential", "mean": 1}, down={"distribution": "exponential", "mean": 1}
    )
    planned = Maintenance(windows=[{"nodes": "towers", "start": 1, "duration": 1}])
    first, second = (
        CombinedOutages.open(outages, sites, STREAMS).next_change(users, 0.0)
        for outages in ([failing, planned], [planned, failing])
    )
    assert (first == second).all()


def test_faults_of_all_outages_at_once():
    law = {"distribution": "fixed", "mean": 1}
    wrong = [Renewal(nodes=[name], up=law, down=law) for name in ("tower:9", "tower:0", "rooter:0")]
    with pytest.raises(ScenarioError) as caught:
        CombinedOutages.open(wrong, Star(radius=1).open(2, STREAMS), STREAMS)
    assert [fault.key for fault in caught.value.faults] == ["0.nodes", "2.nodes"]


class TestWhatSparesUploads:
    """A, from 10 to 20 and 40 to 50, cuts; B, from 15 to 30, lets uploads finish."""

    MIXED = CombinedOutages([A], [B])

    def test_it_is_an_outage_like_any_other_for_who_is_up(self):
        times = np.arange(0.0, 60.0, 0.5)
        nodes = np.zeros(len(times), int)
        assert (self.MIXED.up(nodes, times) == BOTH.up(nodes, times)).all()
        assert (self.MIXED.next_change(nodes, times) == BOTH.next_change(nodes, times)).all()
        assert self.MIXED.interrupting.next_change(ZERO, 10.0) == [20.0]
        assert BOTH.interrupting is BOTH

    def test_only_others_cut(self):
        late = CombinedOutages([Switch([40, 50], [])], [Switch([15, 30], [5, 6])])
        presence = NodeState(late, 2)
        assert presence.node_up_until_s(0, 0.0) == 15.0
        assert presence.cut_s(0, 0.0) == 40.0
        assert presence.cut_s(1, 1.0) == math.inf
        assert presence.node_up_until_s(0, 16.0) <= 16.0
        assert presence.cut_s(0, 16.0) == 40.0
        assert presence.cut_s(0, 41.0) <= 41.0
        assert presence.cut_s(0, 50.0) == math.inf

    def test_without_any_the_two_are_one(self):
        presence = NodeState(CombinedOutages([A]), 2)
        assert not presence.is_metered
        for now_s in (0.0, 5.0, 12.0, 20.0, 45.0, 50.0):
            assert presence.cut_s(0, now_s) == presence.node_up_until_s(0, now_s)

    def test_a_scenario_says_which(self):
        def fixed(mean):
            return {"distribution": "fixed", "mean": mean}

        models = [
            Renewal(nodes="users", up=fixed(up_s), down=fixed(1), start="up", in_progress=choice)
            for choice, up_s in (("finish", 3), ("interrupt", 7))
        ]
        opened = CombinedOutages.open(models, Star(radius=1).open(2, STREAMS), STREAMS)
        assert opened.next_change(ZERO, 0.0) == [3.0]
        assert opened.interrupting.next_change(ZERO, 0.0) == [7.0]
        assert Renewal(nodes="users", up=fixed(1), down=fixed(1)).in_progress == "interrupt"


class Shy(Switch):
    """Sees three seconds ahead."""

    is_exact = False

    def next_change(self, nodes, time_s):
        return np.minimum(super().next_change(nodes, time_s), np.asarray(time_s) + 3.0)


class TestWhatLooksAheadOnlySoFar:
    SHY = CombinedOutages([Shy([10, 20, 40, 50], [5, 6])])

    def test_changes_are_those_that_are(self):
        assert self.SHY.changes(np.array([0, 1]), 0.0, 60.0)[0].tolist() == [5, 6, 10, 20, 40, 50]
        assert self.SHY.next_up(ZERO, 11.0) == [20.0]
        assert self.SHY.next_change(ZERO, 11.0) == [20.0]

    def test_a_cut_is_a_cut(self):
        presence = NodeState(self.SHY, 2)
        assert presence.node_up_until_s(0, 0.0) == 3.0
        assert presence.cut_s(0, 0.0) == 10.0
        assert presence.cut_s(0, 3.5, 5.0) >= 5.0
        assert presence.cut_s(0, 4.0, 30.0) == 10.0
        assert presence.cut_s(0, 11.0, 30.0) <= 11.0
        assert presence.up(np.array([0, 1]), 20.0).all()
