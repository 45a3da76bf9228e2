"""Routing: least-cost routes compared with exhaustive search, equal routes, failures and static routes."""

import itertools

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.message import Packet
from netfl.network.outage._combined import CombinedOutages
from netfl.network.routing._paths import least_cost
from netfl.network.routing.shortest_path import ShortestPath
from netfl.network.routing.static import Static
from netfl.streams import Streams

STREAMS = Streams(59)
DIAMOND = [
    ("tower:0", "router:0", 1e6, 0.1),
    ("tower:0", "router:1", 1e6, 0.2),
    ("router:0", "server", 1e6, 0.2),
    ("router:1", "server", 1e6, 0.1),
    ("tower:0", "router:2", 1e6, 0.1),
    ("router:2", "router:3", 1e6, 0.05),
    ("router:3", "server", 1e6, 0.05),
]
"""The best route by delay is over routers 2 and 3 (0.2 s); by hops over router 0 or router 1, with 0.3 s."""


def message(flow):
    return Packet(flow, 1.0, flow)


@pytest.fixture
def make_network(make_layout):
    def build(links=DIAMOND, **places):
        return make_layout(links, np.zeros((3, 2)), places)

    return build


def open_routes(layout, plan=None, planned_outages=None, **overrides):
    outages = CombinedOutages(
        [planned_outages({layout.number(name): spans for name, spans in plan.items()})] if plan else []
    )
    return ShortestPath(**overrides).open(layout, outages, STREAMS)


def cheapest_paths(graph, node, cost):
    """Return all cheapest simple paths from *node* to the server, from all paths."""
    paths = list(nx.all_simple_paths(graph, node, "server"))
    costs = [round(sum(graph.edges[link][cost] for link in itertools.pairwise(path)), 9) for path in paths]
    return [path for path, path_cost in zip(paths, costs, strict=True) if path_cost == min(costs)]


@pytest.mark.parametrize("seed", range(12))
def test_next_hops_match_cheapest_paths(seed):
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(8, 14, seed=seed)
    graph = nx.relabel_nodes(graph, {0: "server"})
    for first, second in graph.edges:
        graph.edges[first, second]["delay_s"] = float(rng.integers(1, 4)) / 10
    hops = least_cost(graph, "server", "delay_s")
    assert set(hops) == nx.node_connected_component(graph, "server") - {"server"}
    for node, next_nodes in hops.items():
        paths = cheapest_paths(graph, node, "delay_s")
        assert set(next_nodes) == {path[1] for path in paths}
        assert min(len(path) for path in paths) == min(len(path) for path in paths if path[1] == next_nodes[0])


@pytest.mark.parametrize("seed", range(12))
def test_links_without_cost_cause_no_cycle(seed):
    rng = np.random.default_rng(seed)
    graph = nx.relabel_nodes(nx.gnm_random_graph(9, 18, seed=seed), {0: "server"})
    for first, second in graph.edges:
        graph.edges[first, second]["delay_s"] = float(rng.integers(0, 2))
    hops = least_cost(graph, "server", "delay_s")
    hop_graph = nx.DiGraph([(node, next_node) for node, next_nodes in hops.items() for next_node in next_nodes])
    assert nx.is_directed_acyclic_graph(hop_graph)
    assert all(next_nodes for next_nodes in hops.values())


def test_metrics_select_routes(make_network):
    layout = make_network()
    assert open_routes(layout).route("tower:0", 0.0) == ("tower:0", "router:2", "router:3", "server")
    assert open_routes(layout, metric="hops").route("tower:0", 0.0) == ("tower:0", "router:0", "server")
    for link in layout.graph.edges.values():
        link["weight"] = 1.0
    layout.graph.edges["router:0", "server"]["weight"] = 5.0
    assert open_routes(layout, metric="weight").route("tower:0", 0.0) == ("tower:0", "router:1", "server")
    assert open_routes(layout).fixed


def test_equal_routes_split_by_message_or_flow(make_network):
    layout = make_network()
    split = open_routes(layout, metric="hops", split="message")
    assert not split.fixed
    hops = [split.hop("tower:0", message(0), 0.0) for _ in range(6)]
    assert hops == ["router:0", "router:1"] * 3
    split = open_routes(layout, metric="hops", split="flow")
    hops = [[split.hop("tower:0", message(flow), 0.0) for flow in range(4000)] for _ in range(2)]
    assert hops[0] == hops[1]
    assert abs(hops[0].count("router:0") - 2000) < 4.5 * np.sqrt(1000)
    other = open_routes(layout, metric="hops", split="flow")
    assert [other.hop("tower:0", message(flow), 0.0) for flow in reversed(range(4000))] == hops[0][::-1]
    assert open_routes(layout, split="flow").fixed, "there is only one best route by delay"


def test_all_flows_take_one_of_equal_routes_without_split(make_network, planned_outages):
    """While router 3 is down, routes over router 0 and over router 1 have equal delays."""
    table = open_routes(make_network(), {"router:3": [(0, 5)]}, planned_outages, convergence=0.0)
    assert {table.hop("tower:0", message(flow), 1.0) for flow in range(20)} == {"router:0"}


def test_routes_change_after_failure_and_repair(make_network, planned_outages):
    """Router 3 is down from 10 to 20, known from 13 to 23; the link of router 0 from 12 to 14, known from 15 to 17."""
    plan = {"router:3": [(10, 20)], "router:0-server": [(12, 14)]}
    table = open_routes(make_network(), plan, planned_outages, convergence=3.0)
    assert not table.fixed
    next_hops = {
        0: "router:2",
        12.9: "router:2",
        13: "router:0",
        14.9: "router:0",
        15: "router:1",
        16.9: "router:1",
        17: "router:0",
        22.9: "router:0",
        23: "router:2",
    }
    for now_s, expected in next_hops.items():
        assert table.hop("tower:0", message(0), now_s) == expected, now_s
        assert table.route("tower:0", now_s)[1] == expected


def test_initial_outages_are_known(make_network, planned_outages):
    plan = {"router:3": [(0, 5)], "router:0": [(0, 50)], "router:1": [(2, 50)], "router:2": [(0, 1)]}
    table = open_routes(make_network(), plan, planned_outages, convergence=1.0)
    assert [table.hop("tower:0", message(0), now_s) for now_s in (0, 2.9)] == ["router:1"] * 2
    assert table.hop("tower:0", message(0), 3.0) is None
    assert table.route("tower:0", 4.0) == ()
    assert table.hop("tower:0", message(0), 6.0) == "router:2"


def test_routes_are_constant_without_convergence(make_network, planned_outages):
    table = open_routes(make_network(), {"router:3": [(10, 20)]}, planned_outages)
    assert table.fixed
    assert table.route("tower:0", 15.0)[1] == "router:2"


def list_problems(routing, layout):
    with pytest.raises(ScenarioError) as error:
        routing.open(layout, CombinedOutages(), STREAMS)
    return [(fault.key, str(fault)) for fault in error.value.faults]


def test_disconnected_network_is_reported_with_nearest_link(make_network):
    links = [*DIAMOND, ("tower:1", "router:4", 1e6, 0.1), ("tower:2", "router:4", 1e6, 0.1)]
    layout = make_network(links, **{"tower:1": (9, 0), "router:4": (5, 0), "tower:2": (9, 9), "router:1": (4, 0)})
    [(_, problem)] = list_problems(ShortestPath(), layout)
    assert problem.startswith("no path leads from tower:1, tower:2 to server")
    assert problem.endswith("link router:4 to router:1, the nearest node with a path")


def test_links_without_weights_are_rejected(make_network):
    [(key, problem)] = list_problems(ShortestPath(metric="weight"), make_network())
    assert key == "metric"
    assert "link tower:0-router:0 has no weight" in problem


class TestStatic:
    def test_routes_follow_next_hops(self, make_network, planned_outages):
        layout = make_network()
        routing = Static(next={"tower:0": "router:1", "router:1": "server"})
        table = routing.open(layout, CombinedOutages([planned_outages({layout.number("router:1"): [(0, 9)]})]), STREAMS)
        assert table.fixed
        assert table.route("tower:0", 5.0) == ("tower:0", "router:1", "server")
        assert table.hop("router:1", message(0), 5.0) == "server"
        assert table.route("router:2", 5.0) == ()

    @pytest.mark.parametrize(
        ("next_hops", "key", "problem", "remedy"),
        [
            ({"tower:0": "rooter:2"}, "next.tower:0", "no such node", "did you mean 'router:2'?"),
            ({"tower:9": "server"}, "next.tower:9", "no such tower or router", "did you mean 'tower:0'?"),
            ({"tower:0": "server"}, "next.tower:0", "no link joins tower:0 to it", "its best next hop is router:0"),
            ({"server": "tower:0", "tower:0": "router:0"}, "next.server", "the server has no next hop", "leave it out"),
            ({"router:0": "server"}, "next", "tower:0 has no next hop", "its best next hop is router:0"),
            ({"tower:0": "router:2"}, "next", "router:2 has no next hop", "its best next hop is router:3"),
            (
                {"tower:0": "router:2", "router:2": "router:3", "router:3": "router:2"},
                "next.router:3",
                "these hops form a cycle that does not reach server: router:2 → router:3 → router:2",
                "its best next hop is server",
            ),
        ],
    )
    def test_errors_name_key_and_remedy(self, make_network, next_hops, key, problem, remedy):
        [(found_key, message)] = list_problems(Static(next=next_hops), make_network())
        assert found_key == key
        assert problem in message
        assert message.endswith(remedy)

    def test_cycle_is_reported_once(self, make_network):
        next_hops = {"tower:0": "router:0", "router:0": "tower:0", "router:1": "tower:0"}
        assert len(list_problems(Static(next=next_hops), make_network())) == 1

    def test_empty_routes_are_rejected(self):
        with pytest.raises(ScenarioError):
            Static(next={})
