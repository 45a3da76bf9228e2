import networkx as nx
import numpy as np
import pytest

from netfl.network.layout import Layout


@pytest.fixture
def layout():
    """Two towers, 10 m apart, each behind a router; the direct link of router:1 is slow."""
    graph = nx.Graph()
    for name, x_m in (("server", 5.0), ("router:0", 0.0), ("router:1", 10.0), ("tower:0", 0.0), ("tower:1", 10.0)):
        graph.add_node(name, role=name.partition(":")[0], x_m=x_m, y_m=0.0)
    for first, second, delay_s in (
        ("server", "router:0", 0.001),
        ("server", "router:1", 0.009),
        ("router:0", "router:1", 0.002),
        ("router:0", "tower:0", 0.001),
        ("router:1", "tower:1", 0.001),
    ):
        graph.add_edge(first, second, rate_bps=1e6, delay_s=delay_s)
    return Layout(graph, np.array([[3.0, 4.0], [9.0, 0.0], [5.0, 0.0]]))


def test_users_are_numbered_first(layout):
    assert (layout.users, layout.nodes) == (3, 13), "three users, five nodes, five links"
    assert [layout.number(name) for name in layout.names] == [3, 4, 5, 6, 7]
    assert layout.number("server-router:1") == layout.number("router:1-server") == 9
    assert (layout.name(4), layout.name(9)) == ("router:0", "router:1-server")
    assert layout.node_xy_m[layout.number("router:1")].tolist() == [10.0, 0.0]
    assert layout.node_xy_m[:3].tolist() == layout.user_xy_m.tolist()


def test_nodes_are_found_by_role(layout):
    assert layout.server == "server"
    assert layout.towers == ("tower:0", "tower:1")
    assert layout.with_role("router") == ("router:0", "router:1")


def test_users_belong_to_nearest_tower(layout):
    assert layout.tower_at_start.tolist() == [0, 1, 0]
    assert layout.distance_m.tolist() == [5.0, 1.0, 5.0]


def test_routes_have_least_delay(layout):
    assert layout.route("tower:1") == ("tower:1", "router:1", "router:0", "server")


def test_disconnected_tower_has_no_route(layout):
    layout.graph.remove_edge("router:0", "tower:0")
    with pytest.raises(nx.NetworkXNoPath):
        layout.route("tower:0")
