"""Routing: least-cost ways against an exhaustive search, equal ways, failures in time, and chains as stated."""

import itertools

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.message import Message
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
"""By delay the way over routers 2 and 3 is the best (0.2 s), by hops those over router 0 and router 1, 0.3 s each."""


def message(flow):
    return Message(flow, 0, 1.0, 0.0, 1, flow)


@pytest.fixture
def make(make_sites):
    def build(links=DIAMOND, **places):
        return make_sites(links, np.zeros((3, 2)), places)

    return build


def table_of(sites, plan=None, planned=None, **said):
    outages = CombinedOutages([planned({sites.number(name): spans for name, spans in plan.items()})] if plan else [])
    return ShortestPath(**said).open(sites, outages, STREAMS)


def cheapest(graph, node, cost):
    """All cheapest simple paths from *node* to the server, by trying every path."""
    paths = list(nx.all_simple_paths(graph, node, "server"))
    prices = [round(sum(graph.edges[link][cost] for link in itertools.pairwise(path)), 9) for path in paths]
    return [path for path, price in zip(paths, prices, strict=True) if price == min(prices)]


@pytest.mark.parametrize("seed", range(12))
def test_next_hops_are_those_of_all_cheapest_paths(seed):
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(8, 14, seed=seed)
    graph = nx.relabel_nodes(graph, {0: "server"})
    for one, other in graph.edges:
        graph.edges[one, other]["delay_s"] = float(rng.integers(1, 4)) / 10
    hops = least_cost(graph, "server", "delay_s")
    assert set(hops) == nx.node_connected_component(graph, "server") - {"server"}
    for node, found in hops.items():
        best = cheapest(graph, node, "delay_s")
        assert set(found) == {path[1] for path in best}
        assert min(len(path) for path in best) == min(len(path) for path in best if path[1] == found[0])


@pytest.mark.parametrize("seed", range(12))
def test_links_that_cost_nothing_never_make_a_circle(seed):
    rng = np.random.default_rng(seed)
    graph = nx.relabel_nodes(nx.gnm_random_graph(9, 18, seed=seed), {0: "server"})
    for one, other in graph.edges:
        graph.edges[one, other]["delay_s"] = float(rng.integers(0, 2))
    hops = least_cost(graph, "server", "delay_s")
    onward = nx.DiGraph([(node, after) for node, equals in hops.items() for after in equals])
    assert nx.is_directed_acyclic_graph(onward)
    assert all(equals for equals in hops.values())


def test_metrics(make):
    sites = make()
    assert table_of(sites).route("tower:0", 0.0) == ("tower:0", "router:2", "router:3", "server")
    assert table_of(sites, metric="hops").route("tower:0", 0.0) == ("tower:0", "router:0", "server")
    for link in sites.graph.edges.values():
        link["weight"] = 1.0
    sites.graph.edges["router:0", "server"]["weight"] = 5.0
    assert table_of(sites, metric="weight").route("tower:0", 0.0) == ("tower:0", "router:1", "server")
    assert table_of(sites).fixed


def test_equal_ways_by_message_in_turn_and_by_flow_for_good(make):
    sites = make()
    split = table_of(sites, metric="hops", split="message")
    assert not split.fixed
    hops = [split.hop("tower:0", message(0), 0.0) for _ in range(6)]
    assert hops == ["router:0", "router:1"] * 3
    split = table_of(sites, metric="hops", split="flow")
    hops = [[split.hop("tower:0", message(flow), 0.0) for flow in range(4000)] for _ in range(2)]
    assert hops[0] == hops[1]
    assert abs(hops[0].count("router:0") - 2000) < 4.5 * np.sqrt(1000)
    again = table_of(sites, metric="hops", split="flow")
    assert [again.hop("tower:0", message(flow), 0.0) for flow in reversed(range(4000))] == hops[0][::-1]
    assert table_of(sites, split="flow").fixed, "by delay there is only one best way"


def test_routes_change_some_time_after_a_failure_and_after_its_repair(make, planned):
    """Router 3 is down from 10 to 20, known from 13 to 23; the link of router 0 from 12 to 14, known from 15 to 17."""
    plan = {"router:3": [(10, 20)], "router:0-server": [(12, 14)]}
    table = table_of(make(), plan, planned, convergence=3.0)
    assert not table.fixed
    ways = {
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
    for now_s, expected in ways.items():
        assert table.hop("tower:0", message(0), now_s) == expected, now_s
        assert table.route("tower:0", now_s)[1] == expected


def test_what_is_down_at_first_is_known_and_without_a_way_there_is_none(make, planned):
    plan = {"router:3": [(0, 5)], "router:0": [(0, 50)], "router:1": [(2, 50)], "router:2": [(0, 1)]}
    table = table_of(make(), plan, planned, convergence=1.0)
    assert [table.hop("tower:0", message(0), now_s) for now_s in (0, 2.9)] == ["router:1"] * 2
    assert table.hop("tower:0", message(0), 3.0) is None
    assert table.route("tower:0", 4.0) == ()
    assert table.hop("tower:0", message(0), 6.0) == "router:2"


def test_without_convergence_routes_stay(make, planned):
    table = table_of(make(), {"router:3": [(10, 20)]}, planned)
    assert table.fixed
    assert table.route("tower:0", 15.0)[1] == "router:2"


def faults(routing, sites):
    with pytest.raises(ScenarioError) as caught:
        routing.open(sites, CombinedOutages(), STREAMS)
    return [(fault.key, str(fault)) for fault in caught.value.faults]


def test_a_network_in_two_pieces_is_one_fault_with_the_nearest_link(make):
    links = [*DIAMOND, ("tower:1", "router:4", 1e6, 0.1), ("tower:2", "router:4", 1e6, 0.1)]
    sites = make(links, **{"tower:1": (9, 0), "router:4": (5, 0), "tower:2": (9, 9), "router:1": (4, 0)})
    [(_, told)] = faults(ShortestPath(), sites)
    assert told.startswith("no path leads from tower:1, tower:2 to server")
    assert told.endswith("link router:4 to router:1, the nearest node with a path")


def test_links_without_weights_are_a_fault(make):
    [(key, told)] = faults(ShortestPath(metric="weight"), make())
    assert key == "metric"
    assert "link tower:0-router:0 has no weight" in told


class TestStatic:
    def test_chains_as_stated(self, make, planned):
        sites = make()
        said = Static(next={"tower:0": "router:1", "router:1": "server"})
        table = said.open(sites, CombinedOutages([planned({sites.number("router:1"): [(0, 9)]})]), STREAMS)
        assert table.fixed
        assert table.route("tower:0", 5.0) == ("tower:0", "router:1", "server")
        assert table.hop("router:1", message(0), 5.0) == "server"
        assert table.route("router:2", 5.0) == ()

    @pytest.mark.parametrize(
        ("said", "key", "problem", "remedy"),
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
    def test_faults_are_located_and_say_what_would_do(self, make, said, key, problem, remedy):
        [(found, told)] = faults(Static(next=said), make())
        assert found == key
        assert problem in told
        assert told.endswith(remedy)

    def test_a_circle_is_told_once(self, make):
        said = {"tower:0": "router:0", "router:0": "tower:0", "router:1": "tower:0"}
        assert len(faults(Static(next=said), make())) == 1

    def test_nothing_at_all(self):
        with pytest.raises(ScenarioError):
            Static(next={})
