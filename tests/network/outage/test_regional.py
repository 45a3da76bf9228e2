"""A region fails as one."""

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
    SITES = Tree(fanout=[1, 3], ring=4000, radius=7000).open(300, STREAMS)
    STORM = Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN)

    def inside(self):
        """Users, towers and routers within the disk; links by the distance of many points of their cables."""
        sites = self.SITES
        points = [[place] for place in sites.node_xy_m]
        for one, other in sites.graph.edges:
            ends = sites.node_xy_m[[sites.number(one), sites.number(other)]]
            points.append(ends[0] + np.linspace(0, 1, 10_001)[:, None] * (ends[1] - ends[0]))
        return np.array([(np.hypot(*(np.array(one) - [4000, 0]).T) <= 2500).any() for one in points])

    def struck(self, model):
        timeline = model.open(self.SITES, STREAMS)
        return np.isfinite(timeline.next_change(np.arange(self.SITES.nodes), 0.0))

    @pytest.mark.slow
    def test_all_inside_fail_together_and_nobody_else(self):
        timeline = self.STORM.open(self.SITES, STREAMS)
        nodes, inside = np.arange(self.SITES.nodes), self.inside() & self.is_in("users", "towers")
        assert inside[:300].sum() > 10
        times = np.random.default_rng(2).uniform(0, 50_000, 300)
        states = np.array([timeline.up(nodes, time_s) for time_s in times])
        assert states[:, ~inside].all()
        assert (states[:, inside] == states[:, inside][:, :1]).all()
        assert 0.1 < states[:, inside][:, 0].mean() < 0.95

    @pytest.mark.slow
    def test_one_question_may_span_many_times(self):
        timeline, (user, *_) = self.STORM.open(self.SITES, STREAMS), np.flatnonzero(self.inside())
        times = np.random.default_rng(3).uniform(0, 50_000, 400)
        together = timeline.up(np.full(400, user), times)
        again = self.STORM.open(self.SITES, STREAMS)
        assert together.tolist() == [bool(again.up(np.array([user]), time_s)[0]) for time_s in times]

    def is_in(self, *groups):
        """Whether each node is of one of these groups."""
        sites = self.SITES
        numbers = {
            "users": range(sites.users),
            "towers": [sites.number(name) for name in sites.towers],
            "routers": [sites.number(name) for name in sites.with_role("router")],
            "links": range(sites.nodes - len(sites.links), sites.nodes),
        }
        return np.isin(np.arange(sites.nodes), [number for group in groups for number in numbers[group]])

    @pytest.mark.parametrize(
        ("strikes", "groups"),
        [
            ("users", ["users"]),
            ("towers", ["towers"]),
            ("links", ["links"]),
            (["links", "users"], ["users", "links"]),
        ],
    )
    def test_whom_it_strikes(self, strikes, groups):
        storm = Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN, affects=strikes)
        expected = self.inside() & self.is_in(*groups)
        assert expected.any()
        assert (self.struck(storm) == expected).all()
        assert Regional.model_validate(storm.model_dump(mode="json")) == storm

    def test_a_cable_is_cut_where_it_passes_though_both_ends_are_outside(self):
        ends = [self.SITES.node_xy_m[self.SITES.number(name)] for name in ("router:0", "tower:0")]
        middle = (ends[0] + ends[1]) / 2
        storm = Regional(center=tuple(middle), radius=1, up=UP, down=DOWN, affects="links")
        (struck,) = np.flatnonzero(self.struck(storm))
        assert struck == self.SITES.number("tower:0-router:0")

    @pytest.mark.parametrize("strikes", ["roads", [], ["users", "both"], 3])
    def test_groups_that_there_are_not(self, strikes):
        with pytest.raises(ScenarioError):
            Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN, affects=strikes)

    def test_a_first_strike_at_a_given_time(self):
        model = self.STORM.model_copy(update={"first_outage": 1800.0})
        timeline, (user, *_) = model.open(self.SITES, STREAMS), np.flatnonzero(self.inside())
        who = np.array([user])
        assert timeline.next_change(who, 0.0) == 1800.0
        assert timeline.up(who, 1799.999).all()
        assert not timeline.up(who, 1800.0).any()

    def test_an_empty_region(self):
        with pytest.raises(ScenarioError, match="no tower is inside"):
            Regional(center=(0, 0), radius=10, affects="towers", up=UP, down=DOWN).open(self.SITES, STREAMS)
