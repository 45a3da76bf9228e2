"""Power of choice against hand calculation and enumeration, and its queries to the learner."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from netfl.access.bernoulli import Bernoulli
from netfl.access.selection import Selection, Selector, UserInfo
from netfl.access.selection._state import SelectionState
from netfl.access.selection.power_of_choice import PowerOfChoice
from netfl.access.selection.uniform import Uniform
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import LearnerReport, ScenarioFacts

SAMPLES = np.array([4.0, 3.0, 2.0, 1.0])
LOSS = np.array([0.2, 0.9, 0.5, 0.7])


def make_state(selection, users=4, samples=SAMPLES, seed=1):
    return SelectionState(selection, UserInfo(users, Streams(seed), samples))


def report_losses(round, queries, loss=LOSS):
    """Return the report of the learner to *queries*."""
    users = list(queries.get("loss", ()))
    return LearnerReport(round, {}, ({"loss": loss[users]},) if users else ())


def run_rounds(state, rounds, loss=LOSS, undelivered=()):
    """Return the selected users and the queries of each round; *undelivered* users are never delivered."""
    report, history, queries = None, [], []
    for index in range(1, rounds + 1):
        selected = state.choose(index, report)
        state.record_deliveries(index, np.setdiff1d(selected, undelivered))
        queries.append(state.queries(index + 1))
        report = report_losses(index, queries[-1], loss)
        history.append(selected.tolist())
    return history, queries


@pytest.mark.slow
def test_highest_losses_of_the_candidates_match_enumeration():
    """Of d = 3 candidates drawn in sequence by size, the 2 of the highest loss: the share of each pair."""
    chances = {}
    for order in permutations(range(4), 3):
        left, chance = SAMPLES.sum(), 1.0
        for user in order:
            chance *= SAMPLES[user] / left
            left -= SAMPLES[user]
        pair = tuple(sorted(sorted(order, key=lambda user: -LOSS[user])[:2]))
        chances[pair] = chances.get(pair, 0.0) + chance
    history, _ = run_rounds(make_state(PowerOfChoice(m=2, d=3)), 8_000)
    counts = [sum(tuple(users) == pair for users in history[1:]) for pair in chances]
    assert sum(counts) == 7_999
    assert stats.chisquare(counts, [7_999 * chance for chance in chances.values()]).pvalue > 1e-4


def test_fresh_losses_are_queried_from_candidates_only():
    history, queries = run_rounds(make_state(PowerOfChoice(m=1, d=2)), 200)
    for selected, question in zip(history[1:], queries, strict=False):
        candidates = question["loss"]
        assert len(candidates) == 2
        assert selected == [max(candidates, key=lambda user: LOSS[user])]


@pytest.mark.slow
def test_first_round_selects_the_first_candidates():
    first_selected = [run_rounds(make_state(PowerOfChoice(m=1, d=3), seed=seed), 1)[0][0][0] for seed in range(3_000)]
    assert stats.chisquare(np.bincount(first_selected, minlength=4), 300 * SAMPLES).pvalue > 1e-4


def test_last_losses_are_queried_from_delivered_users():
    history, queries = run_rounds(make_state(PowerOfChoice(m=2, d=4, losses="last")), 30, undelivered=[1])
    for selected, question in zip(history, queries, strict=True):
        assert question.get("loss", ()) == tuple(user for user in selected if user != 1)
    # user 1 is never delivered, so its loss stays infinite; the other losses are known after some rounds
    assert all(1 in selected for selected in history[3:])
    assert history[10:] == [[1, 3]] * 20


def test_last_loss_persists_until_a_new_one_is_known():
    state = make_state(PowerOfChoice(m=1, d=4, losses="last"))
    run_rounds(state, 5)  # every user has been delivered once, and all queries are answered
    loss = LOSS.copy()
    loss[1] = 0.0
    history, _ = run_rounds(state, 3, loss)
    assert history == [[1], [3], [3]]


def test_settings_that_do_not_fit_the_scenario_are_errors():
    facts = ScenarioFacts(users=4, rounds=1)
    assert [fault.key for fault in PowerOfChoice(m=3, d=2).faults(facts)] == ["d"]
    assert [fault.key for fault in PowerOfChoice(m=3, d=5).faults(facts)] == ["d"]
    assert [fault.key for fault in PowerOfChoice(m=6, d=7).faults(facts)] == ["m", "d"]
    assert not [*PowerOfChoice(m=4, d=4).faults(facts)]


class TestClosedLoopInAScenario:
    def errors_of(self, selection, **rest):
        access = Bernoulli(probability=0.5, selection=selection, **rest.pop("access", {}))
        return [(fault.key, fault.problem) for fault in access.faults(ScenarioFacts(users=4, rounds=1, **rest))]

    def test_it_requires_data_and_learners(self):
        keys = [key for key, _ in self.errors_of(PowerOfChoice(m=1, d=2))]
        assert keys == ["selection"]
        assert self.errors_of(PowerOfChoice(m=1, d=2), classes=3, learners=("one",)) == []

    def test_it_requires_one_learner(self):
        two = {"classes": 3, "learners": ("one", "two")}
        assert [key for key, _ in self.errors_of(PowerOfChoice(m=1, d=2), **two)] == ["learner"]
        assert self.errors_of(PowerOfChoice(m=1, d=2), access={"learner": "two"}, **two) == []
        assert [key for key, _ in self.errors_of(PowerOfChoice(m=1, d=2), access={"learner": "tow"}, **two)] == [
            "learner"
        ]
        assert [key for key, _ in self.errors_of(Uniform(m=1), access={"learner": "two"}, **two)] == ["learner"]


def test_more_deliveries_than_selected_users_is_an_error():
    facts = ScenarioFacts(users=4, rounds=1)
    assert [fault.key for fault in Bernoulli(probability=0.5, deliveries=3, selection=Uniform(m=2)).faults(facts)] == [
        "deliveries"
    ]
    assert not [*Bernoulli(probability=0.5, deliveries=2, selection=Uniform(m=2)).faults(facts)]


class FixedSelection(Selection):
    """A selection of given users."""

    selected: tuple[float, ...]

    def open(self, population):
        return FixedSelector(self.selected)


class FixedSelector(Selector):
    def __init__(self, selected):
        self.selected = selected

    def choose(self, moment):
        return np.array(self.selected)


@pytest.mark.parametrize("selected", [(1, 0), (0, 0), (3, 4), (-1, 2), (0.5,)])
def test_invalid_selection_is_an_error(selected):
    values = np.array(selected)
    selection = FixedSelection.model_construct(selected=values if values.dtype.kind == "i" else selected)
    with pytest.raises(ScenarioError, match=r"^selection: .* for round 1 gives \[.*\], which are not distinct users"):
        make_state(selection).choose(1, None)


def test_a_selection_must_open_a_selector():
    class Wrong(FixedSelection):
        def open(self, population):
            return self.selected

    with pytest.raises(ScenarioError, match=r"^selection: open\(\) of .*Wrong gives tuple; return a Selector"):
        make_state(Wrong.model_construct(selected=(1, 2)))


def test_selection_may_be_empty():
    assert make_state(FixedSelection.model_construct(selected=())).choose(1, None).tolist() == []


def test_error_names_the_path_of_the_selection():
    with pytest.raises(ScenarioError, match=r"^selection: depends on the users' amounts of data"):
        make_state(PowerOfChoice(m=1, d=2), samples=None)
