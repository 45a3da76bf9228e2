"""The network simulator: opening and closing of rounds, deliveries that count, and the end of stuck runs."""

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
from netfl.network.radio.connection import Connection
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
def make_simulation(make_layout, scripted_links, planned_outages, recorder):
    """Four users, two at each tower.

    Updates and broadcasts have 1000 bits; an update takes 1 s and a broadcast 2 s. Versions reach tower 0 at 0.25 + 1
    + 2 = 3.25 s and tower 1 at 0.75 + 3 + 2 = 5.75 s. Updates reach the server 1.25 s and 3.75 s after they leave the
    air.
    """

    def make(mac, *, plan=None, compute_s=0.0, first=None, deadline_s=None, capacity=None):
        towers = {"tower:0": (0.0, 0.0), "tower:1": (100.0, 0.0)}
        layout = make_layout(LINKS, [(0, 0), (1, 0), (99, 0), (100, 0)], towers)
        assert layout.names == ("server", "tower:0", "tower:1", "router:0")
        outages = CombinedOutages([planned_outages(plan or {})])
        presence = NodeState(outages, layout.nodes)
        air = scripted_links(lambda users, time_s: np.zeros(len(users)), 4)
        parts = NetworkConfig(
            layout=layout,
            medium=FadingMedium(air, SnrThreshold(threshold=-3, rate=1000), Connection(presence), Streams(3)),
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
        return NetworkSimulator(parts, Streams(3), recorder)

    return make


def test_round_from_broadcast_to_arrival(make_simulation, recorder):
    """TDMA frames take 2 s: user 0 sends at 4 and user 1 at 5; at tower 1 user 2 sends at 6 and user 3 at 7."""
    [result] = make_simulation(Tdma(), first=4).rounds(1)
    assert recorder.events("broadcast") == [(0.0, -1)]
    assert recorder.events("received") == [(3.25, 0), (3.25, 1), (5.75, 2), (5.75, 3)]
    assert recorder.events("sent") == [(4.0, 0), (5.0, 1), (6.0, 2), (7.0, 3)]
    assert result.deliveries == (
        Delivery(user=0, base=0, sent_s=4.0, arrived_s=6.25, attempts=1),
        Delivery(user=1, base=0, sent_s=5.0, arrived_s=7.25, attempts=1),
        Delivery(user=2, base=0, sent_s=6.0, arrived_s=10.75, attempts=1),
        Delivery(user=3, base=0, sent_s=7.0, arrived_s=12.75, attempts=1),
    ), "user 3's update waits at tower 1, whose link is busy from 7 to 9, and is at the router at 10.5"
    assert (result.opened_s, result.closed_s, result.oldest) == (0.0, 12.75, 1)
    assert (result.uplink_bits, result.downlink_bits) == (4000.0, 2000.0)


def test_updates_of_older_versions_are_late(make_simulation, recorder):
    """The first arrival closes a round; the update of user 1 has left the air by then and arrives late."""
    first, second = make_simulation(Tdma(), first=1).rounds(2)
    assert (first.closed_s, second.opened_s) == (6.25, 6.25)
    assert [(delivery.user, delivery.base) for delivery in second.deliveries] == [(0, 1)]
    assert second.deliveries[0].sent_s == 10.0, "received at 9.5"
    assert [row[1:4] for row in recorder.rows if row[0] == "late"] == [(7.25, 2, 1), (10.75, 2, 2)]
    assert second.closed_s == 12.25
    assert recorder.outcomes()[3, 0] == ["unfinished"], "it would arrive at 12.75"


def test_deadline_closes_round(make_simulation, recorder):
    """The second update arrives at 7.25: in time for a deadline at this instant, and late for one before it."""
    first, second = make_simulation(Tdma(), deadline_s=7.25).rounds(2)
    assert [delivery.user for delivery in first.deliveries] == [0, 1]
    assert (first.closed_s, second.closed_s) == (7.25, 14.5)
    first, second = make_simulation(Tdma(), deadline_s=7.0).rounds(2)
    assert [delivery.user for delivery in first.deliveries] == [0]
    assert (first.closed_s, second.closed_s) == (7.0, 14.0)
    assert recorder.outcomes()[1, 0] == ["delivered", "late"]


def test_deadline_closes_round_without_deliveries(make_simulation):
    first, second = make_simulation(Tdma(), compute_s=100.0, deadline_s=20.0).rounds(2)
    assert (first.deliveries, second.deliveries, second.closed_s) == ((), (), 40.0)


def test_round_closes_at_first_m_or_deadline(make_simulation):
    first, second = make_simulation(Tdma(), compute_s=[0.0, 0.0, 50.0, 50.0], first=2, deadline_s=12.0).rounds(2)
    assert (first.closed_s, second.closed_s) == (7.25, 14.25), "each with its second arrival, not at 12"
    third, fourth = make_simulation(Tdma(), compute_s=[0.0, 50.0, 50.0, 50.0], first=2, deadline_s=12.0).rounds(2)
    assert (third.closed_s, fourth.closed_s) == (12.0, 24.0), "the deadline of a closed round does not close another"


def test_round_without_deadline_closes_when_all_updates_have_ended(make_simulation, recorder):
    """Two users of each cell collide in slots 4 and 6 and have one attempt, so the last outcome is at 7."""
    first, second = make_simulation(SlottedAloha(probability=1, max_attempts=1), first=1).rounds(2)
    assert (first.deliveries, first.closed_s, second.opened_s) == ((), 7.0, 7.0)
    assert set(map(tuple, recorder.outcomes().values())) == {("collided",)}


def test_round_closes_with_fewer_than_m_deliveries(make_simulation):
    """Users 2 and 3 are down for ever."""
    first, second = make_simulation(Tdma(), plan={2: [(0, np.inf)], 3: [(0, np.inf)]}, first=3).rounds(2)
    assert [delivery.user for delivery in first.deliveries] == [0, 1]
    assert (first.closed_s, len(second.deliveries)) == (7.25, 2)


def test_user_cut_off_while_waiting_does_not_delay_round(make_simulation):
    result, _ = make_simulation(Tdma(), plan={TOWER_1: [(5.9, np.inf)]}, first=3).rounds(2)
    assert [delivery.user for delivery in result.deliveries] == [0, 1]


def test_permanent_outage_of_server_raises_error(make_simulation):
    simulation = make_simulation(Tdma(), plan={SERVER: [(8.0, np.inf)]}, first=1)
    rounds = simulation.rounds(5)
    next(rounds)
    with pytest.raises(ModelError, match="permanently cut off from the server"):
        list(rounds)


def test_run_continues_after_outage_of_all_nodes(make_simulation, recorder):
    """All nodes are down from 5.5 to 1000 s: frames on the air are lost; tower 1 receives the version afterwards."""
    everything = {node: [(5.5, 1000.0)] for node in range(8)}
    first, second = make_simulation(Tdma(), plan=everything, first=1).rounds(2)
    assert recorder.events("lost") == [(5.5, 0)], "user 0's update is at its tower when the outage starts"
    assert first.deliveries[0].arrived_s == 1003.25
    assert (1000.0, 2) in recorder.events("received")
    assert second.opened_s == 1003.25
    assert recorder.events("down")[0] == (5.5, -1)
    assert len(recorder.events("down")) == len(recorder.events("up")) == 8


def test_server_must_be_up(make_simulation, recorder):
    """The server cannot broadcast before 10 s, nor receive from 12.5 to 13.5 s."""
    [result] = make_simulation(Tdma(), plan={SERVER: [(0.0, 10.0), (12.5, 13.5)]}, first=4).rounds(1)
    assert recorder.events("received")[0] == (10.0, 0)
    assert recorder.events("lost") == [(13.25, 1)]
    assert [delivery.user for delivery in result.deliveries] == [0, 2, 3]
    outages = [(row[0], row[1], row[4]) for row in recorder.rows if row[0] in {"down", "up"}]
    assert sorted(outages, key=lambda row: row[1]) == [
        ("down", 0.0, "server"),
        ("up", 10.0, "server"),
        ("down", 12.5, "server"),
        ("up", 13.5, "server"),
    ]


def test_full_port_drops_message(make_simulation, recorder):
    """The link of tower 1 takes 2 s for an update, and the second update finds no room."""
    [result] = make_simulation(Tdma(), first=4, capacity=0).rounds(1)
    assert recorder.events("dropped") == [(8.0, 3)]
    assert [delivery.user for delivery in result.deliveries] == [0, 1, 2]


def test_end_of_run_ends_all_updates(make_simulation, recorder):
    """At 6.25, when the run ends, user 1 has left the air, user 2 is on it and user 3 waits."""
    list(make_simulation(Tdma(), first=1).rounds(1))
    assert recorder.outcomes() == {(0, 0): ["delivered"]} | {(user, 0): ["unfinished"] for user in (1, 2, 3)}


class FailingMac(Mac):
    """MAC that fails after it has served for some time."""

    failure: str

    def serve(self, cell):
        yield cell.wait_for_backlog()
        yield cell.env.timeout(1.0)
        if self.failure == "raises":
            raise KeyError("slot")
        if self.failure == "waits":
            yield cell.env.event()


@pytest.mark.parametrize(
    ("failure", "problem"),
    [("raises", "at 4.25 s.*KeyError: 'slot'"), ("returns", "stopped serving"), ("waits", "no further event")],
)
def test_failing_mac_raises_error(make_simulation, failure, problem):
    with pytest.raises(NetflError, match=problem) as raised:
        list(make_simulation(FailingMac(failure=failure), first=1).rounds(3))
    assert (raised.value.__cause__ is not None) == (failure == "raises")  # a cause is shown with its traceback


def test_node_state_matches_outages(planned_outages):
    """Queries at rising times about changing nodes return the state and the time of the next change."""
    rng = np.random.default_rng(4)
    plan = {node: [(a, a + 1.5) for a in np.cumsum(rng.uniform(2, 6, 20))] for node in range(5)}
    outages = CombinedOutages([planned_outages(plan)])
    presence = NodeState(outages, 6)
    for now_s in np.cumsum(rng.exponential(0.3, 150)):
        nodes = rng.permutation(6)[: rng.integers(1, 7)]
        up = outages.up(nodes, now_s)
        np.testing.assert_array_equal(presence.up(nodes, now_s), up)
        np.testing.assert_array_equal(presence.up_until_s(nodes, now_s)[up], outages.next_change(nodes, now_s)[up])
        pairs = np.column_stack([nodes, np.roll(nodes, 1)])
        all_up_s = presence.all_up_from_s(pairs, now_s)
        for pair, at_s in zip(pairs, all_up_s, strict=True):
            instants = np.array([now_s, *sorted(t for node in pair for _, t in plan.get(int(node), []) if t > now_s)])
            assert at_s == next(t for t in instants if outages.up(pair, np.full(2, t)).all())


@pytest.mark.slow
def test_nodes_never_up_together_return_infinity(planned_outages):
    plan = {0: [(10.0 * k, 10.0 * k + 5) for k in range(3000)], 1: [(10.0 * k + 5, 10.0 * k + 10) for k in range(3000)]}
    assert NodeState(CombinedOutages([planned_outages(plan)]), 2).all_up_from_s(np.array([[0, 1]]), 0.0)[0] == np.inf


def test_endless_collisions_raise_error(make_simulation, monkeypatch):
    monkeypatch.setattr("netfl.network.config._MIN_FAILED_ATTEMPTS", 1000.0)
    with pytest.raises(ModelError, match="1002 attempts in a row have failed, without a delivery"):
        next(make_simulation(SlottedAloha(probability=1.0), first=1).rounds(1))


@pytest.mark.slow
def test_user_that_never_meets_tower_is_searched_once(make_cell, monkeypatch):
    """User 1 is up only while the tower is down; the search for a common time runs once and not for each version."""
    span_s = range(0, 40_000, 10)
    plan = {1: [(at_s, at_s + 5.0) for at_s in span_s], 100: [(at_s + 5.0, at_s + 10.0) for at_s in span_s]}
    queried, all_up_later_s = [], NodeState.all_up_later_s
    monkeypatch.setattr(
        NodeState, "all_up_later_s", lambda *args: queried.extend(args[1][:, 0].tolist()) or all_up_later_s(*args)
    )
    cell = make_cell(2, plan=plan, compute_s=1e9)
    for version in range(6):
        cell.tower.schedule_broadcast(version, 100.0 * version)
    cell.env.run(until=600.0)
    assert queried == [1]
    assert cell.updates.version.tolist() == [5, -1]
