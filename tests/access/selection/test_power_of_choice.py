"""Power of choice by hand and by enumeration, and the loop that carries its questions and answers."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from netfl.access.bernoulli import Bernoulli
from netfl.access.selection import Selection, Selector, UserInfo
from netfl.access.selection._base import SelectionState
from netfl.access.selection.power_of_choice import PowerOfChoice
from netfl.access.selection.uniform import Uniform
from netfl.errors import ModelError, ScenarioError
from netfl.streams import Streams
from netfl.types import LearnerReport, ScenarioFacts

HELD = np.array([4.0, 3.0, 2.0, 1.0])
LOSS = np.array([0.2, 0.9, 0.5, 0.7])


def chooser(selection, users=4, held=HELD, seed=1):
    return SelectionState(selection, UserInfo(users, Streams(seed), held))


def told(round, asked, loss=LOSS):
    """The learner's answer to what was *asked*."""
    users = list(asked.get("loss", ()))
    return LearnerReport(round, {}, ({"loss": loss[users]},) if users else ())


def play(one, rounds, loss=LOSS, unheard=()):
    """Who is chosen in each round; all are heard but those *unheard*."""
    report, found, asked = None, [], []
    for index in range(1, rounds + 1):
        chosen = one.choose(index, report)
        one.record_deliveries(index, np.setdiff1d(chosen, unheard))
        asked.append(one.queries(index + 1))
        report = told(index, asked[-1], loss)
        found.append(chosen.tolist())
    return found, asked


@pytest.mark.slow
def test_the_highest_losses_of_the_candidates_by_enumeration():
    """d = 3 candidates of 4 drawn one after another by size, the 2 of the highest loss: the share of each pair."""
    chances = {}
    for order in permutations(range(4), 3):
        left, chance = HELD.sum(), 1.0
        for user in order:
            chance *= HELD[user] / left
            left -= HELD[user]
        pair = tuple(sorted(sorted(order, key=lambda user: -LOSS[user])[:2]))
        chances[pair] = chances.get(pair, 0.0) + chance
    found, _ = play(chooser(PowerOfChoice(m=2, d=3)), 8_000)
    counts = [sum(tuple(one) == pair for one in found[1:]) for pair in chances]
    assert sum(counts) == 7_999
    assert stats.chisquare(counts, [7_999 * chance for chance in chances.values()]).pvalue > 1e-4


def test_fresh_losses_are_asked_of_the_candidates_alone():
    found, asked = play(chooser(PowerOfChoice(m=1, d=2)), 200)
    for chosen, question in zip(found[1:], asked, strict=False):
        candidates = question["loss"]
        assert len(candidates) == 2
        assert chosen == [max(candidates, key=lambda user: LOSS[user])]


@pytest.mark.slow
def test_the_first_round_takes_the_first_candidates():
    firsts = [play(chooser(PowerOfChoice(m=1, d=3), seed=seed), 1)[0][0][0] for seed in range(3_000)]
    assert stats.chisquare(np.bincount(firsts, minlength=4), 300 * HELD).pvalue > 1e-4


def test_last_losses_are_asked_of_those_who_were_heard():
    found, asked = play(chooser(PowerOfChoice(m=2, d=4, losses="last")), 30, unheard=[1])
    for chosen, question in zip(found, asked, strict=True):
        assert question.get("loss", ()) == tuple(user for user in chosen if user != 1)
    # user 1 is never heard, so its loss counts as infinite for good; the others are known after a while
    assert all(1 in chosen for chosen in found[3:])
    assert found[10:] == [[1, 3]] * 20


def test_a_last_loss_stays_until_a_new_one_is_known():
    one = chooser(PowerOfChoice(m=1, d=4, losses="last"))
    play(one, 5)  # everybody has been heard once, and what was asked of the last has been told
    loss = LOSS.copy()
    loss[1] = 0.0
    chosen, _ = play(one, 3, loss)
    assert chosen == [[1], [3], [3]]


def test_misfits_are_faults():
    facts = ScenarioFacts(users=4, rounds=1)
    assert [fault.key for fault in PowerOfChoice(m=3, d=2).faults(facts)] == ["d"]
    assert [fault.key for fault in PowerOfChoice(m=3, d=5).faults(facts)] == ["d"]
    assert [fault.key for fault in PowerOfChoice(m=6, d=7).faults(facts)] == ["m", "d"]
    assert not [*PowerOfChoice(m=4, d=4).faults(facts)]


class TestTheLoopInAScenario:
    def said(self, selection, **rest):
        access = Bernoulli(probability=0.5, selection=selection, **rest.pop("access", {}))
        return [(fault.key, fault.problem) for fault in access.faults(ScenarioFacts(users=4, rounds=1, **rest))]

    def test_it_needs_data_and_learners(self):
        keys = [key for key, _ in self.said(PowerOfChoice(m=1, d=2))]
        assert keys == ["selection", ""]
        assert self.said(PowerOfChoice(m=1, d=2), classes=3, learners=("one",)) == []

    def test_it_needs_to_know_which(self):
        two = {"classes": 3, "learners": ("one", "two")}
        assert [key for key, _ in self.said(PowerOfChoice(m=1, d=2), **two)] == ["learner"]
        assert self.said(PowerOfChoice(m=1, d=2), access={"learner": "two"}, **two) == []
        assert [key for key, _ in self.said(PowerOfChoice(m=1, d=2), access={"learner": "tow"}, **two)] == ["learner"]
        assert [key for key, _ in self.said(Uniform(m=1), access={"learner": "two"}, **two)] == ["learner"]


def test_more_heard_than_may_try_is_a_fault():
    facts = ScenarioFacts(users=4, rounds=1)
    assert [fault.key for fault in Bernoulli(probability=0.5, deliveries=3, selection=Uniform(m=2)).faults(facts)] == [
        "deliveries"
    ]
    assert not [*Bernoulli(probability=0.5, deliveries=2, selection=Uniform(m=2)).faults(facts)]


class Bad(Selection):
    """Chooses what the test says."""

    chosen: tuple[float, ...]

    def open(self, population):
        return SimpleNamespace(choose=lambda moment: np.array(self.chosen), spec=Selector)


@pytest.mark.parametrize("chosen", [(1, 0), (0, 0), (3, 4), (-1, 2), (0.5,)])
def test_a_choice_of_what_are_no_users_is_the_models_failure(chosen):
    values = np.array(chosen)
    bad = Bad.model_construct(chosen=values if values.dtype.kind == "i" else chosen)
    with pytest.raises(ModelError, match="not distinct users in ascending order"):
        chooser(bad).choose(1, None)


def test_nobody_may_be_chosen():
    assert chooser(Bad.model_construct(chosen=())).choose(1, None).tolist() == []


def test_what_cannot_work_is_said_with_its_place():
    with pytest.raises(ScenarioError, match=r"^selection: depends on the users' amounts of data"):
        chooser(PowerOfChoice(m=1, d=2), held=None)
