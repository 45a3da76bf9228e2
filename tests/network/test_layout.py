import networkx as nx
import numpy as np
import pytest

from netfl.network.layout import Layout


@pytest.fixture
def sites():
    """Two towers, 10 m apart, each behind a router; the direct link from router:1 is the slow one."""
    graph = nx.Graph()
    for name, x_m in (("server", 5.0), ("router:0", 0.0), ("router:1", 10.0), ("tower:0", 0.0), ("tower:1", 10.0)):
        graph.add_node(name, role=name.partition(":")[0], x_m=x_m, y_m=0.0)
    for one, other, delay_s in (
        ("server", "router:0", 0.001),
        ("server", "router:1", 0.009),
        ("router:0", "router:1", 0.002),
        ("router:0", "tower:0", 0.001),
        ("router:1", "tower:1", 0.001),
    ):
        graph.add_edge(one, other, rate_bps=1e6, delay_s=delay_s)
    return Layout(graph, np.array([[3.0, 4.0], [9.0, 0.0], [5.0, 0.0]]))


def test_nodes_are_numbered_users_first(sites):
    assert (sites.users, sites.nodes) == (3, 13), "users, five sites, five links"
    assert [sites.number(name) for name in sites.names] == [3, 4, 5, 6, 7]
    assert sites.number("server-router:1") == sites.number("router:1-server") == 9
    assert (sites.name(4), sites.name(9)) == ("router:0", "router:1-server")
    assert sites.node_xy_m[sites.number("router:1")].tolist() == [10.0, 0.0]
    assert sites.node_xy_m[:3].tolist() == sites.user_xy_m.tolist()


def test_roles(sites):
    assert sites.server == "server"
    assert sites.towers == ("tower:0", "tower:1")
    assert sites.with_role("router") == ("router:0", "router:1")


def test_users_belong_to_the_nearest_tower_the_first_among_equals(sites):
    assert sites.tower_of.tolist() == [0, 1, 0]
    assert sites.distance_m.tolist() == [5.0, 1.0, 5.0]


def test_routes_take_the_least_delay_not_the_fewest_hops(sites):
    assert sites.route("tower:1") == ("tower:1", "router:1", "router:0", "server")


def test_a_cut_off_tower_has_no_route(sites):
    sites.graph.remove_edge("router:0", "tower:0")
    with pytest.raises(nx.NetworkXNoPath):
        sites.route("tower:0")
