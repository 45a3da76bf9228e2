"""The complete models in the docstrings of families work."""

import importlib
import textwrap
from typing import Annotated, ClassVar

import networkx as nx
import numpy as np
import pytest
from pydantic import Field

from netfl.access import Access
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion import Motion
from netfl.network.placement import Placement
from netfl.network.placement.disk import Disk
from netfl.network.topology import Topology
from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.streams import Streams
from netfl.types import AccessContext, Delivery, Event, Law, NullRecorder, Round
from netfl.units import Joules, Metres, Seconds, Speed

STREAMS = Streams(3)
NAMES = {
    name.__name__: name
    for name in (
        *(Access, AccessContext, Delivery, Disk, Event, Field, Law, Layout, Motion, Placement, Round),
        *(Selection, Selector, Topology, TrainingRule, Trajectories),
    )
} | {"np": np, "nx": nx, "Annotated": Annotated, "ClassVar": ClassVar}
UNITS = {"Joules": Joules, "Metres": Metres, "Seconds": Seconds, "Speed": Speed}


def example(family, name):
    """Return the class *name* from the docstring of a family."""
    text = importlib.import_module(f"netfl.{family}").__doc__
    code = text[text.index("::\n", text.index("A complete")) + 3 :]
    names = {**NAMES, **UNITS}
    exec(textwrap.dedent(code), names)
    return names[name]


def test_access_example():
    access = example("access", "Turns")(round_length=2.0)
    context = AccessContext(3, 4, 0, STREAMS, np.ones(3), 1.0, 1.0, NullRecorder())
    rounds = list(access.rounds(context))
    assert [round_.deliveries[0].user for round_ in rounds] == [1, 2, 0, 1]
    assert [round_.closed_s for round_ in rounds] == [2.0, 4.0, 6.0, 8.0]
    assert access.max_deliveries(3, 4) == 1


def test_selection_example():
    selection = example("access.selection", "Charged")(need=2.0, observe={"check_in": {}, "battery_j": "check_in"})
    assert selection.ages == {"check_in": "present", "battery_j": "check_in"}
    values = {"check_in": np.array([True, True, False, True]), "battery_j": np.array([1.0, 3.0, 4.0, 2.0])}
    assert selection.open(UserInfo(4, STREAMS)).choose(RoundInfo(4, values, 1)).tolist() == [1, 3]


def test_topology_example():
    layout = example("network.topology", "Pair")(distance=100.0).open(50, STREAMS)
    assert len(layout.towers) == 2
    assert (np.hypot(*layout.user_xy_m.T) <= 100.0).all()


def test_motion_example():
    layout = Disk(radius=1.0).open(4, np.zeros((1, 2)), STREAMS)
    sites = Layout(example("network.topology", "Pair")(distance=1.0).open(0, STREAMS).graph, layout)
    paths = example("network.motion", "Drive")(speed=10.0).open(sites, STREAMS)
    moved_m = paths.xy_m(np.array([2, 0]), np.array([1.0, 3.0])) - layout[[2, 0]]
    assert moved_m == pytest.approx(np.array([[10.0, 0.0], [30.0, 0.0]]))


def test_placement_example():
    places = example("network.placement", "Line")(length=20.0).open(100, np.zeros((1, 2)), STREAMS)
    assert (places[:, 1] == 0.0).all()
    assert 0.0 <= places.min() < places.max() <= 20.0


def test_training_rule_example():
    rule = example("network.trains_when", "Eager")()
    users = np.arange(1000)
    full = np.ones(1000)
    occasion = TrainingOccasion(users, users % 7, np.zeros(1000), 0.3 * full, full > 0.0, STREAMS.field("rule"))
    assert abs(rule.trains(occasion).mean() - 0.3) < 0.06
