"""Regional outages: all nodes of a region fail together."""

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage.regional import Regional
from netfl.network.topology.tree import Tree
from netfl.streams import Streams

STREAMS = Streams(29)


UP = {"distribution": "exponential", "mean": 100.0}
DOWN = {"distribution": "weibull", "mean": 40.0, "shape": 0.7}


class TestRegional:
    LAYOUT = Tree(fanout=[1, 3], ring=4000, radius=7000).open(300, STREAMS)
    OUTAGE = Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN)

    def is_inside(self):
        """Return which users, towers and routers are within the disk; links by many points of their cables."""
        layout = self.LAYOUT
        points = [[position] for position in layout.node_xy_m]
        for first, second in layout.graph.edges:
            ends = layout.node_xy_m[[layout.number(first), layout.number(second)]]
            points.append(ends[0] + np.linspace(0, 1, 10_001)[:, None] * (ends[1] - ends[0]))
        return np.array([(np.hypot(*(np.array(part) - [4000, 0]).T) <= 2500).any() for part in points])

    def affected(self, model):
        timeline = model.open(self.LAYOUT, STREAMS)
        return np.isfinite(timeline.next_change(np.arange(self.LAYOUT.nodes), 0.0))

    @pytest.mark.slow
    def test_nodes_inside_fail_together(self):
        timeline = self.OUTAGE.open(self.LAYOUT, STREAMS)
        nodes, is_inside = np.arange(self.LAYOUT.nodes), self.is_inside() & self.is_in("users", "towers")
        assert is_inside[:300].sum() > 10
        times = np.random.default_rng(2).uniform(0, 50_000, 300)
        states = np.array([timeline.up(nodes, time_s) for time_s in times])
        assert states[:, ~is_inside].all()
        assert (states[:, is_inside] == states[:, is_inside][:, :1]).all()
        assert 0.1 < states[:, is_inside][:, 0].mean() < 0.95

    @pytest.mark.slow
    def test_query_can_have_many_times(self):
        timeline, (user, *_) = self.OUTAGE.open(self.LAYOUT, STREAMS), np.flatnonzero(self.is_inside())
        times = np.random.default_rng(3).uniform(0, 50_000, 400)
        states = timeline.up(np.full(400, user), times)
        single = self.OUTAGE.open(self.LAYOUT, STREAMS)
        assert states.tolist() == [bool(single.up(np.array([user]), time_s)[0]) for time_s in times]

    def is_in(self, *groups):
        """Return which nodes belong to one of these groups."""
        layout = self.LAYOUT
        numbers = {
            "users": range(layout.users),
            "towers": [layout.number(name) for name in layout.towers],
            "routers": [layout.number(name) for name in layout.with_role("router")],
            "links": range(layout.nodes - len(layout.links), layout.nodes),
        }
        return np.isin(np.arange(layout.nodes), [number for group in groups for number in numbers[group]])

    @pytest.mark.parametrize(
        ("affects", "groups"),
        [
            ("users", ["users"]),
            ("towers", ["towers"]),
            ("links", ["links"]),
            (["links", "users"], ["users", "links"]),
        ],
    )
    def test_affected_groups(self, affects, groups):
        outage = Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN, affects=affects)
        expected = self.is_inside() & self.is_in(*groups)
        assert expected.any()
        assert (self.affected(outage) == expected).all()
        assert Regional.model_validate(outage.model_dump(mode="json")) == outage

    def test_link_is_affected_where_its_cable_passes(self):
        ends = [self.LAYOUT.node_xy_m[self.LAYOUT.number(name)] for name in ("router:0", "tower:0")]
        middle = (ends[0] + ends[1]) / 2
        outage = Regional(center=tuple(middle), radius=1, up=UP, down=DOWN, affects="links")
        (affected,) = np.flatnonzero(self.affected(outage))
        assert affected == self.LAYOUT.number("tower:0-router:0")

    @pytest.mark.parametrize("affects", ["roads", [], ["users", "both"], 3])
    def test_unknown_groups_are_rejected(self, affects):
        with pytest.raises(ScenarioError):
            Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN, affects=affects)

    def test_first_outage_time(self):
        model = self.OUTAGE.model_copy(update={"first_outage": 1800.0})
        timeline, (user, *_) = model.open(self.LAYOUT, STREAMS), np.flatnonzero(self.is_inside())
        users = np.array([user])
        assert timeline.next_change(users, 0.0) == 1800.0
        assert timeline.up(users, 1799.999).all()
        assert not timeline.up(users, 1800.0).any()

    def test_empty_region_is_rejected(self):
        with pytest.raises(ScenarioError, match="no tower is inside"):
            Regional(center=(0, 0), radius=10, affects="towers", up=UP, down=DOWN).open(self.LAYOUT, STREAMS)
