"""Disasters against geometry by brute force, and their availability against the closed form and its limits."""

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
SITES = Tree(fanout=[1, 3], ring=4000, radius=7000).open(40, STREAMS)
NODES = np.delete(np.arange(SITES.nodes), SITES.number(SITES.server))  # which nothing strikes
INNER = int(np.flatnonzero((np.abs(SITES.user_xy_m) < 7000).all(axis=1))[0])
HOUR = 3600.0
SQUARE = [[-10e3, -10e3], [10e3, 10e3]]
REPAIR = {"distribution": "exponential", "mean": "5 h"}


def disaster(**said):
    return Disaster(**({"mean_interval": "10 h", "corners": SQUARE, "radius": 3000, "repair": REPAIR} | said))


def points(node):
    """Many points of a node: its place, or its cable's."""
    if node < SITES.users + len(SITES.names):
        return SITES.node_xy_m[[node]]
    one, other = [*SITES.graph.edges][node - SITES.users - len(SITES.names)]
    ends = SITES.node_xy_m[[SITES.number(one), SITES.number(other)]]
    return ends[0] + np.linspace(0, 1, 20_001)[:, None] * (ends[1] - ends[0])


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"radius": {"distribution": "exponential", "mean": "2 km"}},
        {"corners": None, "center": [1e3, 0], "area_radius": 8e3},
    ],
    ids=["square", "any radius", "disk"],
)
@pytest.mark.quick_first
def test_who_is_down_when_by_brute_force(said):
    timeline = disaster(**said).open(SITES, STREAMS)
    strikes, horizon = timeline._events, 600 * HOUR
    timeline.up(NODES, horizon)
    count = int(np.searchsorted(strikes.start_s, horizon))
    assert count > 30
    times = np.random.default_rng(1).uniform(0, horizon, 300)
    states = np.array([timeline.up(NODES, time_s) for time_s in times])
    changes = np.array([timeline.next_change(NODES, time_s) for time_s in times])
    for place, node in enumerate(NODES):
        nearest = [np.hypot(*(points(node) - strikes._centre_m[k]).T).min() for k in range(count)]
        hit = np.array(nearest) <= strikes._radius_m[:count]
        spans = np.column_stack([strikes.start_s[:count], strikes._over_s[:count]])[hit]
        for time_s, up, change_s in zip(times, states[:, place], changes[:, place], strict=True):
            assert up == (not any(a <= time_s < b for a, b in spans))
            inside = [a for a, _ in spans if time_s < a < change_s] if up else []
            assert not inside  # nothing happens before the change that is told
            if not up:
                assert change_s in spans[:, 1]
    assert 0.02 < (~states).mean() < 0.9


def test_the_server_is_never_struck():
    server = np.array([SITES.number(SITES.server)])
    assert disaster().open(SITES, STREAMS).next_change(server, 0.0) == [math.inf]


def test_changes_are_changes():
    outages = CombinedOutages([disaster().open(SITES, STREAMS)])
    when, who, up = outages.changes(NODES, 0.0, 500 * HOUR)
    assert len(when) > 100
    assert (outages.up(who, when) == up).all()
    assert (outages.up(who, np.nextafter(when, 0)) != up).all()


def test_no_answer_depends_on_what_was_asked_before():
    rng = np.random.default_rng(2)
    nodes, times = rng.choice(NODES, 400), rng.uniform(0, 3e4 * HOUR, 400)
    at_once, singly = disaster().open(SITES, STREAMS), disaster().open(SITES, STREAMS)
    states, changes = at_once.up(nodes, times), at_once.next_change(nodes, times)
    for i in rng.permutation(400):
        assert singly.up(nodes[[i]], times[i])[0] == states[i]
        assert singly.next_change(nodes[[i]], times[i])[0] == changes[i]


@pytest.mark.parametrize(
    "repair", [REPAIR, {"distribution": "fixed", "mean": "5 h"}, {"distribution": "pareto", "mean": "5 h", "shape": 3}]
)
def test_availability_is_that_of_the_boolean_model_whatever_the_repair(repair):
    """A user with all within 3 km of it in the square of 20 km; its share of time up over 60 replicas."""
    expected = math.exp(-(5 / 10) * math.pi * 3.0**2 / 20.0**2)
    times = np.arange(0.0, 4000.0, 20.0) * HOUR
    shares = []
    for replica in range(60):
        timeline = disaster(repair=repair).open(SITES, STREAMS.at(replica))
        shares.append(timeline.up(np.full(len(times), INNER), times).mean())
    assert np.mean(shares) == pytest.approx(expected, abs=4.9 * np.std(shares) / math.sqrt(60))
    assert np.std(shares) / math.sqrt(60) < 0.004


@pytest.mark.slow
def test_the_first_instant_is_like_any_other():
    expected = math.exp(-(5 / 10) * math.pi * 3.0**2 / 20.0**2)
    up = [disaster().open(SITES, STREAMS.at("first", r)).up(np.array([INNER]), 0.0)[0] for r in range(1000)]
    assert np.mean(up) == pytest.approx(expected, abs=4.9 * math.sqrt(expected * (1 - expected) / 1000))
    assert disaster(start="up").open(SITES, STREAMS).up(NODES, 0.0).all()


@pytest.mark.parametrize(
    ("said", "radius", "inside"),
    [
        ({"corners": [[0, 0], [8e3, 4e3]]}, 1500.0, None),
        ({"corners": [[0, 0], [8e3, 4e3]], "radius": 3500}, 3500.0, None),
        ({"corners": None, "center": [5, 5], "area_radius": "4 km", "radius": 2500}, 2500.0, (2500 / 4000) ** 2),
        ({"corners": None, "center": [5, 5], "area_radius": "4 km", "radius": 9000}, 9000.0, 1.0),
    ],
)
def test_the_share_of_the_area_around_its_middle(said, radius, inside):
    model = disaster(**({"radius": radius} | said))
    if inside is None:
        height = lambda x: 2 * min(2000.0, math.sqrt(max(radius**2 - x**2, 0.0)))  # noqa: E731
        inside = integrate.quad(height, -4000, 4000, points=[-radius, radius], limit=500)[0] / 32e6
    assert model._share == pytest.approx(inside, rel=2e-4)


def test_the_share_with_radii_of_a_law():
    """E[R²] = 2 m² of an exponential radius, where the area is so wide that its rim does not matter."""
    model = disaster(corners=[[-1e5, -1e5], [1e5, 1e5]], radius={"distribution": "exponential", "mean": "2 km"})
    assert model._share == pytest.approx(math.pi * 2 * 2000.0**2 / 4e10, rel=1e-4)


def test_centres_are_uniform_over_the_area():
    for said in ({}, {"corners": None, "center": [1e3, -2e3], "area_radius": 8e3}):
        strikes = DisasterEvents(disaster(**said), STREAMS)
        strikes.extend_to(20_000)
        x, y = strikes._centre_m[:20_000].T
        if not said:
            assert stats.kstest(x, stats.uniform(-10e3, 20e3).cdf).pvalue > 1e-6
            assert stats.kstest(y, stats.uniform(-10e3, 20e3).cdf).pvalue > 1e-6
        else:
            assert stats.kstest(np.hypot(x - 1e3, y + 2e3), lambda r: (r / 8e3) ** 2).pvalue > 1e-6
            assert stats.kstest(np.arctan2(y + 2e3, x - 1e3), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("said", "told"),
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
def test_disasters_that_are_none(said, told):
    with pytest.raises(ScenarioError, match=told):
        disaster(**said)
