"""Selections against enumeration and hand calculation, and their errors.

Tolerance: counts pass a chi-square test with p > 1e-4.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection._state import SelectionState
from netfl.access.selection.all import All
from netfl.access.selection.by_size import BySize, miss_probability
from netfl.access.selection.contract import Contract
from netfl.access.selection.oldest import Oldest
from netfl.access.selection.score import Score
from netfl.access.selection.threshold import Threshold
from netfl.access.selection.uniform import Uniform
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import ScenarioFacts

SAMPLES = np.array([50.0, 30.0, 15.0, 5.0])


def make_population(users=4, samples=None, airtime_s=None, seed=1):
    return UserInfo(users, Streams(seed), samples, airtime_s)


def round_info(users, index, age=None, loss=None):
    values = {
        "age": np.full(users, index) if age is None else np.asarray(age),
        "loss": np.full(users, np.nan) if loss is None else np.asarray(loss, float),
    }
    return RoundInfo(users, values, index)


def count_sets(selector, users, rounds, **options):
    """Return the number of rounds in which each set of users is selected."""
    counts = {}
    for index in range(1, rounds + 1):
        selected = selector.choose(round_info(users, index, **options))
        assert (np.diff(selected) > 0).all()
        counts[tuple(selected.tolist())] = counts.get(tuple(selected.tolist()), 0) + 1
    return counts


def sequential_probabilities(weights, m):
    """Return the probability of each set of m users drawn in sequence without replacement."""
    probabilities = {}
    for order in permutations(range(len(weights)), m):
        chance, left = 1.0, sum(weights)
        for user in order:
            chance *= weights[user] / left
            left -= weights[user]
        probabilities[tuple(sorted(order))] = probabilities.get(tuple(sorted(order)), 0.0) + chance
    return probabilities


def follows(counts, chances):
    """Return whether the counts of sets follow their probabilities."""
    total = sum(counts.values())
    assert set(counts) <= {users for users, chance in chances.items() if chance > 0}
    likely = [users for users, chance in chances.items() if chance > 0]
    observed = [counts.get(users, 0) for users in likely]
    return stats.chisquare(observed, [total * chances[users] for users in likely]).pvalue > 1e-4


class TestUniform:
    @pytest.mark.slow
    def test_all_sets_are_equally_likely(self):
        assert follows(
            count_sets(Uniform(m=2).open(make_population()), 4, 12_000), sequential_probabilities([1] * 4, 2)
        )

    @pytest.mark.slow
    def test_rounds_are_independent(self):
        selector = Uniform(m=1).open(make_population(3))
        chosen = [int(selector.choose(round_info(3, index))[0]) for index in range(1, 20_001)]
        table = np.zeros((3, 3))
        np.add.at(table, (chosen[:-1], chosen[1:]), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-4

    def test_rounds_can_be_queried_in_any_order(self):
        first, second = (Uniform(m=3).open(make_population(20)) for _ in range(2))
        forwards = [first.choose(round_info(20, index)).tolist() for index in range(1, 9)]
        assert forwards == [second.choose(round_info(20, index)).tolist() for index in range(8, 0, -1)][::-1]


class TestBySize:
    @pytest.mark.parametrize("m", [1, 2, 3])
    @pytest.mark.slow
    def test_sets_follow_sequential_sampling(self, m):
        counts = count_sets(BySize(m=m).open(make_population(samples=SAMPLES)), 4, 12_000)
        assert follows(counts, sequential_probabilities(SAMPLES, m))

    def test_users_without_samples_are_never_selected(self):
        selector = BySize(m=3).open(make_population(samples=np.array([0.0, 4.0, 0.0, 1.0])))
        assert set(count_sets(selector, 4, 50)) == {(1, 3)}

    @pytest.mark.parametrize(("size", "others", "places"), [(3.0, 5, 2), (0.5, 3, 3), (2.0, 2, 3), (7.0, 4, 1)])
    def test_miss_probability_matches_enumeration(self, size, others, places):
        chances = sequential_probabilities([size, *[1.0] * others], min(places, others + 1))
        assert miss_probability(size, others, places) == pytest.approx(
            sum(p for selected, p in chances.items() if 0 not in selected)
        )


class TestThreshold:
    def test_users_with_enough_samples_are_selected(self):
        selector = Threshold(tau=15).open(make_population(samples=SAMPLES))
        assert [selector.choose(round_info(4, index)).tolist() for index in (1, 2)] == [[0, 1, 2]] * 2

    def test_threshold_without_users_is_an_error(self):
        with pytest.raises(ScenarioError, match=r"tau: .* maximum is 50 \(51\)"):
            Threshold(tau=51).open(make_population(samples=SAMPLES))

    def test_missing_data_is_an_error(self):
        with pytest.raises(ScenarioError, match="no data"):
            Threshold(tau=1).open(make_population())


class TestOldest:
    def test_users_of_largest_age_are_selected(self):
        selector = Oldest(m=2).open(make_population(5))
        assert selector.choose(round_info(5, 9, age=[3, 9, 1, 4, 2])).tolist() == [1, 3]

    def test_ties_are_broken_uniformly(self):
        chances = {(0, 1): 1 / 3, (0, 2): 1 / 3, (0, 3): 1 / 3}
        assert follows(count_sets(Oldest(m=2).open(make_population()), 4, 6_000, age=[7, 2, 2, 2]), chances)


class TestScore:
    AIRTIME_S = np.array([1.0, 2.0, 0.1, 0.1])

    @pytest.mark.parametrize(
        ("power", "best"),
        [(-1, [0, 2]), (1, [0, 1]), (0, [0, 1]), (-2, [2, 3])],
    )
    def test_users_of_highest_score_are_selected(self, power, best):
        """Sizes 50, 30, 15, 5; per second of airtime 50, 15, 150, 50; times seconds 50, 60, 1.5, 0.5; per s² 50, 7.5,
        1500, 500."""
        selector = Score(m=2, power=power).open(make_population(samples=SAMPLES, airtime_s=self.AIRTIME_S))
        assert selector.choose(round_info(4, 1)).tolist() == best

    def test_score_of_airtime_only(self):
        selector = Score(m=1, value="one").open(make_population(airtime_s=self.AIRTIME_S))
        assert selector.choose(round_info(4, 1)).tolist() == [2]

    @pytest.mark.slow
    def test_proportional_draw_follows_the_scores(self):
        selector = Score(m=2, power=-1, draw="proportional").open(
            make_population(samples=SAMPLES, airtime_s=self.AIRTIME_S)
        )
        assert follows(count_sets(selector, 4, 8_000), sequential_probabilities([50, 15, 150, 50], 2))

    def test_losses_are_queried_from_all_users(self):
        selection = Score(m=1, value="loss", power=1)
        selector = selection.open(make_population(airtime_s=self.AIRTIME_S))
        assert selection.needs_learner_metrics
        state = SelectionState(selection, make_population(airtime_s=self.AIRTIME_S))
        assert state.queries(2) == {"loss": (0, 1, 2, 3)}
        assert selector.choose(round_info(4, 1)).tolist() == [1]
        assert selector.choose(round_info(4, 2, loss=[3.0, 1.0, 9.0, 1.0])).tolist() == [0]
        assert selector.choose(round_info(4, 2, loss=[3.0, np.nan, 9.0, 1.0])).tolist() == [1]  # (13 / 3) · 2

    def test_airtime_requires_a_network(self):
        assert [fault.key for fault in Score(m=1).faults(ScenarioFacts(users=3, rounds=1))] == ["power"]
        assert not [*Score(m=1).faults(ScenarioFacts(users=3, rounds=1, networked=True))]
        assert not [*Score(m=1, power=0).faults(ScenarioFacts(users=3, rounds=1))]

    def test_constant_scores_are_an_error(self):
        with pytest.raises(ScenarioError, match="all scores are 1"):
            Score(m=1, value="one", power=0)


class TestContract:
    def test_higher_tiers_come_first(self):
        selector = Contract(m=3, tiers=[{"users": [3, 1]}, {"users": [0, 4]}]).open(make_population(6))
        assert follows(count_sets(selector, 6, 4_000), {(0, 1, 3): 0.5, (1, 3, 4): 0.5})

    def test_users_without_a_tier_come_last(self):
        selector = Contract(m=2, tiers=[{"users": [2]}]).open(make_population(4))
        assert follows(count_sets(selector, 4, 4_000), {(0, 2): 1 / 3, (1, 2): 1 / 3, (2, 3): 1 / 3})

    @pytest.mark.slow
    def test_shares_are_drawn_once_from_unlisted_users(self):
        selection = Contract(m=5, tiers=[{"share": 0.3}, {"users": [0, 1]}])
        counts = [count_sets(selection.open(make_population(10, seed=seed)), 10, 20) for seed in range(300)]
        assert all(len(sets) == 1 for sets in counts)
        chosen = np.zeros(10)
        for ((selected, _),) in (sets.items() for sets in counts):
            assert {0, 1} < set(selected)
            chosen[list(selected)] += 1
        assert stats.chisquare(chosen[2:]).pvalue > 1e-4

    @pytest.mark.slow
    def test_lottery_draws_in_proportion_to_weights(self):
        selector = Contract(
            m=2, by="lottery", tiers=[{"users": [1], "weight": 6}, {"users": [2, 3], "weight": 2}]
        ).open(make_population(4))
        assert follows(count_sets(selector, 4, 10_000), sequential_probabilities([1, 6, 2, 2], 2))

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"tiers": [{}]}, "exactly one"),
            ({"tiers": [{"users": [1], "share": 0.2}]}, "exactly one"),
            ({"tiers": [{"users": [1, 1]}]}, "listed twice"),
            ({"tiers": [{"users": [1]}, {"users": [1]}]}, "in one tier"),
            ({"tiers": [{"users": [1]}], "by": "lottery"}, "give each tier a weight"),
            ({"tiers": []}, "has too few entries"),
        ],
    )
    def test_invalid_tiers_raise_an_error(self, overrides, message):
        with pytest.raises(ScenarioError, match=message):
            Contract(m=1, **overrides)

    def test_weights_require_a_lottery(self):
        (fault,) = Contract(m=1, tiers=[{"users": [1], "weight": 2}]).faults(ScenarioFacts(users=4, rounds=1))
        assert str(fault).startswith("tiers.0.weight: has no effect with by: strict (2.0); leave it out")

    def test_settings_that_do_not_fit_the_scenario_are_errors(self):
        tiers = [{"users": [0, 7]}, {"share": 0.1}, {"share": 0.9}]
        keys = [fault.key for fault in Contract(m=5, tiers=tiers).faults(ScenarioFacts(users=4, rounds=1))]
        assert keys == ["m", "tiers.0.users", "tiers.1.share", "tiers"]


@pytest.mark.parametrize(
    "model", [Uniform(m=5), BySize(m=5), Oldest(m=5), Score(m=5, power=0), Contract(m=5, tiers=[{"users": [0]}])]
)
def test_selection_of_too_many_users_is_an_error(model):
    assert [fault.key for fault in model.faults(ScenarioFacts(users=4, rounds=1))] == ["m"]
    assert not [*model.faults(ScenarioFacts(users=5, rounds=1))]
    assert (model.max_selected(9), model.max_selected(3)) == (5, 3)


def test_age_counts_rounds_since_the_last_delivery():
    """The age is 1 after a delivery in the previous round, and the round's number without any delivery."""
    seen = SelectionState(All(), UserInfo(3, Streams(1)))
    assert seen.age(1).tolist() == [1, 1, 1]
    seen.record_deliveries(4, [2])
    seen.record_deliveries(6, [0, 0])
    assert seen.age(7).tolist() == [1, 7, 3]
