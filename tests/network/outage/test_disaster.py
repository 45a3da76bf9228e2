"""Disasters compared with geometry by brute force, and availability with the closed form."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from netfl.errors import ScenarioError
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage.disaster import Disaster, DisasterEvents
from netfl.network.topology.tree import Tree
from netfl.streams import Streams

STREAMS = Streams(43)
LAYOUT = Tree(fanout=[1, 3], ring=4000, radius=7000).open(40, STREAMS)
NODES = np.delete(np.arange(LAYOUT.nodes), LAYOUT.number(LAYOUT.server))  # disasters do not affect the server
INNER = int(np.flatnonzero((np.abs(LAYOUT.user_xy_m) < 7000).all(axis=1))[0])
HOUR = 3600.0
SQUARE = [[-10e3, -10e3], [10e3, 10e3]]
REPAIR = {"distribution": "exponential", "mean": "5 h"}


def build_disaster(**overrides):
    return Disaster(**({"mean_interval": "10 h", "corners": SQUARE, "radius": 3000, "repair": REPAIR} | overrides))


def sample_points(node):
    """Return points of a node: its position, or points of its cable."""
    if node < LAYOUT.users + len(LAYOUT.names):
        return LAYOUT.node_xy_m[[node]]
    first, second = [*LAYOUT.graph.edges][node - LAYOUT.users - len(LAYOUT.names)]
    ends = LAYOUT.node_xy_m[[LAYOUT.number(first), LAYOUT.number(second)]]
    return ends[0] + np.linspace(0, 1, 20_001)[:, None] * (ends[1] - ends[0])


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"radius": {"distribution": "exponential", "mean": "2 km"}},
        {"corners": None, "center": [1e3, 0], "area_radius": 8e3},
    ],
    ids=["square", "any radius", "disk"],
)
@pytest.mark.quick_first
def test_states_match_brute_force(overrides):
    timeline = build_disaster(**overrides).open(LAYOUT, STREAMS)
    horizon = 600 * HOUR
    strikes = DisasterEvents(build_disaster(**overrides), STREAMS)  # those of the timeline, which has the same streams
    strikes.extend_to(1000)
    count = int(np.searchsorted(strikes.start_s, horizon))
    assert 30 < count < 1000
    times = np.random.default_rng(1).uniform(0, horizon, 300)
    states = np.array([timeline.up(NODES, time_s) for time_s in times])
    changes = np.array([timeline.next_change(NODES, time_s) for time_s in times])
    for column, node in enumerate(NODES):
        nearest = [np.hypot(*(sample_points(node) - strikes.centre_m[event]).T).min() for event in range(count)]
        is_hit = np.array(nearest) <= strikes.radius_m[:count]
        spans = np.column_stack([strikes.start_s[:count], strikes.repaired_s[:count]])[is_hit]
        for time_s, up, change_s in zip(times, states[:, column], changes[:, column], strict=True):
            assert up == (not any(a <= time_s < b for a, b in spans))
            inside = [a for a, _ in spans if time_s < a < change_s] if up else []
            assert not inside  # nothing happens before the reported change
            if not up:
                assert change_s in spans[:, 1]
    assert 0.02 < (~states).mean() < 0.9


def test_server_is_never_affected():
    server = np.array([LAYOUT.number(LAYOUT.server)])
    assert build_disaster().open(LAYOUT, STREAMS).next_change(server, 0.0) == [math.inf]


def test_changes_are_exact():
    outages = CombinedOutages([build_disaster().open(LAYOUT, STREAMS)])
    times_s, changed_nodes, up = outages.changes(NODES, 0.0, 500 * HOUR)
    assert len(times_s) > 100
    assert (outages.up(changed_nodes, times_s) == up).all()
    assert (outages.up(changed_nodes, np.nextafter(times_s, 0)) != up).all()


def test_results_are_independent_of_earlier_queries():
    rng = np.random.default_rng(2)
    nodes, times = rng.choice(NODES, 400), rng.uniform(0, 3e4 * HOUR, 400)
    at_once, singly = build_disaster().open(LAYOUT, STREAMS), build_disaster().open(LAYOUT, STREAMS)
    states, changes = at_once.up(nodes, times), at_once.next_change(nodes, times)
    for i in rng.permutation(400):
        assert singly.up(nodes[[i]], times[i])[0] == states[i]
        assert singly.next_change(nodes[[i]], times[i])[0] == changes[i]


@pytest.mark.parametrize(
    "repair", [REPAIR, {"distribution": "fixed", "mean": "5 h"}, {"distribution": "pareto", "mean": "5 h", "shape": 3}]
)
def test_availability_matches_boolean_model(repair):
    """The area of 20 km contains all points within 3 km of the user; its share of time up is a mean of 60 replicas."""
    expected = math.exp(-(5 / 10) * math.pi * 3.0**2 / 20.0**2)
    times = np.arange(0.0, 4000.0, 20.0) * HOUR
    shares = []
    for replica in range(60):
        timeline = build_disaster(repair=repair).open(LAYOUT, STREAMS.at(replica))
        shares.append(timeline.up(np.full(len(times), INNER), times).mean())
    assert np.mean(shares) == pytest.approx(expected, abs=4.9 * np.std(shares) / math.sqrt(60))
    assert np.std(shares) / math.sqrt(60) < 0.004


@pytest.mark.slow
def test_process_is_stationary_at_time_0():
    expected = math.exp(-(5 / 10) * math.pi * 3.0**2 / 20.0**2)
    up = [
        build_disaster().open(LAYOUT, STREAMS.at("first", replica)).up(np.array([INNER]), 0.0)[0]
        for replica in range(1000)
    ]
    assert np.mean(up) == pytest.approx(expected, abs=4.9 * math.sqrt(expected * (1 - expected) / 1000))
    assert build_disaster(start="up").open(LAYOUT, STREAMS).up(NODES, 0.0).all()


@pytest.mark.parametrize(
    ("overrides", "radius", "expected"),
    [
        ({"corners": [[0, 0], [8e3, 4e3]]}, 1500.0, None),
        ({"corners": [[0, 0], [8e3, 4e3]], "radius": 3500}, 3500.0, None),
        ({"corners": None, "center": [5, 5], "area_radius": "4 km", "radius": 2500}, 2500.0, (2500 / 4000) ** 2),
        ({"corners": None, "center": [5, 5], "area_radius": "4 km", "radius": 9000}, 9000.0, 1.0),
    ],
)
def test_share_of_area_around_middle(overrides, radius, expected):
    model = build_disaster(**({"radius": radius} | overrides))
    if expected is None:
        height = lambda x: 2 * min(2000.0, math.sqrt(max(radius**2 - x**2, 0.0)))  # noqa: E731
        expected = integrate.quad(height, -4000, 4000, points=[-radius, radius], limit=500)[0] / 32e6
    assert model.struck_share == pytest.approx(expected, rel=2e-4)


def test_share_with_random_radii():
    """E[R²] = 2 m² for an exponential radius, where the area is so wide that edges do not matter."""
    model = build_disaster(corners=[[-1e5, -1e5], [1e5, 1e5]], radius={"distribution": "exponential", "mean": "2 km"})
    assert model.struck_share == pytest.approx(math.pi * 2 * 2000.0**2 / 4e10, rel=1e-4)


def test_centres_are_uniform_over_area():
    for overrides in ({}, {"corners": None, "center": [1e3, -2e3], "area_radius": 8e3}):
        strikes = DisasterEvents(build_disaster(**overrides), STREAMS)
        strikes.extend_to(20_000)
        assert (strikes.radius_m == 3000.0).all()
        x, y = strikes.centre_m[:20_000].T
        if not overrides:
            assert stats.kstest(x, stats.uniform(-10e3, 20e3).cdf).pvalue > 1e-6
            assert stats.kstest(y, stats.uniform(-10e3, 20e3).cdf).pvalue > 1e-6
        else:
            assert stats.kstest(np.hypot(x - 1e3, y + 2e3), lambda r: (r / 8e3) ** 2).pvalue > 1e-6
            assert stats.kstest(np.arctan2(y + 2e3, x - 1e3), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"corners": None}, "give either corners, or center and area_radius"),
        ({"center": [0, 0], "area_radius": 5}, "give either corners, or center and area_radius"),
        ({"corners": None, "center": [0, 0]}, "give either corners, or center and area_radius"),
        ({"corners": [[0, 0], [5, 0]]}, "enclose no area"),
        ({"mean_interval": "30 s"}, "a point in the middle would be in .* disasters at once on average"),
        ({"mean_interval": 0}, "greater than 0"),
        ({"radius": "-2 km"}, "greater than 0"),
        ({"affects": "homes"}, "unknown value"),
    ],
)
def test_invalid_settings_are_rejected(overrides, problem):
    with pytest.raises(ScenarioError, match=problem):
        build_disaster(**overrides)
