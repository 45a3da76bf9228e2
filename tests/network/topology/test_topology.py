"""Layouts compared with plane geometry; a generic test checks the distributions of positions."""

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
        layout = Star(radius="2 km", rate="10 Mbps", delay="3 ms").open(50, STREAMS)
        assert set(layout.names) == {"server", "tower:0"}
        assert layout.graph.edges["server", "tower:0"] == {"rate_bps": 1e7, "delay_s": 0.003}
        assert layout.route("tower:0") == ("tower:0", "server")
        assert all((layout.node_xy_m[layout.number(name)] == 0.0).all() for name in layout.names)
        assert (layout.distance_m <= 2000.0).all()

    def test_equal_distances(self):
        layout = Star(distance="120 m").open(1000, STREAMS)
        assert layout.distance_m == pytest.approx(120.0, rel=1e-12)
        # directions are uniform: the mean of n unit vectors is within sqrt(-ln(1e-6) / n) with probability 1 - 1e-6
        assert np.hypot(*layout.user_xy_m.mean(axis=0)) / 120.0 < math.sqrt(-math.log(1e-6) / 1000)

    def test_individual_distances(self):
        assert Star(distances=[1, 2.5, "3 km"]).open(3, STREAMS).distance_m == pytest.approx([1.0, 2.5, 3000.0])

    def test_number_of_distances_must_match_users(self):
        star = Star(distances=[1, 2, 3])
        assert list(star.faults(ScenarioFacts(users=3, rounds=1))) == []
        assert [fault.key for fault in star.faults(ScenarioFacts(users=4, rounds=1))] == ["distances"]

    @pytest.mark.parametrize("settings", [{}, {"radius": 1, "distance": 1}, {"distance": -1}, {"distances": [1, 0]}])
    def test_invalid_placements_are_rejected(self, settings):
        with pytest.raises(ScenarioError):
            Star(**settings)

    def test_more_users_do_not_change_others(self):
        few, many = (Star(radius=100).open(users, STREAMS).user_xy_m for users in (10, 100))
        assert (few == many[:10]).all()


class TestTree:
    def test_roles_and_links(self):
        layout = Tree(fanout=[2, 3], ring="4 km", radius="7 km", delay="2 ms").open(10, STREAMS)
        assert layout.with_role("router") == ("router:0", "router:1")
        assert len(layout.towers) == 6
        assert nx.is_tree(layout.graph)
        assert layout.route("tower:4") == ("tower:4", "router:1", "server")
        assert {edge["delay_s"] for *_, edge in layout.graph.edges(data=True)} == {0.002}

    def test_routers_of_deep_tree_are_numbered(self):
        layout = Tree(fanout=[1, 2, 2], ring=10, radius=10).open(0, STREAMS)
        assert layout.with_role("router") == ("router:0", "router:1", "router:2")
        assert layout.route("tower:3") == ("tower:3", "router:2", "router:0", "server")

    def test_towers_are_evenly_spaced(self):
        layout = Tree(fanout=[3], ring=1000, radius=10).open(0, STREAMS)
        positions = [layout.node_xy_m[layout.number(name)] for name in layout.towers]
        sides = [math.dist(first, second) for first, second in itertools.combinations(positions, 2)]
        assert sides == pytest.approx([1000 * math.sqrt(3)] * 3)
        assert layout.node_xy_m[layout.number("server")] == pytest.approx([0.0, 0.0], abs=1e-9)

    def test_towers_at_given_positions(self):
        layout = Tree(fanout=[1, 2], towers=[["0 m", "1 km"], ["2 km", "1 km"]], radius=10).open(0, STREAMS)
        assert layout.node_xy_m[layout.number("tower:1")].tolist() == [2000.0, 1000.0]
        assert layout.node_xy_m[layout.number("router:0")].tolist() == [1000.0, 1000.0]

    @pytest.mark.parametrize("settings", [{}, {"ring": 1, "towers": [[0, 0]]}, {"towers": [[0, 0], [1, 1]]}])
    def test_invalid_placements_are_rejected(self, settings):
        with pytest.raises(ScenarioError):
            Tree(fanout=[1], radius=1, **settings)


class TestRandomGeometric:
    MODEL = RandomGeometric(routers=60, towers=5, side="10 km", max_distance="3 km")

    def test_links_join_routers_within_max_distance(self):
        layout = self.MODEL.open(0, STREAMS)
        routers = layout.with_role("router")
        for first, second in itertools.combinations(routers, 2):
            length = math.dist(*(layout.node_xy_m[layout.number(name)] for name in (first, second)))
            assert layout.graph.has_edge(first, second) == (length <= 3000.0)
            if length <= 3000.0:
                assert layout.graph.edges[first, second]["delay_s"] == pytest.approx(length / 299_792_458)

    def test_server_is_at_central_router(self):
        layout = self.MODEL.open(0, STREAMS)
        position = {name: layout.node_xy_m[layout.number(name)] for name in layout.names}
        routers = layout.with_role("router")
        assert layout.graph.has_edge("server", min(routers, key=lambda name: math.hypot(*position[name])))
        hosts = [next(iter(layout.graph[tower])) for tower in layout.towers]
        assert len(set(hosts)) == 5
        assert all((position[tower] == position[host]).all() for tower, host in zip(layout.towers, hosts, strict=True))

    @pytest.mark.slow
    def test_share_of_linked_pairs(self):
        """Two points of a unit square are within d ≤ 1 with probability πd² - 8d³/3 + d⁴/2.

        The share of linked pairs varies over 200 layouts of 60 routers; its mean is within 4.9 standard errors (false
        alarms: 1e-6).
        """
        model = self.MODEL.model_copy(update={"towers": 1, "max_distance": 3000.0})
        shares = []
        for seed in range(200):
            try:
                graph = model.open(0, Streams(seed)).graph
            except ScenarioError:
                continue
            shares.append((graph.number_of_edges() - 2) / math.comb(60, 2))
        d = 0.3
        assert len(shares) > 190
        deviation = np.std(shares) / math.sqrt(len(shares))
        assert np.mean(shares) == pytest.approx(math.pi * d**2 - 8 * d**3 / 3 + d**4 / 2, abs=4.9 * deviation)

    @pytest.mark.parametrize("seed", range(8))
    def test_suggested_max_distance_is_minimum(self, seed):
        model = self.MODEL.model_copy(update={"max_distance": 500.0})
        with pytest.raises(ScenarioError) as error:
            model.open(3, Streams(seed))
        (fault,) = error.value.faults
        assert fault.key == "max_distance"
        assert "tower:" in fault.problem
        distance_m = float(fault.remedy.removeprefix("make it at least ").split(" m ")[0])
        layout = model.model_copy(update={"max_distance": distance_m}).open(3, Streams(seed))
        assert all(layout.route(tower)[-1] == "server" for tower in layout.towers)
        with pytest.raises(ScenarioError):
            model.model_copy(update={"max_distance": distance_m - 0.2}).open(3, Streams(seed))

    def test_single_router(self):
        layout = RandomGeometric(routers=1, towers=1, side=10, max_distance=1).open(2, STREAMS)
        assert layout.route("tower:0") == ("tower:0", "router:0", "server")

    def test_more_towers_than_routers_are_rejected(self):
        with pytest.raises(ScenarioError, match="3 towers on 2 routers"):
            RandomGeometric(routers=2, towers=3, side=10, max_distance=10)
