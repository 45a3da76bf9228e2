"""Grids of step sizes, the choice of a candidate, and the errors of the section ``tuning``."""

import math

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Average, Fedau
from netfl.learning.effective_steps import StepRule
from netfl.learning.objective import Cvar, Erm
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import (
    Candidate,
    Grid,
    GridCentre,
    TuningSpec,
    best_candidate,
    candidates_of,
    choose_candidates,
    grid_centres,
    last_quarter_means,
    name_candidates,
)

RULE = StepRule(users=10, deliveries=4)
WORK = {"batch_size": 8, "local_steps": 2}
ERM = LearnerSpec(objective=Erm(), aggregation=Average(), lr=0.1, **WORK)
CVAR = LearnerSpec(objective=Cvar(alpha=0.1, gamma=0.1, lr_t=0.01), aggregation=Average(), lr=0.1, **WORK)
UNBOUNDED = LearnerSpec(objective=Erm(), aggregation=Fedau(), lr=0.7, **WORK)


def test_criterion_is_the_mean_of_the_last_quarter_of_the_evaluations():
    rng = np.random.default_rng(4)
    rounds = np.arange(0, 205, 5)
    values = rng.random((len(rounds), 3))
    expected = [np.mean([row[lane] for at, row in zip(rounds, values, strict=True) if at >= 150]) for lane in range(3)]
    assert last_quarter_means(rounds, values) == pytest.approx(expected)
    values[-1, 1] = np.nan
    assert np.isnan(last_quarter_means(rounds, values)).tolist() == [False, True, False]


@pytest.mark.parametrize("is_loss", [False, True])
def test_best_candidate_equals_a_search_over_all(is_loss):
    rng = np.random.default_rng(5)
    for _ in range(200):
        step_sizes = rng.permutation(7) + 1.0
        values = rng.integers(0, 3, (7, 2)) / 4  # with ties
        values[rng.random((7, 2)) < 0.1] = np.nan
        ranked = []
        for number in range(7):
            pair = values[number]
            score = sum(pair) / 2 if not any(np.isnan(pair)) else (math.inf if is_loss else -math.inf)
            ranked.append((score if is_loss else -score, step_sizes[number], number))
        assert best_candidate(step_sizes.tolist(), values, is_loss=is_loss) == min(ranked)[2]


def test_ties_go_to_the_smaller_step_and_diverged_candidates_lose():
    assert best_candidate([0.4, 0.1, 0.2], np.array([[0.5], [0.5], [0.5]]), is_loss=False) == 1
    assert best_candidate([0.4, 0.1], np.array([[0.1, 0.1], [0.9, np.nan]]), is_loss=False) == 0
    assert best_candidate([0.4, 0.1], np.full((2, 2), np.nan), is_loss=True) == 1


def test_centres_have_one_effective_step_and_unbounded_weights_keep_their_step_size():
    centres = grid_centres({"a": ERM, "b": CVAR, "c": UNBOUNDED}, RULE)
    assert centres["c"] == 0.7
    weight = 0.9 / 0.1 + 0.1
    assert centres["b"] * weight == pytest.approx(centres["a"])
    assert centres["a"] == pytest.approx(math.sqrt(0.1 * 0.1 * weight))
    assert grid_centres({"c": UNBOUNDED}, RULE) == {"c": 0.7}


def test_further_keys_that_change_the_weight_keep_the_effective_step_of_the_centre():
    tuning = TuningSpec(by="loss", keys={"momentum": (0.0, 0.9), "batch_size": (4, 8)})
    learners = {"a": ERM, "b": CVAR, "c": UNBOUNDED}
    centres = tuning.centres(learners, RULE)
    assert [centre.learner for centre in centres] == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    applied = [Candidate(each.learner, 0.0, each.lr, each.settings).apply(learners[each.learner]) for each in centres]
    assert {round(RULE.step(learner), 12) for learner in applied[:8]} == {round(0.1 * math.sqrt(9.1), 12)}
    assert [learner.lr for learner in applied[8:]] == [0.7] * 4
    assert applied[2].lr == pytest.approx(applied[0].lr / 10)


def test_a_further_key_without_a_bound_is_centred_on_the_step_size_given():
    tuning = TuningSpec(by="loss", keys={"aggregation": ("average", "fedau")})
    bounded, unbounded = tuning.centres({"a": CVAR}, RULE)
    assert (bounded.lr, unbounded.lr) == (pytest.approx(0.1), 0.1)
    both = tuning.centres({"a": CVAR, "b": ERM}, RULE)
    assert both[0].lr < 0.1
    assert [centre.lr for centre in both[1::2]] == [0.1, 0.1]


@pytest.mark.parametrize("number", [3, 6, 7])
def test_the_lowest_exponents_are_those_of_a_grid_that_was_widened_twice_below(number):
    tuning = TuningSpec(by="loss", candidates=number)
    grid = tuning.first_grid
    for _ in range(2):
        grid = grid.widened(number // 2, down=True, up=False)
    assert tuning.lowest_exponents == grid.exponents[:number]


def test_the_state_says_whose_candidates_all_diverged():
    tuning = TuningSpec(by="loss")
    candidates = candidates_of(tuning, [GridCentre(name, 0.1) for name in "abc"], GRID.exponents)
    values = {each: np.array([each.exponent, 1.0]) for each in candidates}
    values |= {each: np.array([np.nan, 1.0]) for each in candidates if each.learner == "a"}
    values |= {each: np.array([abs(each.exponent), 1.0]) for each in candidates if each.learner == "b"}
    chosen = choose_candidates(tuning, GRID, 2, values)
    assert chosen.diverged == ("a",)
    assert chosen.sentence(tuning) == (
        "not tuned: all 7 candidates of a diverged, and the best lr of c by validation loss is at the edge of "
        "7 candidates each"
    )
    del values[candidates[-1]]
    only = choose_candidates(tuning, GRID, 2, {each: value for each, value in values.items() if each.learner != "c"})
    assert only.sentence(tuning) == "not tuned: all 7 candidates of a diverged"


@pytest.mark.parametrize("number", [3, 6, 7])
def test_grids_are_symmetric_and_all_have_the_same_number_of_candidates(number):
    tuning = TuningSpec(by="accuracy", candidates=number, factor=3, keys={"momentum": (0.0, 0.5)})
    exponents = tuning.first_grid.exponents
    assert len(exponents) == number
    assert sum(exponents) == 0
    centres = [GridCentre(name, lr, each) for name, lr in (("a", 0.1), ("b", 0.01)) for each in tuning.settings]
    candidates = candidates_of(tuning, centres, exponents)
    for name, centre in (("a", 0.1), ("b", 0.01)):
        of_learner = [candidate for candidate in candidates if candidate.learner == name]
        assert len(of_learner) == 2 * number
        step_sizes = sorted({candidate.lr for candidate in of_learner})
        assert np.diff(np.log(step_sizes)) == pytest.approx(np.log(3))
        assert np.mean(np.log(step_sizes)) == pytest.approx(np.log(centre))
    assert {candidate.apply(ERM).momentum for candidate in candidates} == {0.0, 0.5}
    assert len({*name_candidates(candidates)}) == len(candidates)


GRID = Grid(-3, 3)


def choice(bests, grid=GRID, widenings=0):
    """Return the choice where the best candidate of each learner has the exponent of *bests*."""
    tuning = TuningSpec(by="accuracy")
    candidates = candidates_of(tuning, [GridCentre(name, 0.1) for name in bests], grid.exponents)
    values = {each: np.array([-abs(each.exponent - bests[each.learner])]) for each in candidates}
    return choose_candidates(tuning, grid, widenings, values)


def test_all_grids_are_widened_on_each_side_where_a_best_lies_at_the_edge():
    tuning = TuningSpec(by="accuracy")
    assert choice({"a": 0, "b": 2}).is_over
    assert choice({"a": 0, "b": 2}).sentence(tuning) == "tuned by validation accuracy, 7 candidates each"
    high = choice({"a": 0, "b": 5})
    assert not high.is_over
    assert high.next_grid(tuning) == Grid(-3, 6)
    assert choice({"a": -3, "b": 3}).next_grid(tuning) == Grid(-6, 6)
    wide = choice({"a": 0, "b": 5}, Grid(-3, 6), 1)
    assert wide.is_over
    assert wide.best["b"].exponent == 5
    assert wide.sentence(tuning) == "tuned by validation accuracy, 10 candidates each"


def test_after_two_widenings_a_best_at_the_edge_is_not_tuned():
    last = choice({"a": 0, "b": 9}, Grid(-3, 9), 2)
    assert last.is_over
    assert not last.is_inside
    problem = "the best lr of b by validation accuracy is at the edge of 13 candidates each"
    assert last.sentence(TuningSpec(by="accuracy")) == f"not tuned: {problem}"


def test_long_or_equal_names_of_candidates_are_numbers():
    near = [Candidate("a", 0, 0.1), Candidate("a", 1, 0.1000001), Candidate("b" * 99, 2, 0.1)]
    assert name_candidates(near) == ["a lr=0.1", "candidate 1", "candidate 2"]


SCENARIO = {
    "name": "tuned",
    "users": 6,
    "rounds": 8,
    "access": {"kind": "bernoulli", "probability": 0.6},
    "data": {"kind": "digits"},
    "partition": {"kind": "rare_classes", "classes": [9], "users": 2, "by": "rho"},
    "model": "logistic",
    "learners": {
        "A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2},
        "B": {"objective": "erm", "aggregation": "fedau", "lr": 0.1, "batch_size": 8, "local_steps": 2},
    },
    "evaluate": {"every": 4, "validation": 0.2},
    "tuning": {"by": "rare_accuracy"},
}
CLOSED = {"kind": "adversarial", "learner": "A", "deliveries": 1}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tuning.by": "accurcy"}, "tuning.by: unknown value .*did you mean 'accuracy'"),
        ({"tuning.candidates": 1}, "tuning.candidates: .*3"),
        ({"tuning.factor": 1}, "tuning.factor: .* more than 1"),
        ({"tuning.keys": {"batch": [4, 8]}}, "tuning.keys.batch: is no key of learner 'A'; did you mean 'batch_size'"),
        ({"tuning.keys": {"aggregation.cutoff": [4, 8]}}, "tuning.keys.aggregation.cutoff: is no key of learner 'A'"),
        ({"tuning.keys": {"batch_size": [4]}}, "tuning.keys.batch_size: .* too few entries"),
        ({"tuning.keys": {"batch_size": [4, 0]}}, "tuning.keys.batch_size: is not possible for learner 'A'"),
        ({"tuning.keys": {"lr": [0.1, 0.2]}}, "tuning.keys.lr: is always tuned; leave it out"),
        ({"tuning.keys": {"batch_size": [4, 8, 4]}}, r"tuning.keys.batch_size: lists an entry twice \(4\)"),
        (
            {"tuning.keys": {"objective.alpha": [0.1, 0.2]}},
            "keys.objective.alpha: .*, whose objective is of the kind erm; tune keys",
        ),
        (
            {"tuning": {"by": "objective", "keys": {"objective": ["erm", {"kind": "cvar", "alpha": 0.1}]}}},
            "tuning.keys.objective: changes the objective, by which candidates are compared; leave it out",
        ),
        ({"learners.A.lr": 1e300, "tuning.factor": 100}, "tuning.factor: the lr of 'A' around .* the range of numbers"),
        ({"learners.B.lr": 1e-300, "tuning.factor": 10}, "tuning.factor: the lr of 'B' around .* the range of numbers"),
        (
            {
                "learners.B": {**SCENARIO["learners"]["A"], "lr": None, "step_of": "A"},
                "tuning.keys": {"aggregation": ["average", {"kind": "qfedavg", "q": 1}]},
            },
            "tuning.keys: with aggregation=.*qfedavg.* the weights of 'A' have no bound, .*; leave out one of these",
        ),
        ({"tuning.candidate": 7}, "tuning.candidate: .*did you mean 'candidates'"),
        ({"evaluate.rare_classes": []}, "tuning.by: there are no rare classes"),
        ({"evaluate.on": "validation"}, "tuning: has no effect with evaluate.on"),
        ({"learners.A.step_of": "C"}, "learners.A.lr: follows from step_of"),
        ({"learners.A": {**SCENARIO["learners"]["A"], "lr": None, "step_of": "B"}}, "'B' have no bound"),
    ],
)
def test_bad_input_is_one_located_error(changes, problem):
    with pytest.raises(ScenarioError, match=problem) as raised:
        netfl.load(SCENARIO, changes)
    assert len(raised.value.faults) == 1


def test_tuning_without_learners_is_an_error():
    without = {key: value for key, value in SCENARIO.items() if key not in {"learners", "evaluate", "model"}}
    with pytest.raises(ScenarioError, match="tuning: has no effect without learners"):
        netfl.load(without)


@pytest.mark.parametrize("share", [None, 0.001])
def test_tuning_needs_validation_examples(share, tmp_path):
    scenario = netfl.load(SCENARIO, {"evaluate.validation": share})
    with pytest.raises(ScenarioError, match=r"evaluate.*validation example"):
        netfl.run(scenario, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_only_runs_tune():
    with pytest.raises(ScenarioError, match="tuning: only runs and sweeps tune their learners"):
        netfl.Simulation(SCENARIO, learning=True)
    with netfl.Simulation(SCENARIO) as simulation:
        assert simulation.step().index == 1
