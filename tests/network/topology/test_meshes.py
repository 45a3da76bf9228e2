"""Grids, rings and random meshes compared with geometry, closed forms and networkx."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.topology.barabasi_albert import BarabasiAlbert, grow_meshes
from netfl.network.topology.grid import Grid
from netfl.network.topology.ring import Ring
from netfl.network.topology.waxman import Waxman
from netfl.streams import Streams

STREAMS = Streams(5)
LIGHT_M_S = 299_792_458


def router_graph(layout):
    """Return the graph of the routers, without towers and server."""
    return layout.graph.subgraph(layout.with_role("router"))


class TestGrid:
    def test_routers_match_grid_of_networkx(self):
        layout = Grid(rows=3, columns=4, spacing=100).open(5, STREAMS)
        expected = nx.relabel_nodes(nx.grid_2d_graph(3, 4), lambda cell: f"router:{4 * cell[0] + cell[1]}")
        assert nx.utils.graphs_equal(nx.Graph(router_graph(layout).edges), nx.Graph(expected.edges))
        assert len(layout.towers) == 12
        assert {round(edge["delay_s"] * LIGHT_M_S) for *_, edge in router_graph(layout).edges(data=True)} == {100}

    def test_positions_are_around_origin(self):
        layout = Grid(rows=2, columns=3, spacing="1 km", towers=[[1, 2]], server=[0, 0]).open(0, STREAMS)
        assert layout.node_xy_m[layout.number("tower:0")].tolist() == [1000.0, 500.0]
        assert layout.node_xy_m[layout.number("server")].tolist() == [-1000.0, -500.0]
        assert len(layout.route("tower:0")) == 6  # three hops between routers, one at either end

    @pytest.mark.parametrize("settings", [{"towers": [[2, 0]]}, {"server": [0, 3]}, {"towers": [[0, 0], [0, 0]]}])
    def test_unknown_routers_are_rejected(self, settings):
        with pytest.raises(ScenarioError, match=r"no router at|twice"):
            Grid(rows=2, columns=3, spacing=1, **settings)


class TestRing:
    def test_ring_is_cycle_of_equal_links(self):
        layout = Ring(routers=6, radius="1 km", towers=[3]).open(0, STREAMS)
        ring = router_graph(layout)
        assert nx.is_isomorphic(ring, nx.cycle_graph(6))
        # the side of a regular hexagon is its radius
        assert [edge["delay_s"] for *_, edge in ring.edges(data=True)] == pytest.approx([1000 / LIGHT_M_S] * 6)
        assert len(layout.route("tower:0")) == 6

    def test_ring_is_connected_without_one_link(self):
        layout = Ring(routers=5, radius=10).open(0, STREAMS)
        for first, second in router_graph(layout).edges:
            remaining = layout.graph.copy()
            remaining.remove_edge(first, second)
            assert nx.is_connected(remaining)

    def test_unknown_routers_are_rejected(self):
        with pytest.raises(ScenarioError, match="no router 5; use one from 0 to 4"):
            Ring(routers=5, radius=1, server=5)


class TestWaxman:
    MODEL = Waxman(routers=60, towers=5, side="10 km", alpha=0.2, beta=0.9)

    @pytest.mark.slow
    def test_link_probability_at_each_distance(self):
        """Links of 60 networks are compared with β exp(-d/αL) in bins, within 5 standard errors."""
        is_linked, lengths = [], []
        for seed in range(60):
            try:
                layout = self.MODEL.open(0, Streams(seed))
            except ScenarioError:
                continue
            for first, second in itertools.combinations(layout.with_role("router"), 2):
                lengths.append(math.dist(*(layout.node_xy_m[layout.number(name)] for name in (first, second))))
                is_linked.append(layout.graph.has_edge(first, second))
        is_linked, lengths = np.array(is_linked), np.array(lengths)
        probability = 0.9 * np.exp(-lengths / (0.2 * 14142.13562))
        for low in range(0, 10_000, 1_000):
            in_bin = (lengths >= low) & (lengths < low + 1_000)
            error = math.sqrt((probability[in_bin] * (1 - probability[in_bin])).sum()) / in_bin.sum()
            assert is_linked[in_bin].mean() == pytest.approx(probability[in_bin].mean(), abs=5 * error)

    def test_mean_link_probability(self):
        """The density of the distance of two points of a unit square is integrated."""
        d = (np.arange(200_000) + 0.5) * math.sqrt(2) / 200_000
        root = np.sqrt(np.maximum(d**2 - 1, 0))
        far_density = 2 * d * (4 * root - (d**2 + 2 - math.pi) - 4 * np.arctan(root))
        density = np.where(d <= 1, 2 * d * (math.pi - 4 * d + d**2), far_density)
        assert density.mean() * math.sqrt(2) == pytest.approx(1, abs=1e-6)
        expected = (density * 0.9 * np.exp(-d / math.sqrt(2) / 0.2)).mean() * math.sqrt(2)
        assert self.MODEL.laws()[0].mean == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("seed", range(8))
    def test_suggested_value_is_minimum(self, seed):
        sparse = self.MODEL.model_copy(update={"beta": 0.02})
        with pytest.raises(ScenarioError) as error:
            sparse.open(3, Streams(seed))
        (fault,) = error.value.faults
        key, value = fault.remedy.split()[0].rstrip(":"), float(fault.remedy.split()[1])
        assert key == fault.key
        update = {"beta": value} if key == "beta" else {"alpha": value, "beta": 1.0}
        layout = sparse.model_copy(update=update).open(3, Streams(seed))
        assert all(layout.route(tower)[-1] == "server" for tower in layout.towers)
        with pytest.raises(ScenarioError):
            sparse.model_copy(update=update | {key: value - 0.002}).open(3, Streams(seed))

    def test_alpha_is_suggested_if_beta_is_not_enough(self):
        with pytest.raises(ScenarioError) as error:
            self.MODEL.model_copy(update={"alpha": 0.001}).open(3, STREAMS)
        (fault,) = error.value.faults
        assert fault.key == "alpha"
        assert "with beta: 1" in fault.remedy


class TestBarabasiAlbert:
    @pytest.mark.parametrize("m", [1, 2, 4])
    def test_number_of_links(self, m):
        layout = BarabasiAlbert(routers=50, m=m, towers=3, side=100).open(0, STREAMS)
        mesh = router_graph(layout)
        assert mesh.number_of_edges() == m * (50 - m)
        assert nx.is_connected(layout.graph)
        assert min(dict(mesh.degree).values()) >= 1 if m == 1 else True
        assert all(degree >= m for name, degree in mesh.degree if int(name.partition(":")[2]) > m)

    @pytest.mark.parametrize("m", [1, 3])
    @pytest.mark.quick_first
    def test_degree_distribution_matches_limit(self, m):
        """P(k) = 2m(m+1) / (k(k+1)(k+2)) for 30,000 routers, within 5 binomial standard errors."""
        count = 30_000
        degree = np.bincount(grow_meshes(1, count, m, np.random.default_rng(3))[0])
        for k in range(m, m + 12):
            probability = 2 * m * (m + 1) / (k * (k + 1) * (k + 2))
            assert (degree == k).mean() == pytest.approx(probability, abs=5 * math.sqrt(probability / count))
        tail = m * (m + 1) / (40 * 41)  # the sum over k ≥ 40
        assert (degree >= 40).mean() == pytest.approx(tail, rel=0.25)

    def test_second_partner_is_drawn_by_degree(self):
        """Router 3 of a mesh with m = 2 joins the star 0 – 2 – 1, of degrees 1, 2 and 1.

        Router 2 is left out only if 0 and 1 are drawn: (1/4)(1/3) twice is 1/6, within 5 standard errors.
        """
        ends = grow_meshes(30_000, 4, 2, np.random.default_rng(1))
        partners = ends[:, 5::2]
        assert (partners != 2).all(axis=1).mean() == pytest.approx(1 / 6, abs=5 * math.sqrt(5 / 36 / 30_000))

    def test_server_is_at_router_with_most_links(self):
        layout = BarabasiAlbert(routers=50, m=2, towers=1, side=100).open(0, STREAMS)
        mesh = router_graph(layout)
        (core,) = layout.graph["server"]
        assert mesh.degree[core] == max(dict(mesh.degree).values())

    def test_m_must_be_less_than_routers(self):
        with pytest.raises(ScenarioError, match="m is 5 with 5 routers"):
            BarabasiAlbert(routers=5, m=5, towers=1, side=1)
