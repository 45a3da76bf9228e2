"""Selections that observe users, against calculations by hand and independent versions of their papers' rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection._state import SelectionState
from netfl.access.selection.all import All
from netfl.access.selection.by_size import BySize
from netfl.access.selection.contract import Contract
from netfl.access.selection.f3ast import F3ast
from netfl.access.selection.fedgs import Fedgs
from netfl.access.selection.oldest import Oldest
from netfl.access.selection.oort import Oort
from netfl.access.selection.power_of_choice import PowerOfChoice
from netfl.access.selection.ranked import Ranked
from netfl.access.selection.score import Score
from netfl.access.selection.threshold import Threshold
from netfl.access.selection.uniform import Uniform
from netfl.streams import Streams
from netfl.types import LearnerReport

USERS = 6
CHECKED_IN = np.array([True, False, True, True, False, True])
SAMPLES = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])


def population(seed=1, users=USERS):
    return UserInfo(users, Streams(seed), SAMPLES[:users], np.ones(users), label_mix=np.eye(users))


def observed(index, **values):
    return RoundInfo(len(next(iter(values.values()))), values, index)


@pytest.mark.parametrize(
    "selection",
    [
        All(),
        Uniform(m=2),
        BySize(m=2),
        Oldest(m=2),
        Threshold(tau=15),
        Contract(m=2, tiers=[{"users": [1, 3]}]),
        Contract(m=2, tiers=[{"users": [1, 3], "weight": 5}], by="lottery"),
        Score(m=2, value="size"),
        Score(m=2, value="size", draw="proportional"),
        PowerOfChoice(d=3, m=2),
        Ranked(m=2, by="snr_db"),
        Oort(m=2),
        F3ast(m=2),
        Fedgs(m=2),
    ],
)
class TestCheckIn:
    def test_only_users_that_have_checked_in_are_selected(self, selection):
        selector = selection.open(population())
        values = {"age": np.arange(1, 7), "loss": np.full(6, np.nan), "snr_db": np.arange(6.0), "samples": SAMPLES}
        for index in range(1, 60):
            selected = selector.choose(observed(index, check_in=CHECKED_IN, **values))
            assert CHECKED_IN[selected].all()
            assert len(selected) == {All: 4, Threshold: 3}.get(type(selection), 2)

    def test_nobody_is_selected_if_nobody_has_checked_in(self, selection):
        values = {"age": np.ones(6), "loss": np.full(6, np.nan), "snr_db": np.ones(6), "samples": SAMPLES}
        moment = observed(1, check_in=np.zeros(6, bool), **values)
        assert not selection.open(population()).choose(moment).size


class TestUniform:
    def test_users_that_have_checked_in_are_drawn_equally_often(self):
        selector = Uniform(m=1).open(population())
        counts = Counter(int(selector.choose(observed(index, check_in=CHECKED_IN))[0]) for index in range(1, 4_001))
        assert stats.chisquare([counts[user] for user in np.flatnonzero(CHECKED_IN)]).pvalue > 1e-4


class TestPowerOfChoice:
    def test_candidates_come_from_those_that_have_checked_in(self):
        """With d = all, the m highest losses among those are selected; all are asked, as nobody has checked in yet."""
        selection = PowerOfChoice(d=6, m=2, observe={"check_in": {}})
        loss = np.array([1.0, 9.0, 3.0, 2.0, 8.0, 4.0])
        selector = selection.open(population())
        assert selector.choose(observed(2, check_in=CHECKED_IN, loss=loss)).tolist() == [2, 5]
        assert SelectionState(selection, population()).queries(2) == {"loss": tuple(range(6))}


class TestRanked:
    def test_highest_or_lowest_values(self):
        moment = observed(1, energy_j=np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0]))
        assert Ranked(m=2, by="energy_j").open(population()).choose(moment).tolist() == [2, 4]
        assert Ranked(m=2, by="energy_j", order="lowest").open(population()).choose(moment).tolist() == [1, 3]

    @pytest.mark.parametrize("order", ["highest", "lowest"])
    def test_unknown_values_come_first(self, order):
        moment = observed(1, battery_j=np.array([3.0, np.nan, 4.0, np.nan, np.inf, 2.0]))
        selected = Ranked(m=3, by="battery_j", order=order).open(population()).choose(moment)
        assert selected.tolist() == ([1, 3, 4] if order == "highest" else [1, 3, 5])

    def test_users_below_the_minimum_are_left_out(self):
        """An unknown value may be enough."""
        moment = observed(1, battery_j=np.array([3.0, np.nan, 4.0, 1.0, np.inf, 2.0]))
        selector = Ranked(m=5, by="battery_j", minimum=3.0).open(population())
        assert selector.choose(moment).tolist() == [0, 1, 2, 4]

    def test_equal_values_are_drawn(self):
        selector = Ranked(m=1, by="backlog").open(population())
        counts = Counter(int(selector.choose(observed(i, backlog=np.zeros(6)))[0]) for i in range(1, 3_001))
        assert stats.chisquare([counts[user] for user in range(6)]).pvalue > 1e-4


def oort_score(index, samples, loss, last_round, duration_s, clip, preferred_s, penalty):
    """Return the scores in plain Python, one user after another."""
    utilities = sorted(n * x for n, x in zip(samples, loss, strict=True))
    limit = utilities[int(np.floor(clip * (len(utilities) - 1)))]
    scores = []
    for n, x, last, spent_s in zip(samples, loss, last_round, duration_s, strict=True):
        value = (min(n * x, limit) - utilities[0]) / (utilities[-1] - utilities[0])
        value += (0.1 * np.log(index) / last) ** 0.5
        if spent_s > preferred_s:
            value *= (preferred_s / spent_s) ** penalty
        scores.append(value)
    return np.array(scores)


class TestOort:
    LOSS = np.array([2.0, 1.0, 0.5, 0.9, 0.1, 0.3])
    AGE = np.array([3, 9, 1, 2, 8, 4])
    DURATION_S = np.array([4.0, 30.0, 10.0, 12.0, 3.0, 50.0])

    @pytest.mark.parametrize("clip", [1.0, 0.6])
    @pytest.mark.parametrize("preferred_s", [11.0, None])
    def test_highest_scores_are_exploited(self, clip, preferred_s):
        """With a cut-off of 1 the highest scores are selected, without a draw."""
        settings = {"clip": clip, "preferred_duration": preferred_s, "explore": 0, "min_explore": 0, "cutoff": 1.0}
        scores = oort_score(
            10, SAMPLES, self.LOSS, 10 - self.AGE, self.DURATION_S, clip, preferred_s or np.inf, penalty=2.0
        )
        moment = observed(10, loss=self.LOSS, age=self.AGE, samples=SAMPLES, duration_s=self.DURATION_S)
        for m in (1, 2, 4):
            selected = Oort(m=m, **settings).open(population()).choose(moment)
            assert selected.tolist() == sorted(np.argsort(-scores)[:m].tolist())

    def test_users_of_the_pool_are_drawn_in_proportion_to_their_scores(self):
        scores = oort_score(10, SAMPLES, self.LOSS, 10 - self.AGE, self.DURATION_S, 0.95, np.inf, 2.0)
        pool = np.flatnonzero(scores >= 0.5 * scores.max())
        moments = (observed(10, loss=self.LOSS, age=self.AGE, samples=SAMPLES) for _ in range(600))
        selection = Oort(m=1, explore=0, min_explore=0, cutoff=0.5)
        counts = Counter(int(selection.open(population(seed)).choose(moment)[0]) for seed, moment in enumerate(moments))
        assert {*counts} <= {*pool.tolist()}
        expected = 600 * scores[pool] / scores[pool].sum()
        assert stats.chisquare([counts[user] for user in pool], expected).pvalue > 1e-4

    def test_places_for_new_users_shrink(self):
        """m = 10: 9 places in round 1, 9·0.5 rounded in round 2, then at least 2; the others are for known users."""
        users = 40
        info = UserInfo(users, Streams(1), np.ones(users))
        selector = Oort(m=10, decay=0.5).open(info)
        loss = np.where(np.arange(users) < 20, 1.0, np.nan)
        values = {"loss": loss, "age": np.ones(users), "samples": np.arange(1.0, users + 1)}
        new = [int((selector.choose(observed(index, **values)) >= 20).sum()) for index in (2, 3, 4, 9)]
        assert new == [4, 2, 2, 2]
        first = selector.choose(observed(1, **(values | {"loss": np.full(users, np.nan)})))
        assert len(first) == 10

    def test_users_without_a_delivery_are_new_although_their_present_loss_is_known(self):
        """In round 5, users 0 to 3 are delivered; of 4 places, 80 % are for the others."""
        users = 12
        age = np.where(np.arange(users) < 4, 2, 5)
        values = {"loss": np.full(users, 2.0), "age": age, "samples": np.ones(users), "duration_s": age * 1.0}
        selector = Oort(m=4, explore=0.8, decay=1.0, preferred_duration=1.0).open(UserInfo(users, Streams(1)))
        selected = selector.choose(observed(5, **values))
        assert len(selected) == 4
        assert (selected >= 4).sum() == 3
        first = selector.choose(observed(1, **(values | {"age": np.ones(users)})))
        assert len(first) == 4

    def test_losses_are_those_of_the_last_deliveries(self):
        state = SelectionState(Oort(m=2), population())
        state.record_deliveries(1, [4, 2])
        assert state.queries(2) == {"loss": (2, 4)}
        report = LearnerReport(1, {}, ({"loss": np.array([0.5, 0.25])},))
        assert state.observe(report).loss[[2, 4]].tolist() == [0.5, 0.25]
        state.record_deliveries(2, [0])
        assert state.queries(3) == {"loss": (0,)}
        report = LearnerReport(2, {}, ({"loss": np.array([0.75])},))
        assert state.observe(report).loss[[0, 2, 4]].tolist() == [0.75, 0.5, 0.25]


class TestF3ast:
    def test_follows_the_published_updates(self):
        """Rates and choices of 40 rounds by a plain version of algorithm 1, with availability that is drawn."""
        beta = 0.05
        share = SAMPLES / SAMPLES.sum()
        rate = share.copy()
        selector = F3ast(m=2, beta=beta).open(population())
        rng = np.random.default_rng(2)
        for index in range(1, 41):
            is_there = rng.random(6) < 0.6
            selected = selector.choose(observed(index, check_in=is_there, samples=SAMPLES))
            ranked = sorted(np.flatnonzero(is_there), key=lambda user: -((share[user] / rate[user]) ** 2))
            worst = min(((share[user] / rate[user]) ** 2 for user in ranked[:2]), default=0.0)
            assert len(selected) == min(2, is_there.sum())
            assert all((share[user] / rate[user]) ** 2 >= worst * (1 - 1e-12) for user in selected)
            for user in range(6):
                rate[user] = (1 - beta) * rate[user] + beta * (user in selected)

    def test_rates_become_those_of_the_data(self):
        """With all users there, each is selected in proportion to its data, which is possible for m = 1."""
        selector = F3ast(m=1, beta=0.02).open(population())
        counts = np.zeros(6)
        for index in range(1, 2_001):
            counts[selector.choose(observed(index, check_in=np.ones(6, bool), samples=SAMPLES))] += 1
        assert counts / 2_000 == pytest.approx(SAMPLES / SAMPLES.sum(), abs=0.01)
