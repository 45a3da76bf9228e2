"""Combined outages compared with a computation time by time."""

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


class ScriptedOutages(NodeAvailability):
    """Node n starts up and changes at the times ``changes[n]``."""

    def __init__(self, *changes):
        self.changes = [np.array(times, float) for times in changes]

    def up(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        return np.array([(self.changes[n] <= t).sum() % 2 == 0 for n, t in zip(nodes, times, strict=True)], bool)

    def next_change(self, nodes, time_s):
        times = np.broadcast_to(time_s, len(nodes))
        later = [self.changes[n][self.changes[n] > t] for n, t in zip(nodes, times, strict=True)]
        return np.array([times[0] if len(times) else math.inf for times in later])


A = ScriptedOutages([10, 20, 40, 50], [5, 6])
B = ScriptedOutages([15, 30], [])
BOTH = CombinedOutages([A, B])
NODE_0, NODE_1 = np.array([0]), np.array([1])


def test_node_is_up_if_all_outages_allow():
    times = np.array([0, 9.9, 10, 14, 17, 20, 25, 30, 39, 40, 50])
    expected = [True, True, False, False, False, False, False, True, True, False, True]
    assert BOTH.up(np.zeros(11, int), times).tolist() == expected


@pytest.mark.parametrize(
    ("time_s", "expected"), [(0, 10), (10, 30), (16, 30), (25, 30), (30, 40), (40, 50), (50, math.inf)]
)
def test_next_change_is_of_combined_state(time_s, expected):
    assert BOTH.next_change(NODE_0, time_s) == [expected]


@pytest.mark.parametrize(("time_s", "expected"), [(0, 0), (10, 30), (19, 30), (29.9, 30), (30, 30), (45, 50), (60, 60)])
def test_next_time_up(time_s, expected):
    assert BOTH.next_up(NODE_0, time_s) == [expected]


def test_changes_are_ordered():
    times_s, changed_nodes, up = BOTH.changes(np.array([0, 1]), 0.0, 40.0)
    assert times_s.tolist() == [5, 6, 10, 30, 40]
    assert changed_nodes.tolist() == [1, 1, 0, 0, 0]
    assert up.tolist() == [False, True, False, True, False]
    assert BOTH.changes(NODE_0, 10.0, 30.0)[0].tolist() == [30.0]
    assert [len(column) for column in BOTH.changes(NODE_0, 30.0, 39.0)] == [0, 0, 0]


def test_simultaneous_changes_cancel():
    times_s, _, up = CombinedOutages([ScriptedOutages([5, 5, 8])]).changes(NODE_0, 0.0, 10.0)
    assert (times_s.tolist(), up.tolist()) == ([8.0], [False])


def test_outage_that_starts_at_end_of_another():
    outages = CombinedOutages([ScriptedOutages([5, 10]), ScriptedOutages([10, 12])])
    assert outages.next_up(NODE_0, 5.0) == [12.0]
    assert outages.changes(NODE_0, 0.0, 20.0)[0].tolist() == [5.0, 12.0]


def test_disjoint_windows_are_never_up():
    layout = Star(radius=1).open(2, STREAMS)
    days = (Diurnal(nodes=[0], opens="8 h", closes="10 h"), Diurnal(nodes=[0], opens="12 h", closes="14 h"))
    never = CombinedOutages.open(days, layout, STREAMS)
    assert never.next_up(np.array([0, 1]), 3.0).tolist() == [math.inf, 3.0]
    assert never.next_change(np.array([0, 1]), 3.0).tolist() == [math.inf, math.inf]


def test_disjoint_windows_are_found_without_drawing_renewals(monkeypatch):
    """Two daily windows do not overlap, so hourly renewals need not be followed for years."""
    calls, look = [], AlternatingRenewal._look
    monkeypatch.setattr(AlternatingRenewal, "_look", lambda *args: calls.append(1) or look(*args))
    hours = {"distribution": "exponential", "mean": "1 h"}
    outages = (
        Renewal(nodes="users", up=hours, down=hours),
        Diurnal(nodes="users", opens="8 h", closes="10 h"),
        Diurnal(nodes="users", opens="12 h", closes="14 h"),
    )
    never = CombinedOutages.open(outages, Star(radius=1).open(2, STREAMS), STREAMS)
    calls.clear()
    assert never.next_up(np.array([0, 1]), 3.0).tolist() == [math.inf, math.inf]
    assert len(calls) < 10


class CountingOutages(ScriptedOutages):
    """Scripted outages that count the queries for changes."""

    queries = 0

    def next_change(self, nodes, time_s):
        self.queries += 1
        return super().next_change(nodes, time_s)


def test_search_ends_at_time_limit():
    """One of two outages is active at any time; a few queries suffice for changes within five seconds."""
    even, odd = CountingOutages(range(1, 4000)), CountingOutages(range(4000))
    never = CombinedOutages([even, odd])
    assert [len(column) for column in never.changes(NODE_0, 0.0, 5.0)] == [0, 0, 0]
    assert never.next_up(NODE_0, 0.0, by_s=5.0)[0] > 5.0
    assert even.queries + odd.queries < 40
    assert never.next_up(NODE_0, 0.0) == [math.inf]


def test_known_outage_is_not_queried_again():
    switch = CountingOutages([2, 8], [])
    presence, pair = NodeState(CombinedOutages([switch]), 2), np.array([[0, 1]])
    assert presence.all_up_from_s(pair, 2.0) == [8.0]
    queries = switch.queries
    assert [presence.all_up_from_s(pair, now_s)[0] for now_s in (3.0, 5.0, 7.9)] == [8.0, 8.0, 8.0]
    assert not presence.up(NODE_0, 7.9).any()
    assert switch.queries == queries
    assert presence.all_up_from_s(pair, 8.0) == [8.0]


def test_query_about_future_does_not_affect_present():
    presence = NodeState(CombinedOutages([ScriptedOutages([2, 8])]), 1)
    assert presence.all_up_later_s(NODE_0[None], 5.0) == [8.0]
    assert presence.all_up_from_s(NODE_0[None], 1.0) == [1.0]
    assert presence.up(NODE_0, 1.0).all()


def test_all_nodes_are_up_without_outages():
    none = CombinedOutages()
    nodes = np.arange(3)
    assert not none
    assert BOTH
    assert none.up(nodes, 5.0).all()
    assert none.next_up(nodes, 5.0).tolist() == [5.0] * 3
    assert none.next_change(nodes, 5.0).tolist() == [math.inf] * 3
    assert [len(column) for column in none.changes(nodes, 0.0, 1e9)] == [0, 0, 0]


def test_queries_without_nodes_are_empty():
    no_nodes = np.array([], int)
    assert (
        BOTH.up(no_nodes, 1.0).shape
        == BOTH.next_up(no_nodes, 1.0).shape
        == BOTH.next_change(no_nodes, 1.0).shape
        == (0,)
    )
    assert len(BOTH.changes(no_nodes, 0.0, 1.0)[0]) == 0


@pytest.mark.slow
def test_outages_match_fine_grid():
    """Three outages of 20 users over two days are compared with states on a grid."""
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
    times_s, changed_nodes, went_up = outages.changes(users, 0.0, grid[-1])
    rebuilt = np.repeat(states[:1], len(grid), axis=0)
    for time_s, user, up in zip(times_s, changed_nodes, went_up, strict=True):
        rebuilt[grid >= time_s, user] = up
    assert (rebuilt == states).all()
    for start in (0, 3000, 9000):
        following = outages.next_up(users, grid[start])
        for user in users:
            later = np.flatnonzero(states[start:, user])
            assert following[user] <= grid[start + later[0]] if later.size else following[user] > grid[-1]
            assert not states[start:, user][grid[start:] < following[user]].any()


def test_outages_draw_independently():
    layout, users = Star(radius=1).open(50, STREAMS), np.arange(50)
    model = Renewal(
        nodes="users", up={"distribution": "exponential", "mean": 1}, down={"distribution": "exponential", "mean": 1}
    )
    single = CombinedOutages.open([model], layout, STREAMS).next_change(users, 0.0)
    double = CombinedOutages.open([model, model], layout, STREAMS)
    first, second = (timeline.next_change(users, 0.0) for timeline in double._timelines)
    assert (first == single).all()
    assert (first != second).all()


def test_draws_are_independent_of_order():
    layout, users = Star(radius=1).open(50, STREAMS), np.arange(50)
    failing = Renewal(
        nodes="users", up={"distribution": "exponential", "mean": 1}, down={"distribution": "exponential", "mean": 1}
    )
    planned = Maintenance(windows=[{"nodes": "towers", "start": 1, "duration": 1}])
    first, second = (
        CombinedOutages.open(outages, layout, STREAMS).next_change(users, 0.0)
        for outages in ([failing, planned], [planned, failing])
    )
    assert (first == second).all()


def test_errors_of_all_outages_are_reported():
    duration = {"distribution": "fixed", "mean": 1}
    models = [Renewal(nodes=[name], up=duration, down=duration) for name in ("tower:9", "tower:0", "rooter:0")]
    with pytest.raises(ScenarioError) as error:
        CombinedOutages.open(models, Star(radius=1).open(2, STREAMS), STREAMS)
    assert [fault.key for fault in error.value.faults] == ["0.nodes", "2.nodes"]


class TestFinishedUploads:
    """A, from 10 to 20 and 40 to 50, interrupts uploads; B, from 15 to 30, lets them finish."""

    MIXED = CombinedOutages([A], [B])

    def test_outage_that_finishes_uploads_counts_for_state(self):
        times = np.arange(0.0, 60.0, 0.5)
        nodes = np.zeros(len(times), int)
        assert (self.MIXED.up(nodes, times) == BOTH.up(nodes, times)).all()
        assert (self.MIXED.next_change(nodes, times) == BOTH.next_change(nodes, times)).all()
        assert self.MIXED.interrupting.next_change(NODE_0, 10.0) == [20.0]
        assert BOTH.interrupting is BOTH

    def test_only_interrupting_outages_cut_uploads(self):
        outages = CombinedOutages([ScriptedOutages([40, 50], [])], [ScriptedOutages([15, 30], [5, 6])])
        presence = NodeState(outages, 2)
        assert presence.node_up_until_s(0, 0.0) == 15.0
        assert presence.cut_s(0, 0.0) == 40.0
        assert presence.cut_s(1, 1.0) == math.inf
        assert presence.node_up_until_s(0, 16.0) <= 16.0
        assert presence.cut_s(0, 16.0) == 40.0
        assert presence.cut_s(0, 41.0) <= 41.0
        assert presence.cut_s(0, 50.0) == math.inf

    def test_cut_equals_end_of_up_time_by_default(self):
        presence = NodeState(CombinedOutages([A]), 2)
        assert not presence.is_metered
        for now_s in (0.0, 5.0, 12.0, 20.0, 45.0, 50.0):
            assert presence.cut_s(0, now_s) == presence.node_up_until_s(0, now_s)

    def test_in_progress_selects_behaviour(self):
        def fixed(mean):
            return {"distribution": "fixed", "mean": mean}

        models = [
            Renewal(nodes="users", up=fixed(up_s), down=fixed(1), start="up", in_progress=choice)
            for choice, up_s in (("finish", 3), ("interrupt", 7))
        ]
        opened = CombinedOutages.open(models, Star(radius=1).open(2, STREAMS), STREAMS)
        assert opened.next_change(NODE_0, 0.0) == [3.0]
        assert opened.interrupting.next_change(NODE_0, 0.0) == [7.0]
        assert Renewal(nodes="users", up=fixed(1), down=fixed(1)).in_progress == "interrupt"


class ShortSightedOutages(ScriptedOutages):
    """Scripted outages that look three seconds ahead."""

    is_exact = False

    def next_change(self, nodes, time_s):
        return np.minimum(super().next_change(nodes, time_s), np.asarray(time_s) + 3.0)


class TestLimitedLookAhead:
    SHORT_SIGHTED = CombinedOutages([ShortSightedOutages([10, 20, 40, 50], [5, 6])])

    def test_changes_are_exact(self):
        assert self.SHORT_SIGHTED.changes(np.array([0, 1]), 0.0, 60.0)[0].tolist() == [5, 6, 10, 20, 40, 50]
        assert self.SHORT_SIGHTED.next_up(NODE_0, 11.0) == [20.0]
        assert self.SHORT_SIGHTED.next_change(NODE_0, 11.0) == [20.0]

    def test_cuts_are_exact(self):
        presence = NodeState(self.SHORT_SIGHTED, 2)
        assert presence.node_up_until_s(0, 0.0) == 3.0
        assert presence.cut_s(0, 0.0) == 10.0
        assert presence.cut_s(0, 3.5, 5.0) >= 5.0
        assert presence.cut_s(0, 4.0, 30.0) == 10.0
        assert presence.cut_s(0, 11.0, 30.0) <= 11.0
        assert presence.up(np.array([0, 1]), 20.0).all()
