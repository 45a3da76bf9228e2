"""Who may try: each selection against enumerations and by hand; what cannot work is a fault.

Statistics: shares are held to 4.5 standard errors, or to a chi-square of p > 1e-4.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection._base import SelectionState
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

HELD = np.array([50.0, 30.0, 15.0, 5.0])


def population(users=4, held=None, airtime_s=None, seed=1):
    return UserInfo(users, Streams(seed), held, airtime_s)


def moment(users, index, age=None, loss=None):
    return RoundInfo(
        index,
        np.full(users, index) if age is None else np.asarray(age),
        np.full(users, np.nan) if loss is None else np.asarray(loss, float),
    )


def sets(selector, users, rounds, **told):
    """How often each set was chosen."""
    counts = {}
    for index in range(1, rounds + 1):
        who = selector.choose(moment(users, index, **told))
        assert (np.diff(who) > 0).all()
        counts[tuple(who.tolist())] = counts.get(tuple(who.tolist()), 0) + 1
    return counts


def successive(weights, m):
    """The probability of each set of m drawn one after another without replacement, over all orders of drawing."""
    found = {}
    for order in permutations(range(len(weights)), m):
        chance, left = 1.0, sum(weights)
        for user in order:
            chance *= weights[user] / left
            left -= weights[user]
        found[tuple(sorted(order))] = found.get(tuple(sorted(order)), 0.0) + chance
    return found


def agree(counts, chances):
    """Whether counts of sets follow their chances."""
    total = sum(counts.values())
    assert set(counts) <= {one for one, chance in chances.items() if chance > 0}
    likely = [one for one, chance in chances.items() if chance > 0]
    found = [counts.get(one, 0) for one in likely]
    return stats.chisquare(found, [total * chances[one] for one in likely]).pvalue > 1e-4


class TestUniform:
    @pytest.mark.slow
    def test_all_sets_are_equally_likely(self):
        assert agree(sets(Uniform(m=2).open(population()), 4, 12_000), successive([1] * 4, 2))

    @pytest.mark.slow
    def test_rounds_are_independent(self):
        selector = Uniform(m=1).open(population(3))
        chosen = [int(selector.choose(moment(3, index))[0]) for index in range(1, 20_001)]
        table = np.zeros((3, 3))
        np.add.at(table, (chosen[:-1], chosen[1:]), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-4

    def test_a_round_can_be_asked_about_in_any_order(self):
        one, other = (Uniform(m=3).open(population(20)) for _ in range(2))
        forwards = [one.choose(moment(20, index)).tolist() for index in range(1, 9)]
        assert forwards == [other.choose(moment(20, index)).tolist() for index in range(8, 0, -1)][::-1]


class TestBySize:
    @pytest.mark.parametrize("m", [1, 2, 3])
    @pytest.mark.slow
    def test_sets_follow_successive_sampling(self, m):
        found = sets(BySize(m=m).open(population(held=HELD)), 4, 12_000)
        assert agree(found, successive(HELD, m))

    def test_who_holds_nothing_is_never_chosen(self):
        selector = BySize(m=3).open(population(held=np.array([0.0, 4.0, 0.0, 1.0])))
        assert set(sets(selector, 4, 50)) == {(1, 3)}

    @pytest.mark.parametrize(("size", "others", "places"), [(3.0, 5, 2), (0.5, 3, 3), (2.0, 2, 3), (7.0, 4, 1)])
    def test_the_closed_form_of_the_law(self, size, others, places):
        chances = successive([size, *[1.0] * others], min(places, others + 1))
        assert miss_probability(size, others, places) == pytest.approx(
            sum(p for who, p in chances.items() if 0 not in who)
        )


class TestThreshold:
    def test_those_who_hold_enough(self):
        selector = Threshold(tau=15).open(population(held=HELD))
        assert [selector.choose(moment(4, index)).tolist() for index in (1, 2)] == [[0, 1, 2]] * 2

    def test_nobody_is_a_fault(self):
        with pytest.raises(
            ScenarioError, match=r"tau: no user has this many examples: the maximum is 50 \(51\); lower it"
        ):
            Threshold(tau=51).open(population(held=HELD))

    def test_no_data(self):
        with pytest.raises(ScenarioError, match="no data"):
            Threshold(tau=1).open(population())


class TestOldest:
    def test_the_largest_ages(self):
        selector = Oldest(m=2).open(population(5))
        assert selector.choose(moment(5, 9, age=[3, 9, 1, 4, 2])).tolist() == [1, 3]

    def test_equals_are_drawn_evenly(self):
        chances = {(0, 1): 1 / 3, (0, 2): 1 / 3, (0, 3): 1 / 3}
        assert agree(sets(Oldest(m=2).open(population()), 4, 6_000, age=[7, 2, 2, 2]), chances)


class TestScore:
    AIRTIME_S = np.array([1.0, 2.0, 0.1, 0.1])

    @pytest.mark.parametrize(
        ("power", "best"),
        [(-1, [0, 2]), (1, [0, 1]), (0, [0, 1]), (-2, [2, 3])],
    )
    def test_the_highest_scores(self, power, best):
        """Sizes 50, 30, 15, 5; per second of airtime 50, 15, 150, 50; times seconds 50, 60, 1.5, 0.5; per s² 50, 7.5,
        1500, 500."""
        selector = Score(m=2, power=power).open(population(held=HELD, airtime_s=self.AIRTIME_S))
        assert selector.choose(moment(4, 1)).tolist() == best

    def test_the_network_alone(self):
        selector = Score(m=1, value="one").open(population(airtime_s=self.AIRTIME_S))
        assert selector.choose(moment(4, 1)).tolist() == [2]

    @pytest.mark.slow
    def test_in_proportion(self):
        selector = Score(m=2, power=-1, draw="proportional").open(population(held=HELD, airtime_s=self.AIRTIME_S))
        assert agree(sets(selector, 4, 8_000), successive([50, 15, 150, 50], 2))

    def test_losses_are_asked_of_all_and_decide(self):
        selection = Score(m=1, value="loss", power=1)
        selector = selection.open(population(airtime_s=self.AIRTIME_S))
        assert selection.needs_learner_metrics
        assert selector.queries(2, np.array([1]))["loss"].tolist() == [0, 1, 2, 3]
        assert selector.choose(moment(4, 1)).tolist() == [1]
        assert selector.choose(moment(4, 2, loss=[3.0, 1.0, 9.0, 1.0])).tolist() == [0]
        assert selector.choose(moment(4, 2, loss=[3.0, np.nan, 9.0, 1.0])).tolist() == [1]  # (13 / 3) · 2

    def test_airtimes_need_a_network(self):
        assert [fault.key for fault in Score(m=1).faults(ScenarioFacts(users=3, rounds=1))] == ["power"]
        assert not [*Score(m=1).faults(ScenarioFacts(users=3, rounds=1, networked=True))]
        assert not [*Score(m=1, power=0).faults(ScenarioFacts(users=3, rounds=1))]

    def test_scores_that_are_all_one(self):
        with pytest.raises(ScenarioError, match="all scores are 1"):
            Score(m=1, value="one", power=0)


class TestContract:
    def test_higher_tiers_come_first(self):
        selector = Contract(m=3, tiers=[{"users": [3, 1]}, {"users": [0, 4]}]).open(population(6))
        assert agree(sets(selector, 6, 4_000), {(0, 1, 3): 0.5, (1, 3, 4): 0.5})

    def test_the_last_are_those_in_no_tier(self):
        selector = Contract(m=2, tiers=[{"users": [2]}]).open(population(4))
        assert agree(sets(selector, 4, 4_000), {(0, 2): 1 / 3, (1, 2): 1 / 3, (2, 3): 1 / 3})

    @pytest.mark.slow
    def test_shares_are_drawn_once_from_those_not_named(self):
        said = Contract(m=5, tiers=[{"share": 0.3}, {"users": [0, 1]}])
        found = [sets(said.open(population(10, seed=seed)), 10, 20) for seed in range(300)]
        assert all(len(one) == 1 for one in found)
        chosen = np.zeros(10)
        for ((who, _),) in (one.items() for one in found):
            assert {0, 1} < set(who)
            chosen[list(who)] += 1
        assert stats.chisquare(chosen[2:]).pvalue > 1e-4

    @pytest.mark.slow
    def test_a_lottery(self):
        selector = Contract(
            m=2, by="lottery", tiers=[{"users": [1], "weight": 6}, {"users": [2, 3], "weight": 2}]
        ).open(population(4))
        assert agree(sets(selector, 4, 10_000), successive([1, 6, 2, 2], 2))

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ({"tiers": [{}]}, "exactly one"),
            ({"tiers": [{"users": [1], "share": 0.2}]}, "exactly one"),
            ({"tiers": [{"users": [1, 1]}]}, "listed twice"),
            ({"tiers": [{"users": [1]}, {"users": [1]}]}, "in one tier"),
            ({"tiers": [{"users": [1]}], "by": "lottery"}, "give each tier a weight"),
            ({"tiers": []}, "has too few entries"),
        ],
    )
    def test_what_makes_no_sense(self, said, why):
        with pytest.raises(ScenarioError, match=why):
            Contract(m=1, **said)

    def test_weights_belong_to_a_lottery(self):
        (fault,) = Contract(m=1, tiers=[{"users": [1], "weight": 2}]).faults(ScenarioFacts(users=4, rounds=1))
        assert str(fault).startswith("tiers.0.weight: has no effect with by: strict (2.0); leave it out")

    def test_misfits_are_faults(self):
        tiers = [{"users": [0, 7]}, {"share": 0.1}, {"share": 0.9}]
        found = [fault.key for fault in Contract(m=5, tiers=tiers).faults(ScenarioFacts(users=4, rounds=1))]
        assert found == ["m", "tiers.0.users", "tiers.1.share", "tiers"]


@pytest.mark.parametrize(
    "model", [Uniform(m=5), BySize(m=5), Oldest(m=5), Score(m=5, power=0), Contract(m=5, tiers=[{"users": [0]}])]
)
def test_more_than_there_are(model):
    assert [fault.key for fault in model.faults(ScenarioFacts(users=4, rounds=1))] == ["m"]
    assert not [*model.faults(ScenarioFacts(users=5, rounds=1))]
    assert (model.max_selected(9), model.max_selected(3)) == (5, 3)


def test_ages_count_from_the_round_that_opens():
    """1 for who was heard in the round before, the round's own number for who never was."""
    seen = SelectionState(All(), UserInfo(3, Streams(1)))
    assert seen.age(1).tolist() == [1, 1, 1]
    seen.record_deliveries(4, [2])
    seen.record_deliveries(6, [0, 0])
    assert seen.age(7).tolist() == [1, 7, 3]
