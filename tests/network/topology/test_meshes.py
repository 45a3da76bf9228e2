"""Lattices, rings and random meshes against geometry, closed forms and networkx."""

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


def routers_alone(sites):
    """The graph of the routers, without towers and server."""
    return sites.graph.subgraph(sites.with_role("router"))


class TestGrid:
    def test_routers_make_the_lattice_that_networkx_makes(self):
        sites = Grid(rows=3, columns=4, spacing=100).open(5, STREAMS)
        told = nx.relabel_nodes(nx.grid_2d_graph(3, 4), lambda cell: f"router:{4 * cell[0] + cell[1]}")
        assert nx.utils.graphs_equal(nx.Graph(routers_alone(sites).edges), nx.Graph(told.edges))
        assert len(sites.towers) == 12
        assert {round(edge["delay_s"] * LIGHT_M_S) for *_, edge in routers_alone(sites).edges(data=True)} == {100}

    def test_places_are_around_the_origin(self):
        sites = Grid(rows=2, columns=3, spacing="1 km", towers=[[1, 2]], server=[0, 0]).open(0, STREAMS)
        assert sites.node_xy_m[sites.number("tower:0")].tolist() == [1000.0, 500.0]
        assert sites.node_xy_m[sites.number("server")].tolist() == [-1000.0, -500.0]
        assert len(sites.route("tower:0")) == 6  # three hops between routers, one at either end

    @pytest.mark.parametrize("given", [{"towers": [[2, 0]]}, {"server": [0, 3]}, {"towers": [[0, 0], [0, 0]]}])
    def test_only_routers_that_there_are(self, given):
        with pytest.raises(ScenarioError, match=r"no router at|twice"):
            Grid(rows=2, columns=3, spacing=1, **given)


class TestRing:
    def test_a_cycle_of_equal_chords(self):
        sites = Ring(routers=6, radius="1 km", towers=[3]).open(0, STREAMS)
        ring = routers_alone(sites)
        assert nx.is_isomorphic(ring, nx.cycle_graph(6))
        # the side of a regular hexagon is its radius
        assert [edge["delay_s"] for *_, edge in ring.edges(data=True)] == pytest.approx([1000 / LIGHT_M_S] * 6)
        assert len(sites.route("tower:0")) == 6

    def test_one_broken_link_cuts_nothing_off(self):
        sites = Ring(routers=5, radius=10).open(0, STREAMS)
        for one, other in routers_alone(sites).edges:
            rest = sites.graph.copy()
            rest.remove_edge(one, other)
            assert nx.is_connected(rest)

    def test_only_routers_that_there_are(self):
        with pytest.raises(ScenarioError, match="no router 5; routers are numbered 0 to 4"):
            Ring(routers=5, radius=1, server=5)


class TestWaxman:
    MODEL = Waxman(routers=60, towers=5, side="10 km", alpha=0.2, beta=0.9)

    @pytest.mark.slow
    def test_the_chance_of_a_link_at_each_distance(self):
        """Links of 60 networks by their length, against β exp(-d/αL) in bins, held to 5 standard errors."""
        linked, lengths = [], []
        for seed in range(60):
            try:
                sites = self.MODEL.open(0, Streams(seed))
            except ScenarioError:
                continue
            for one, other in itertools.combinations(sites.with_role("router"), 2):
                lengths.append(math.dist(*(sites.node_xy_m[sites.number(name)] for name in (one, other))))
                linked.append(sites.graph.has_edge(one, other))
        linked, lengths = np.array(linked), np.array(lengths)
        chance = 0.9 * np.exp(-lengths / (0.2 * 14142.13562))
        for low in range(0, 10_000, 1_000):
            here = (lengths >= low) & (lengths < low + 1_000)
            error = math.sqrt((chance[here] * (1 - chance[here])).sum()) / here.sum()
            assert linked[here].mean() == pytest.approx(chance[here].mean(), abs=5 * error)

    def test_the_mean_chance_against_the_density_of_distances_in_a_square(self):
        """The density of the distance of two points of a unit square, in closed form, summed by hand."""
        d = (np.arange(200_000) + 0.5) * math.sqrt(2) / 200_000
        root = np.sqrt(np.maximum(d**2 - 1, 0))
        far = 2 * d * (4 * root - (d**2 + 2 - math.pi) - 4 * np.arctan(root))
        density = np.where(d <= 1, 2 * d * (math.pi - 4 * d + d**2), far)
        assert density.mean() * math.sqrt(2) == pytest.approx(1, abs=1e-6)
        wanted = (density * 0.9 * np.exp(-d / math.sqrt(2) / 0.2)).mean() * math.sqrt(2)
        assert self.MODEL.laws()[0].mean == pytest.approx(wanted, rel=1e-5)

    @pytest.mark.parametrize("seed", range(8))
    def test_what_the_fault_says_is_enough_and_little_less_is_not(self, seed):
        sparse = self.MODEL.model_copy(update={"beta": 0.02})
        with pytest.raises(ScenarioError) as caught:
            sparse.open(3, Streams(seed))
        (fault,) = caught.value.faults
        key, value = fault.remedy.split()[0].rstrip(":"), float(fault.remedy.split()[1])
        assert key == fault.key
        more = {"beta": value} if key == "beta" else {"alpha": value, "beta": 1.0}
        sites = sparse.model_copy(update=more).open(3, Streams(seed))
        assert all(sites.route(tower)[-1] == "server" for tower in sites.towers)
        with pytest.raises(ScenarioError):
            sparse.model_copy(update=more | {key: value - 0.002}).open(3, Streams(seed))

    def test_where_no_beta_will_do_alpha_is_named(self):
        with pytest.raises(ScenarioError) as caught:
            self.MODEL.model_copy(update={"alpha": 0.001}).open(3, STREAMS)
        (fault,) = caught.value.faults
        assert fault.key == "alpha"
        assert "with beta: 1" in fault.remedy


class TestBarabasiAlbert:
    @pytest.mark.parametrize("m", [1, 2, 4])
    def test_links_are_as_many_as_were_made_and_all_different(self, m):
        sites = BarabasiAlbert(routers=50, m=m, towers=3, side=100).open(0, STREAMS)
        mesh = routers_alone(sites)
        assert mesh.number_of_edges() == m * (50 - m)
        assert nx.is_connected(sites.graph)
        assert min(dict(mesh.degree).values()) >= 1 if m == 1 else True
        assert all(degree >= m for name, degree in mesh.degree if int(name.partition(":")[2]) > m)

    @pytest.mark.parametrize("m", [1, 3])
    @pytest.mark.quick_first
    def test_degrees_of_a_large_mesh_follow_the_limit(self, m):
        """P(k) = 2m(m+1) / (k(k+1)(k+2)); 30,000 routers, bins held to 5 binomial standard errors."""
        count = 30_000
        degree = np.bincount(grow_meshes(1, count, m, np.random.default_rng(3))[0])
        for k in range(m, m + 12):
            chance = 2 * m * (m + 1) / (k * (k + 1) * (k + 2))
            assert (degree == k).mean() == pytest.approx(chance, abs=5 * math.sqrt(chance / count))
        tail = m * (m + 1) / (40 * 41)  # the sum over k ≥ 40
        assert (degree >= 40).mean() == pytest.approx(tail, rel=0.25)

    def test_the_second_partner_is_drawn_by_degree_from_the_others(self):
        """Router 3 of a mesh with m = 2 joins the star 0 – 2 – 1, of degrees 1, 2 and 1.

        Router 2 is left out only if 0 and 1 are drawn: (1/4)(1/3) twice, 1/6; held to 5 standard errors.
        """
        ends = grow_meshes(30_000, 4, 2, np.random.default_rng(1))
        partners = ends[:, 5::2]
        assert (partners != 2).all(axis=1).mean() == pytest.approx(1 / 6, abs=5 * math.sqrt(5 / 36 / 30_000))

    def test_the_server_stands_at_a_router_with_the_most_links(self):
        sites = BarabasiAlbert(routers=50, m=2, towers=1, side=100).open(0, STREAMS)
        mesh = routers_alone(sites)
        (core,) = sites.graph["server"]
        assert mesh.degree[core] == max(dict(mesh.degree).values())

    def test_fewer_partners_than_routers(self):
        with pytest.raises(ScenarioError, match="m is 5 with 5 routers"):
            BarabasiAlbert(routers=5, m=5, towers=1, side=1)
