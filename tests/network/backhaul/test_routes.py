"""Routes: messages through ports and around failures, broadcasts, and busy times of links."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from support.updates_in_flight import make_update

from netfl.errors import ScenarioError
from netfl.network.backhaul.routes import Routes
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.relay import Relay
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.routing.static import Static
from netfl.network.updates import OutstandingUpdates
from netfl.streams import Streams

LINKS = [
    ("tower:0", "router:0", 1000.0, 0.1),
    ("router:0", "server", 500.0, 0.1),
    ("tower:0", "router:1", 1000.0, 0.5),
    ("router:1", "server", 1000.0, 0.5),
]


class RoutedNetwork:
    """Network that sends messages of 1000 bits from a node and records their arrivals at the server."""

    def __init__(self, layout, recorder, *, routing=None, outages=None, queues=None):
        self.env, self.arrived = Clock(), {}
        self.outstanding = OutstandingUpdates(1000)
        outages = outages or CombinedOutages()
        config = SimpleNamespace(layout=layout, routing=routing or ShortestPath(), outages=outages)
        config.node_state, config.queue, config.queues = NodeState(outages, layout.nodes), DropTail(), queues or {}
        self.routes = Routes(config, self.env, EventLog(recorder, 1000), Streams(61))
        self.sinks = self.routes.open_ports(self._arrive)

    def _arrive(self, message):
        self.arrived[message.user] = pytest.approx(self.env.now)

    def send(self, *times_s, node="tower:0", flows=None):
        def enter_messages():
            for index, time_s in enumerate(times_s):
                yield self.env.timeout(time_s - self.env.now)
                flow = index if flows is None else flows[index]
                self.sinks[node](make_update(self.outstanding, index, 1000.0, sent_s=time_s, flow=flow))

        self.env.process(enter_messages())
        self.env.run()
        return self.arrived


@pytest.fixture
def layout(make_layout):
    return make_layout(LINKS, np.zeros((3, 2)), {})


def forwarded_counts(recorder):
    """Return the number of messages that each router has forwarded."""
    return Counter(row[4] for row in recorder.rows if row[0] == "forwarded" and row[4].startswith("router"))


def build_outages(layout, planned_outages, **plan):
    return CombinedOutages([planned_outages({layout.number(name): spans for name, spans in plan["plan"].items()})])


def test_routes_minimise_delay_by_default(layout, recorder):
    """Router 0 takes 1 + 0.1 s and 2 + 0.1 s; router 1 takes 1.5 s twice."""
    assert RoutedNetwork(layout, recorder).send(0.0, 0.5) == {0: 3.2, 1: 5.2}
    static = Static(next={"tower:0": "router:1", "router:1": "server"})
    assert RoutedNetwork(layout, recorder, routing=static).send(0.0, 0.5) == {0: 3.0, 1: 4.0}


def test_messages_may_enter_at_routers(layout, recorder):
    network = RoutedNetwork(layout, recorder)
    assert network.send(0.0, node="router:0") == {0: 2.1}
    assert set(network.sinks) == {"tower:0", "router:0", "router:1", "server"}


def test_routes_avoid_known_failure(layout, recorder, planned_outages):
    """Router 0 is down from 10 to 20, which is known from 12 to 22."""
    outages = build_outages(layout, planned_outages, plan={"router:0": [(10, 20)]})
    network = RoutedNetwork(layout, recorder, routing=ShortestPath(convergence=2.0), outages=outages)
    arrived = network.send(0.0, 8.0, 9.5, 10.5, 12.0, 21.0, 22.0)
    assert arrived == {0: 3.2, 4: 15.0, 5: 24.0, 6: 25.2}
    lost = [(row[1], row[3], row[4]) for row in recorder.rows if row[0] == "lost"]
    assert lost == [(10.0, 1, "router:0"), (pytest.approx(10.6), 2, "router:0"), (pytest.approx(11.6), 3, "router:0")]


def test_messages_at_failed_link_are_lost(layout, recorder, planned_outages):
    """The link from router 0 to the server fails at 2: one message is half sent, the next arrives at 2.6."""
    outages = build_outages(layout, planned_outages, plan={"router:0-server": [(2, 99)]})
    network = RoutedNetwork(layout, recorder, routing=ShortestPath(convergence=1.0), outages=outages)
    assert network.send(0.0, 1.5, 3.0) == {2: 6.0}
    lost = [(row[1], row[4]) for row in recorder.rows if row[0] == "lost"]
    assert lost == [(2.0, "router:0-server"), (pytest.approx(2.6), "router:0-server")]


def test_messages_without_route_are_lost(layout, recorder, planned_outages):
    outages = build_outages(layout, planned_outages, plan={"router:0": [(5, 90)], "router:1-server": [(5, 90)]})
    network = RoutedNetwork(layout, recorder, routing=ShortestPath(convergence=0.0), outages=outages)
    assert network.send(0.0, 6.0, 95.0) == {0: 3.2, 2: 98.2}
    assert [(row[1], row[4]) for row in recorder.rows if row[0] == "lost"] == [(6.0, "tower:0")]


def test_routes_are_constant_without_convergence(layout, recorder, planned_outages):
    outages = build_outages(layout, planned_outages, plan={"router:0": [(10, 20)]})
    network = RoutedNetwork(layout, recorder, outages=outages)
    assert set(network.send(0.0, 15.0, 30.0)) == {0, 2}


def test_equal_routes_share_messages(layout, recorder):
    network = RoutedNetwork(layout, recorder, routing=ShortestPath(metric="hops", split="message"))
    assert len(network.send(*range(0, 40, 4))) == 10
    assert forwarded_counts(recorder) == {"router:0": 5, "router:1": 5}


def test_flow_keeps_its_route(layout, recorder):
    network = RoutedNetwork(layout, recorder, routing=ShortestPath(metric="hops", split="flow"))
    network.send(*range(0, 400, 4), flows=[7] * 100)
    assert forwarded_counts(recorder) in ({"router:0": 100}, {"router:1": 100})


def test_queues_of_single_nodes_and_links(layout, recorder):
    """Capacity 0 or a relay drops messages that arrive together at the node or link."""
    for queues, expected in [
        ({"tower:0": DropTail(capacity=0)}, {0}),
        ({"tower:0-router:0": Relay(flow_capacity=1)}, {0, 2}),
        ({"router:0": DropTail(capacity=0)}, {0, 2}),
        ({"tower:0-router:1": DropTail(capacity=0)}, {0, 1, 2}),
    ]:
        network = RoutedNetwork(layout, recorder, queues=queues)
        assert set(network.send(0.0, 0.0, 0.0, flows=[1, 1, 1])) == expected, queues


def test_queues_of_unknown_nodes_are_rejected(layout, recorder):
    with pytest.raises(ScenarioError) as error:
        RoutedNetwork(layout, recorder, queues={"rooter:0": DropTail(), "tower:0-server": DropTail()})
    assert [(fault.key, fault.remedy) for fault in error.value.faults] == [
        ("rooter:0", "did you mean 'router:0'?"),
        ("tower:0-server", "did you mean 'router:0-server'?"),
    ]


def test_downlink_uses_current_route(layout, recorder, planned_outages):
    outages = build_outages(layout, planned_outages, plan={"router:0": [(10, 20)], "router:1": [(15, 20)]})
    routes = RoutedNetwork(layout, recorder, routing=ShortestPath(convergence=1.0), outages=outages).routes
    route_names = lambda now_s: [layout.name(node) for node in routes.numbers("tower:0", now_s)]  # noqa: E731
    assert routes.delay_s("tower:0", 1000.0, 0.0) == pytest.approx(0.2 + 1 + 2)
    assert route_names(0.0) == ["tower:0", "router:0", "server", "tower:0-router:0", "router:0-server"]
    assert routes.delay_s("tower:0", 1000.0, 12.0) == pytest.approx(1.0 + 2)
    assert routes.of("tower:0", 17.0) == ()
    assert route_names(17.0)[1] == "router:0", "the usual route, until it is up again"


def test_busy_time_of_links(layout, recorder):
    network = RoutedNetwork(layout, recorder)
    network.send(0.0, 0.0, 10.0)
    busy_s = network.routes.busy_by_s(20.0)
    assert busy_s == {"tower:0-router:0": 3.0, "router:0-server": pytest.approx(6.0), "router:1-server": 0.0}
