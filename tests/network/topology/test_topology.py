"""Layouts against plane geometry; the laws of positions are also held by the generic law test."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.topology.random_geometric import RandomGeometric
from netfl.network.topology.star import Star
from netfl.network.topology.tree import Tree
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)


class TestStar:
    def test_one_tower_and_one_link(self):
        sites = Star(radius="2 km", rate="10 Mbps", delay="3 ms").open(50, STREAMS)
        assert set(sites.names) == {"server", "tower:0"}
        assert sites.graph.edges["server", "tower:0"] == {"rate_bps": 1e7, "delay_s": 0.003}
        assert sites.route("tower:0") == ("tower:0", "server")
        assert (sites.distance_m <= 2000.0).all()

    def test_one_distance_for_all(self):
        sites = Star(distance="120 m").open(1000, STREAMS)
        assert sites.distance_m == pytest.approx(120.0, rel=1e-12)
        # directions are uniform: the mean of n unit vectors is within sqrt(-ln(1e-6) / n) but for one seed in a million
        assert np.hypot(*sites.user_xy_m.mean(axis=0)) / 120.0 < math.sqrt(-math.log(1e-6) / 1000)

    def test_a_distance_for_each(self):
        assert Star(distances=[1, 2.5, "3 km"]).open(3, STREAMS).distance_m == pytest.approx([1.0, 2.5, 3000.0])

    def test_as_many_distances_as_users(self):
        star = Star(distances=[1, 2, 3])
        assert list(star.faults(ScenarioFacts(users=3, rounds=1))) == []
        assert [fault.key for fault in star.faults(ScenarioFacts(users=4, rounds=1))] == ["distances"]

    @pytest.mark.parametrize("given", [{}, {"radius": 1, "distance": 1}, {"distance": -1}, {"distances": [1, 0]}])
    def test_exactly_one_positive_placement(self, given):
        with pytest.raises(ScenarioError):
            Star(**given)

    def test_more_users_leave_the_others_where_they_are(self):
        few, many = (Star(radius=100).open(users, STREAMS).user_xy_m for users in (10, 100))
        assert (few == many[:10]).all()


class TestTree:
    def test_roles_and_links(self):
        sites = Tree(fanout=[2, 3], ring="4 km", radius="7 km", delay="2 ms").open(10, STREAMS)
        assert sites.with_role("router") == ("router:0", "router:1")
        assert len(sites.towers) == 6
        assert nx.is_tree(sites.graph)
        assert sites.route("tower:4") == ("tower:4", "router:1", "server")
        assert {edge["delay_s"] for *_, edge in sites.graph.edges(data=True)} == {0.002}

    def test_deep_trees_number_routers_through(self):
        sites = Tree(fanout=[1, 2, 2], ring=10, radius=10).open(0, STREAMS)
        assert sites.with_role("router") == ("router:0", "router:1", "router:2")
        assert sites.route("tower:3") == ("tower:3", "router:2", "router:0", "server")

    def test_towers_spread_evenly_over_the_ring(self):
        sites = Tree(fanout=[3], ring=1000, radius=10).open(0, STREAMS)
        places = [sites.node_xy_m[sites.number(name)] for name in sites.towers]
        sides = [math.dist(one, other) for one, other in itertools.combinations(places, 2)]
        assert sides == pytest.approx([1000 * math.sqrt(3)] * 3)
        assert sites.node_xy_m[sites.number("server")] == pytest.approx([0.0, 0.0], abs=1e-9)

    def test_towers_at_given_places_and_the_router_between_them(self):
        sites = Tree(fanout=[1, 2], towers=[["0 m", "1 km"], ["2 km", "1 km"]], radius=10).open(0, STREAMS)
        assert sites.node_xy_m[sites.number("tower:1")].tolist() == [2000.0, 1000.0]
        assert sites.node_xy_m[sites.number("router:0")].tolist() == [1000.0, 1000.0]

    @pytest.mark.parametrize("given", [{}, {"ring": 1, "towers": [[0, 0]]}, {"towers": [[0, 0], [1, 1]]}])
    def test_one_placement_with_a_place_for_each_tower(self, given):
        with pytest.raises(ScenarioError):
            Tree(fanout=[1], radius=1, **given)


class TestRandomGeometric:
    MODEL = RandomGeometric(routers=60, towers=5, side="10 km", max_distance="3 km")

    def test_links_join_what_is_within_reach_and_nothing_else(self):
        sites = self.MODEL.open(0, STREAMS)
        routers = sites.with_role("router")
        for one, other in itertools.combinations(routers, 2):
            length = math.dist(*(sites.node_xy_m[sites.number(name)] for name in (one, other)))
            assert sites.graph.has_edge(one, other) == (length <= 3000.0)
            if length <= 3000.0:
                assert sites.graph.edges[one, other]["delay_s"] == pytest.approx(length / 299_792_458)

    def test_the_server_stands_at_the_router_nearest_the_centre_and_towers_at_routers(self):
        sites = self.MODEL.open(0, STREAMS)
        place = {name: sites.node_xy_m[sites.number(name)] for name in sites.names}
        routers = sites.with_role("router")
        assert sites.graph.has_edge("server", min(routers, key=lambda name: math.hypot(*place[name])))
        hosts = [next(iter(sites.graph[tower])) for tower in sites.towers]
        assert len(set(hosts)) == 5
        assert all((place[tower] == place[host]).all() for tower, host in zip(sites.towers, hosts, strict=True))

    @pytest.mark.slow
    def test_how_often_two_routers_are_linked(self):
        """Two points of a unit square are within d ≤ 1 with probability πd² - 8d³/3 + d⁴/2.

        200 layouts of 60 routers; the share of linked pairs varies from layout to layout, and its mean is held to
        4.9 of its standard errors (false alarms: 1e-6).
        """
        free = self.MODEL.model_copy(update={"towers": 1, "max_distance": 3000.0})
        shares = []
        for seed in range(200):
            try:
                graph = free.open(0, Streams(seed)).graph
            except ScenarioError:
                continue
            shares.append((graph.number_of_edges() - 2) / math.comb(60, 2))
        d = 0.3
        assert len(shares) > 190
        deviation = np.std(shares) / math.sqrt(len(shares))
        assert np.mean(shares) == pytest.approx(math.pi * d**2 - 8 * d**3 / 3 + d**4 / 2, abs=4.9 * deviation)

    @pytest.mark.parametrize("seed", range(8))
    def test_the_reach_named_for_a_cut_off_tower_is_the_least_that_joins_it(self, seed):
        short = self.MODEL.model_copy(update={"max_distance": 500.0})
        with pytest.raises(ScenarioError) as caught:
            short.open(3, Streams(seed))
        (fault,) = caught.value.faults
        assert fault.key == "max_distance"
        assert "tower:" in fault.problem
        enough = float(fault.remedy.removeprefix("make it at least ").split(" m ")[0])
        sites = short.model_copy(update={"max_distance": enough}).open(3, Streams(seed))
        assert all(sites.route(tower)[-1] == "server" for tower in sites.towers)
        with pytest.raises(ScenarioError):
            short.model_copy(update={"max_distance": enough - 0.2}).open(3, Streams(seed))

    def test_one_router_needs_no_links(self):
        sites = RandomGeometric(routers=1, towers=1, side=10, max_distance=1).open(2, STREAMS)
        assert sites.route("tower:0") == ("tower:0", "router:0", "server")

    def test_no_more_towers_than_routers(self):
        with pytest.raises(ScenarioError, match="3 towers on 2 routers"):
            RandomGeometric(routers=2, towers=3, side=10, max_distance=10)
