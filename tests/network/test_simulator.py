"""A world: when rounds open and close, what counts, and that it always goes on or says why it cannot."""

import numpy as np
import pytest

from netfl.errors import ModelError, NetflError
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.mac import Mac
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.mac.tdma import Tdma
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.round.first import First
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.simulator import NetworkSimulator
from netfl.streams import Streams
from netfl.types import Delivery

LINKS = [("server", "tower:0", 1000.0, 0.25), ("tower:1", "router:0", 500.0, 0.5), ("router:0", "server", 1000.0, 0.25)]
SERVER, TOWER_1 = 4, 6


@pytest.fixture
def make_world(make_sites, make_air, planned, memory):
    """Four users, two at each tower; an update and a broadcast have 1000 bits, an airtime is 1 s, a broadcast's 2 s.

    Versions come to tower 0 at 0.25 + 1 + 2 = 3.25 s, to tower 1 at 0.75 + 3 + 2 = 5.75 s; updates that leave the air
    are at the server 1.25 s and 3.75 s later.
    """

    def make(mac, *, plan=None, compute_s=0.0, first=None, deadline_s=None, capacity=None):
        towers = {"tower:0": (0.0, 0.0), "tower:1": (100.0, 0.0)}
        sites = make_sites(LINKS, [(0, 0), (1, 0), (99, 0), (100, 0)], towers)
        assert sites.names == ("server", "tower:0", "tower:1", "router:0")
        outages = CombinedOutages([planned(plan or {})])
        presence = NodeState(outages, sites.nodes)
        air = make_air(lambda users, time_s: np.zeros(len(users)), 4)
        parts = NetworkConfig(
            layout=sites,
            medium=FadingMedium(air, SnrThreshold(threshold=-3, rate=1000), presence, Streams(3)),
            mac=mac,
            shared_air=False,
            queue=DropTail(capacity=capacity),
            queues={},
            routing=ShortestPath(),
            outages=outages,
            node_state=presence,
            traffic=(),
            service=RoundServiceConfig(
                update_bits=1000.0,
                compute_s=np.broadcast_to(np.asarray(compute_s, float), 4),
                samples=np.ones(4),
                broadcast_bits=1000.0,
                broadcast_bps=500.0,
                rule=First(m=first, deadline=deadline_s),
            ),
        )
        return NetworkSimulator(parts, Streams(3), memory)

    return make


def test_a_round_from_broadcast_to_arrival(make_world, memory):
    """TDMA frames of 2 s: ready at 3.25, user 1 sends from 5 (and 0 from 4); at tower 1 user 2 from 6, 3 from 7."""
    [one] = make_world(Tdma(), first=4).rounds(1)
    assert memory.of("broadcast") == [(0.0, -1)]
    assert memory.of("received") == [(3.25, 0), (3.25, 1), (5.75, 2), (5.75, 3)]
    assert memory.of("sent") == [(4.0, 0), (5.0, 1), (6.0, 2), (7.0, 3)]
    assert one.deliveries == (
        Delivery(0, 0, 4.0, 6.25, 1),
        Delivery(1, 0, 5.0, 7.25, 1),
        Delivery(2, 0, 6.0, 10.75, 1),
        Delivery(3, 0, 7.0, 12.75, 1),
    ), "user 3's update waits at tower 1, whose link is busy from 7 to 9, and is at the router at 10.5"
    assert (one.opened_s, one.closed_s, one.oldest) == (0.0, 12.75, 1)
    assert (one.uplink_bits, one.downlink_bits) == (4000.0, 2000.0)


def test_one_clock_runs_through_all_rounds_and_only_the_newest_version_counts(make_world, memory):
    """The first arrival closes a round; user 1's update is past the air by then, comes after it, and is late."""
    first, second = make_world(Tdma(), first=1).rounds(2)
    assert (first.closed_s, second.opened_s) == (6.25, 6.25)
    assert [(delivery.user, delivery.base) for delivery in second.deliveries] == [(0, 1)]
    assert second.deliveries[0].sent_s == 10.0, "received at 9.5"
    assert [row[1:4] for row in memory.rows if row[0] == "late"] == [(7.25, 2, 1), (10.75, 2, 2)]
    assert second.closed_s == 12.25
    assert memory.outcomes()[3, 0] == ["unfinished"], "it would come at 12.75"


def test_a_deadline_closes_a_round_with_what_came(make_world, memory):
    """At 7.25 the second update arrives, which is the deadline's own instant, and so too late."""
    first, second = make_world(Tdma(), deadline_s=7.25).rounds(2)
    assert [delivery.user for delivery in first.deliveries] == [0]
    assert (first.closed_s, second.closed_s) == (7.25, 14.5)
    assert memory.outcomes()[1, 0] == ["late"]


def test_a_deadline_may_pass_without_anybody(make_world):
    one, two = make_world(Tdma(), compute_s=100.0, deadline_s=20.0).rounds(2)
    assert (one.deliveries, two.deliveries, two.closed_s) == ((), (), 40.0)


def test_first_or_deadline_whichever_comes_first(make_world):
    one, two = make_world(Tdma(), compute_s=[0.0, 0.0, 50.0, 50.0], first=2, deadline_s=12.0).rounds(2)
    assert (one.closed_s, two.closed_s) == (7.25, 14.25), "each with its second arrival, not at 12"
    three, four = make_world(Tdma(), compute_s=[0.0, 50.0, 50.0, 50.0], first=2, deadline_s=12.0).rounds(2)
    assert (three.closed_s, four.closed_s) == (12.0, 24.0), "the deadline of a round that is over closes no other"


def test_without_a_deadline_a_round_ends_when_nobody_can_come_any_more(make_world, memory):
    """Each cell's two users meet in slot 4 and slot 6, and have one attempt: the last outcome falls at 7."""
    one, two = make_world(SlottedAloha(probability=1, max_attempts=1), first=1).rounds(2)
    assert (one.deliveries, one.closed_s, two.opened_s) == ((), 7.0, 7.0)
    assert set(map(tuple, memory.outcomes().values())) == {("collided",)}


def test_with_fewer_than_first_it_closes_with_those_who_came(make_world):
    """Users 2 and 3 are cut off for good."""
    one, two = make_world(Tdma(), plan={2: [(0, np.inf)], 3: [(0, np.inf)]}, first=3).rounds(2)
    assert [delivery.user for delivery in one.deliveries] == [0, 1]
    assert (one.closed_s, len(two.deliveries)) == (7.25, 2)


def test_who_is_cut_off_for_good_while_waiting_does_not_hold_a_round_up(make_world):
    one, _ = make_world(Tdma(), plan={TOWER_1: [(5.9, np.inf)]}, first=3).rounds(2)
    assert [delivery.user for delivery in one.deliveries] == [0, 1]


def test_when_all_are_cut_off_for_good_it_says_so(make_world):
    world = make_world(Tdma(), plan={SERVER: [(8.0, np.inf)]}, first=1)
    rounds = world.rounds(5)
    next(rounds)
    with pytest.raises(ModelError, match="permanently cut off from the server"):
        list(rounds)


def test_when_all_are_cut_off_for_a_while_it_goes_on(make_world, memory):
    """A storm takes everything from 5.5 to 1000 s: what is on the air is lost, the version reaches tower 1 after it."""
    everything = {node: [(5.5, 1000.0)] for node in range(8)}
    one, two = make_world(Tdma(), plan=everything, first=1).rounds(2)
    assert memory.of("lost") == [(5.5, 0)], "user 0's update is at its tower when the storm comes"
    assert one.deliveries[0].arrived_s == 1003.25
    assert (1000.0, 2) in memory.of("received")
    assert two.opened_s == 1003.25
    assert memory.of("down")[0] == (5.5, -1)
    assert len(memory.of("down")) == len(memory.of("up")) == 8


def test_the_server_must_be_up(make_world, memory):
    """It cannot broadcast before 10 s, though users do not notice, nor hear from 14.5 to 15."""
    [one] = make_world(Tdma(), plan={SERVER: [(0.0, 10.0), (12.5, 13.5)]}, first=4).rounds(1)
    assert memory.of("received")[0] == (10.0, 0)
    assert memory.of("lost") == [(13.25, 1)]
    assert [delivery.user for delivery in one.deliveries] == [0, 2, 3]
    outages = [(row[0], row[1], row[4]) for row in memory.rows if row[0] in {"down", "up"}]
    assert sorted(outages, key=lambda row: row[1]) == [
        ("down", 0.0, "server"),
        ("up", 10.0, "server"),
        ("down", 12.5, "server"),
        ("up", 13.5, "server"),
    ]


def test_messages_meet_at_a_port_that_is_full(make_world, memory):
    """Tower 1's link takes 2 s for an update: the second finds no room."""
    [one] = make_world(Tdma(), first=4, capacity=0).rounds(1)
    assert memory.of("dropped") == [(8.0, 3)]
    assert [delivery.user for delivery in one.deliveries] == [0, 1, 2]


def test_the_end_of_the_run_leaves_nothing_open(make_world, memory):
    """At 6.25, when it ends: user 1 is past the air, 2 is on it, 3 waits."""
    list(make_world(Tdma(), first=1).rounds(1))
    assert memory.outcomes() == {(0, 0): ["delivered"]} | {(user, 0): ["unfinished"] for user in (1, 2, 3)}


class Broken(Mac):
    """A MAC that fails when it has served a while."""

    how: str

    def serve(self, cell):
        yield cell.wait_for_backlog()
        yield cell.env.timeout(1.0)
        if self.how == "raises":
            raise KeyError("slot")
        if self.how == "waits":
            yield cell.env.event()


@pytest.mark.parametrize(
    ("how", "problem"),
    [("raises", "at 4.25 s.*KeyError: 'slot'"), ("returns", "stopped serving"), ("waits", "no further event")],
)
def test_a_mac_that_fails_ends_the_run(make_world, how, problem):
    with pytest.raises(NetflError, match=problem):
        list(make_world(Broken(how=how), first=1).rounds(3))


def test_presence_is_that_of_the_outages(planned):
    """Asked at rising times about changing nodes, it says what the timelines say, and how long that holds."""
    rng = np.random.default_rng(4)
    plan = {node: [(a, a + 1.5) for a in np.cumsum(rng.uniform(2, 6, 20))] for node in range(5)}
    outages = CombinedOutages([planned(plan)])
    presence = NodeState(outages, 6)
    for now_s in np.cumsum(rng.exponential(0.3, 150)):
        nodes = rng.permutation(6)[: rng.integers(1, 7)]
        up = outages.up(nodes, now_s)
        np.testing.assert_array_equal(presence.up(nodes, now_s), up)
        np.testing.assert_array_equal(presence.up_until_s(nodes, now_s)[up], outages.next_change(nodes, now_s)[up])
        pairs = np.column_stack([nodes, np.roll(nodes, 1)])
        together = presence.all_up_from_s(pairs, now_s)
        for pair, at_s in zip(pairs, together, strict=True):
            instants = np.array([now_s, *sorted(t for node in pair for _, t in plan.get(int(node), []) if t > now_s)])
            assert at_s == next(t for t in instants if outages.up(pair, np.full(2, t)).all())


@pytest.mark.slow
def test_nodes_that_are_never_up_together(planned):
    plan = {0: [(10.0 * k, 10.0 * k + 5) for k in range(3000)], 1: [(10.0 * k + 5, 10.0 * k + 10) for k in range(3000)]}
    assert NodeState(CombinedOutages([planned(plan)]), 2).all_up_from_s(np.array([[0, 1]]), 0.0)[0] == np.inf


def test_users_who_collide_for_ever_end_the_run_with_a_message(make_world, monkeypatch):
    monkeypatch.setattr("netfl.network.config._MIN_FAILED_ATTEMPTS", 1000.0)
    with pytest.raises(ModelError, match="1002 attempts in a row have failed, without a delivery"):
        next(make_world(SlottedAloha(probability=1.0), first=1).rounds(1))


@pytest.mark.slow
def test_who_never_meets_the_tower_is_followed_once(make_cell, monkeypatch):
    """User 1 is up when the tower is not: that it never hears of anything is found once, not at each version."""
    span_s = range(0, 40_000, 10)
    plan = {1: [(at_s, at_s + 5.0) for at_s in span_s], 100: [(at_s + 5.0, at_s + 10.0) for at_s in span_s]}
    asked, later = [], NodeState.all_up_later_s
    monkeypatch.setattr(NodeState, "all_up_later_s", lambda *args: asked.extend(args[1][:, 0].tolist()) or later(*args))
    cell = make_cell(2, plan=plan, compute_s=1e9)
    for version in range(6):
        cell.tower.schedule_broadcast(version, 100.0 * version)
    cell.env.run(until=600.0)
    assert asked == [1]
    assert cell.updates.version.tolist() == [5, -1]
