"""Routes at work: messages through ports and around failures, broadcasts on the way down, counts for each link."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import simpy

from netfl.errors import ScenarioError
from netfl.network.backhaul.routes import Routes
from netfl.network.event_log import EventLog
from netfl.network.message import Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.relay import Relay
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.routing.static import Static
from netfl.streams import Streams

LINKS = [
    ("tower:0", "router:0", 1000.0, 0.1),
    ("router:0", "server", 500.0, 0.1),
    ("tower:0", "router:1", 1000.0, 0.5),
    ("router:1", "server", 1000.0, 0.5),
]


class Journey:
    """Messages of 1000 bits that enter at a node at stated times; when each came to the server."""

    def __init__(self, sites, memory, *, routing=None, outages=None, queues=None):
        self.env, self.arrived = simpy.Environment(0.0), {}
        self.ledger = EventLog(memory, 1000)
        outages = outages or CombinedOutages()
        config = SimpleNamespace(layout=sites, routing=routing or ShortestPath(), outages=outages)
        config.node_state, config.queue, config.queues = NodeState(outages, sites.nodes), DropTail(), queues or {}
        network = SimpleNamespace(env=self.env, log=self.ledger, config=config, streams=Streams(61))
        self.routes = Routes(network)
        self.sinks = self.routes.open_ports(self._arrive)

    def _arrive(self, message):
        self.arrived[message.user] = pytest.approx(self.env.now)

    def send(self, *times_s, node="tower:0", flows=None):
        def come():
            for index, time_s in enumerate(times_s):
                yield self.env.timeout(time_s - self.env.now)
                flow = index if flows is None else flows[index]
                message = Message(index, 0, 1000.0, time_s, 1, flow)
                self.ledger.in_flight[message] = None
                self.sinks[node](message)

        self.env.process(come())
        self.env.run()
        return self.arrived


@pytest.fixture
def sites(make_sites):
    return make_sites(LINKS, np.zeros((3, 2)), {})


def forwarded(memory):
    """Number of messages that each router has forwarded."""
    return Counter(row[4] for row in memory.rows if row[0] == "forwarded" and row[4].startswith("router"))


def out(sites, planned, **plan):
    return CombinedOutages([planned({sites.number(name): spans for name, spans in plan["plan"].items()})])


def test_by_least_delay_unless_something_else_is_said(sites, memory):
    """1 s and 0.1 s to router 0, 2 s and 0.1 s on to the server; over router 1 twice 1.5 s."""
    assert Journey(sites, memory).send(0.0, 0.5) == {0: 3.2, 1: 5.2}
    chain = Static(next={"tower:0": "router:1", "router:1": "server"})
    assert Journey(sites, memory, routing=chain).send(0.0, 0.5) == {0: 3.0, 1: 4.0}


def test_messages_may_enter_at_routers(sites, memory):
    journey = Journey(sites, memory)
    assert journey.send(0.0, node="router:0") == {0: 2.1}
    assert set(journey.sinks) == {"tower:0", "router:0", "router:1", "server"}


def test_around_a_failure_once_it_is_known(sites, memory, planned):
    """Router 0 is down from 10 to 20, known from 12 to 22: lost till 12, around it till 22."""
    outages = out(sites, planned, plan={"router:0": [(10, 20)]})
    journey = Journey(sites, memory, routing=ShortestPath(convergence=2.0), outages=outages)
    arrived = journey.send(0.0, 8.0, 9.5, 10.5, 12.0, 21.0, 22.0)
    assert arrived == {0: 3.2, 4: 15.0, 5: 24.0, 6: 25.2}
    lost = [(row[1], row[3], row[4]) for row in memory.rows if row[0] == "lost"]
    assert lost == [(10.0, 1, "router:0"), (pytest.approx(10.6), 2, "router:0"), (pytest.approx(11.6), 3, "router:0")]


def test_what_waits_for_a_link_that_fails_is_lost_there(sites, memory, planned):
    """The link router 0 to server fails at 2: one is half sent; the next comes at 2.6; later ones go around."""
    outages = out(sites, planned, plan={"router:0-server": [(2, 99)]})
    journey = Journey(sites, memory, routing=ShortestPath(convergence=1.0), outages=outages)
    assert journey.send(0.0, 1.5, 3.0) == {2: 6.0}
    lost = [(row[1], row[4]) for row in memory.rows if row[0] == "lost"]
    assert lost == [(2.0, "router:0-server"), (pytest.approx(2.6), "router:0-server")]


def test_with_no_way_left_messages_are_lost_where_they_are(sites, memory, planned):
    outages = out(sites, planned, plan={"router:0": [(5, 90)], "router:1-server": [(5, 90)]})
    journey = Journey(sites, memory, routing=ShortestPath(convergence=0.0), outages=outages)
    assert journey.send(0.0, 6.0, 95.0) == {0: 3.2, 2: 98.2}
    assert [(row[1], row[4]) for row in memory.rows if row[0] == "lost"] == [(6.0, "tower:0")]


def test_without_convergence_all_go_the_old_way(sites, memory, planned):
    outages = out(sites, planned, plan={"router:0": [(10, 20)]})
    journey = Journey(sites, memory, outages=outages)
    assert set(journey.send(0.0, 15.0, 30.0)) == {0, 2}


def test_equal_ways_share_messages(sites, memory):
    journey = Journey(sites, memory, routing=ShortestPath(metric="hops", split="message"))
    assert len(journey.send(*range(0, 40, 4))) == 10
    assert forwarded(memory) == {"router:0": 5, "router:1": 5}


def test_a_flow_keeps_its_way(sites, memory):
    journey = Journey(sites, memory, routing=ShortestPath(metric="hops", split="flow"))
    journey.send(*range(0, 400, 4), flows=[7] * 100)
    assert forwarded(memory) in ({"router:0": 100}, {"router:1": 100})


def test_a_queue_of_its_own_for_a_node_or_a_link(sites, memory):
    """At the tower no room, at router 0 all wait: two of three that come together are dropped, or relayed anew."""
    for queues, arrive in [
        ({"tower:0": DropTail(capacity=0)}, {0}),
        ({"tower:0-router:0": Relay(flow_capacity=1)}, {0, 2}),
        ({"router:0": DropTail(capacity=0)}, {0, 2}),
        ({"tower:0-router:1": DropTail(capacity=0)}, {0, 1, 2}),
    ]:
        journey = Journey(sites, memory, queues=queues)
        assert set(journey.send(0.0, 0.0, 0.0, flows=[1, 1, 1])) == arrive, queues


def test_queues_for_what_there_is_not(sites, memory):
    with pytest.raises(ScenarioError) as caught:
        Journey(sites, memory, queues={"rooter:0": DropTail(), "tower:0-server": DropTail()})
    assert [(fault.key, fault.remedy) for fault in caught.value.faults] == [
        ("rooter:0", "did you mean 'router:0'?"),
        ("tower:0-server", "did you mean 'router:0-server'?"),
    ]


def test_the_way_down_is_the_best_at_the_time(sites, memory, planned):
    outages = out(sites, planned, plan={"router:0": [(10, 20)], "router:1": [(15, 20)]})
    routes = Journey(sites, memory, routing=ShortestPath(convergence=1.0), outages=outages).routes
    names = lambda now_s: [sites.name(node) for node in routes.numbers("tower:0", now_s)]  # noqa: E731
    assert routes.delay_s("tower:0", 1000.0, 0.0) == pytest.approx(0.2 + 1 + 2)
    assert names(0.0) == ["tower:0", "router:0", "server", "tower:0-router:0", "router:0-server"]
    assert routes.delay_s("tower:0", 1000.0, 12.0) == pytest.approx(1.0 + 2)
    assert routes.of("tower:0", 17.0) == ()
    assert names(17.0)[1] == "router:0", "the usual way, until it is up again"


def test_each_link_counts_the_time_in_which_it_sends(sites, memory):
    journey = Journey(sites, memory)
    journey.send(0.0, 0.0, 10.0)
    busy_s = journey.routes.busy_by_s(20.0)
    assert busy_s == {"tower:0-router:0": 3.0, "router:0-server": pytest.approx(6.0), "router:1-server": 0.0}
