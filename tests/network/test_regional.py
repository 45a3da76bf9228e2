"""A region fails as one."""

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage.regional import Regional
from netfl.network.topology.tree import Tree
from netfl.streams import Streams

STREAMS = Streams(29)


UP = {"law": "exponential", "mean": 100.0}
DOWN = {"law": "weibull", "mean": 40.0, "shape": 0.7}


class TestRegional:
    SITES = Tree(fanout=[1, 3], ring=4000, radius=7000).open(300, STREAMS)
    STORM = Regional(center=(4000, 0), radius=2500, up=UP, down=DOWN)

    def inside(self):
        return np.hypot(*(self.SITES.node_xy_m - [4000, 0]).T) <= 2500

    def struck(self, model):
        timeline = model.open(self.SITES, STREAMS)
        return np.isfinite(timeline.next_change(np.arange(self.SITES.nodes), 0.0))

    def test_all_inside_fail_together_and_nobody_else(self):
        timeline = self.STORM.open(self.SITES, STREAMS)
        nodes, inside = np.arange(self.SITES.nodes), self.inside()
        assert inside[:300].sum() > 10
        times = np.random.default_rng(2).uniform(0, 50_000, 300)
        states = np.array([timeline.up(nodes, time_s) for time_s in times])
        assert states[:, ~inside].all()
        assert (states[:, inside] == states[:, inside][:, :1]).all()
        assert 0.1 < states[:, inside][:, 0].mean() < 0.95

    def test_one_question_may_span_many_times(self):
        timeline, (user, *_) = self.STORM.open(self.SITES, STREAMS), np.flatnonzero(self.inside())
        times = np.random.default_rng(3).uniform(0, 50_000, 400)
        together = timeline.up(np.full(400, user), times)
        again = self.STORM.open(self.SITES, STREAMS)
        assert together.tolist() == [bool(again.up(np.array([user]), time_s)[0]) for time_s in times]

    @pytest.mark.parametrize("strikes", ["users", "towers", "both"])
    def test_whom_it_strikes(self, strikes):
        expected = self.inside()
        towers = np.isin(np.arange(self.SITES.nodes), [self.SITES.number(name) for name in self.SITES.towers])
        users = np.arange(self.SITES.nodes) < 300
        expected &= {"users": users, "towers": towers, "both": users | towers}[strikes]
        assert (self.struck(self.STORM.model_copy(update={"strikes": strikes})) == expected).all()

    def test_a_first_strike_at_a_given_time(self):
        model = self.STORM.model_copy(update={"first": 1800.0})
        timeline, (user, *_) = model.open(self.SITES, STREAMS), np.flatnonzero(self.inside())
        who = np.array([user])
        assert timeline.next_change(who, 0.0) == 1800.0
        assert timeline.up(who, 1799.999).all()
        assert not timeline.up(who, 1800.0).any()

    def test_an_empty_region(self):
        with pytest.raises(ScenarioError, match="no tower stands inside"):
            Regional(center=(0, 0), radius=10, strikes="towers", up=UP, down=DOWN).open(self.SITES, STREAMS)
