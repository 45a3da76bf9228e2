"""Grids of step sizes, the choice of a candidate, and the errors of the section ``tuning``."""

import math
from fractions import Fraction

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Average, Fedau
from netfl.learning.candidates import Candidate, LogRange, halton, name_candidates, possible_range
from netfl.learning.effective_steps import StepRule
from netfl.learning.objective import Cvar, Erm
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import (
    LearnerChoice,
    Score,
    TuningChoice,
    TuningSpec,
    beats_constant,
    choose_candidate,
    grid_centres,
    last_quarter_means,
    tuning_state,
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


def candidates_at(values, is_loss=False, places=None, trials=None, **scores):
    """Return candidates of one learner with these values, ``[candidates, replicas]``, and the choice among them."""
    tuning = TuningSpec(by="loss" if is_loss else "accuracy", trials=trials or max(3, len(values)))
    search = tuning.searches({"a": ERM})["a"].next_pass(tuning.trials, {}, np.zeros(8))
    if places is None:
        places = search.places[: len(values)]
    candidates = [Candidate("a", place, 0.1 * 2 ** place["lr"]) for place in places]
    of_candidates = {}
    for number, (each, row) in enumerate(zip(candidates, values, strict=True)):
        of_candidates[each] = Score(np.array(row, float), **{name: column[number] for name, column in scores.items()})
    return candidates, choose_candidate(tuning, ERM, search, of_candidates)


@pytest.mark.parametrize("is_loss", [False, True])
def test_best_candidate_equals_a_search_over_all(is_loss):
    rng = np.random.default_rng(5)
    for _ in range(200):
        values = rng.integers(0, 3, (7, 2)) / 4  # with ties
        values[rng.random((7, 2)) < 0.1] = np.nan
        order = rng.permutation(7)
        places = [{"lr": float(number - 3)} for number in order]
        ranked = []
        for number in range(7):
            pair = values[number]
            if not any(np.isnan(pair)):
                score = sum(pair) / 2
                ranked.append((score if is_loss else -score, order[number], number))
        candidates, chosen = candidates_at(values, is_loss, places)
        assert chosen.best is candidates[min(ranked)[2]]


def test_ties_go_to_the_smaller_step_and_diverged_candidates_lose():
    candidates, chosen = candidates_at([[0.5], [0.5], [0.5]])
    assert chosen.best is candidates[0]
    candidates, chosen = candidates_at([[0.1, 0.1], [0.9, np.nan], [0.05, 0.05]])
    assert chosen.best is candidates[0]
    _, chosen = candidates_at(np.full((3, 2), np.nan), is_loss=True)
    assert (chosen.best, chosen.problem) == (None, "diverged")
    assert chosen.wider == {"lr": LogRange(-3, 1)}


def test_a_tie_at_an_edge_widens_both_ways_and_a_single_best_its_side():
    assert candidates_at([[0.5], [0.5], [0.1], [0.1], [0.1]])[1].wider == {"lr": LogRange(-4, 4)}
    assert candidates_at([[0.5], [0.4], [0.1], [0.1], [0.1]])[1].wider == {"lr": LogRange(-6, 2)}
    assert candidates_at([[0.1], [0.1], [0.1], [0.4], [0.5]])[1].wider == {"lr": LogRange(-2, 6)}
    assert candidates_at([[0.1], [0.5], [0.5], [0.4], [0.4]])[1].wider == {}


def test_candidates_that_have_learned_nothing_are_never_chosen():
    learns = [False, False, True, True, True]
    candidates, chosen = candidates_at([[0.9], [0.8], [0.2], [0.3], [0.1]], learns=learns)
    assert chosen.best is candidates[3]
    assert chosen.alive == {*candidates[2:]}
    _, chosen = candidates_at([[0.9], [0.8], [0.2], [0.3], [0.1]], learns=[False] * 5)
    assert (chosen.best, chosen.problem) == (None, "dead")
    assert chosen.wider == {"lr": LogRange(-4, 4)}  # a plateau of chance has no better side


def test_a_half_trained_candidate_is_never_chosen():
    gains = [(0.1, 0.1), (0.3, 0.3), (0.7, 0.7)]
    assert candidates_at([[0.9], [0.8], [0.2]], gains=gains)[1].best.place["lr"] == 1
    contradicting = [(0.1, 0.001), (0.25, -0.2), (0.3, -0.3)]  # of a majority and of a minority
    assert candidates_at([[0.9], [0.8], [0.2]], gains=contradicting)[1].best.place["lr"] == -1
    never_above = [(0.1, -0.3), (0.25, -0.2), (0.3, -0.1)]
    assert candidates_at([[0.9], [0.8], [0.2]], gains=never_above)[1].best.place["lr"] == 0


def test_a_candidate_below_a_floor_is_never_chosen():
    tuning = TuningSpec(by="rare_accuracy", trials=3, floor={"accuracy": 0.9})
    search = tuning.searches({"a": ERM})["a"].next_pass(3, {}, np.zeros(8))
    low, middle, high = (Candidate("a", place, 2 ** place["lr"]) for place in search.places)

    def score(rare, accuracy, learns=True):
        return Score(np.array([rare]), learns, floors={"accuracy": accuracy})

    scores = {low: score(0.9, 0.71), middle: score(0.5, 0.73), high: score(0.3, 0.8)}
    assert choose_candidate(tuning, ERM, search, scores).best is middle  # 0.73 >= 0.9 · 0.8
    scores[high] = score(0.3, 0.8, learns=False)
    assert choose_candidate(tuning, ERM, search, scores).best is low


def test_a_model_is_alive_by_two_standard_errors_over_the_start_and_the_best_constant_answer():
    rng = np.random.default_rng(6)
    for _ in range(300):
        classes = int(rng.integers(2, 6))
        examples = rng.integers(5, 400, classes)
        accuracy = rng.random(classes)
        start = rng.random(classes)
        spread = [accuracy[k] * (1 - accuracy[k]) / examples[k] for k in range(classes)]
        spread_at_start = [start[k] * (1 - start[k]) / examples[k] for k in range(classes)]
        above_constant = (sum(accuracy) / classes - 1 / classes) / (math.sqrt(sum(spread)) / classes)
        above_start = (sum(accuracy) - sum(start)) / math.sqrt(sum(spread) + sum(spread_at_start))
        assert beats_constant(accuracy, start, examples) == (above_constant > 2 and above_start > 2)


@pytest.mark.parametrize("constant", [0, 1, 2])
def test_no_constant_answer_is_alive_whatever_the_sizes_of_the_classes(constant):
    accuracy = np.zeros(3)
    accuracy[constant] = 1.0
    assert not beats_constant(accuracy, np.array([0.2, 0.1, 0.3]), np.array([900, 90, 10]))


def test_centres_have_one_effective_step_and_unbounded_weights_keep_their_step_size():
    centres = grid_centres({"a": ERM, "b": CVAR, "c": UNBOUNDED}, RULE)
    assert centres["c"] == 0.7
    weight = 0.9 / 0.1 + 0.1
    assert centres["b"] * weight == pytest.approx(centres["a"])
    assert centres["a"] == pytest.approx(math.sqrt(0.1 * 0.1 * weight))
    assert grid_centres({"c": UNBOUNDED}, RULE) == {"c": 0.7}


def first_candidates(tuning, learners, rule=RULE):
    """Return the candidates of the first pass."""
    searches = {name: each.next_pass(tuning.trials, {}, SHIFT) for name, each in tuning.searches(learners).items()}
    return tuning.candidates(searches, learners, rule)


SHIFT = np.random.default_rng(1).random(8)


def test_further_keys_that_change_the_weight_keep_the_effective_step_of_the_centre():
    tuning = TuningSpec(by="loss", trials=3, keys={"momentum": (0.0, 0.9), "batch_size": (4, 8)})
    learners = {"a": ERM, "b": CVAR, "c": UNBOUNDED}
    centres = [each for each in first_candidates(tuning, learners) if each.place["lr"] == 0]
    assert [centre.learner for centre in centres] == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    applied = [each.apply(learners[each.learner]) for each in centres]
    assert {round(RULE.step(learner), 12) for learner in applied[:8]} == {round(0.1 * math.sqrt(9.1), 12)}
    assert [learner.lr for learner in applied[8:]] == [0.7] * 4
    assert applied[2].lr == pytest.approx(applied[0].lr / 10)


def test_a_further_key_without_a_bound_is_centred_on_the_step_size_given():
    tuning = TuningSpec(by="loss", trials=3, keys={"aggregation": ("average", "fedau")})
    bounded, unbounded = first_candidates(tuning, {"a": CVAR})[1::3]
    assert (bounded.lr, unbounded.lr) == (pytest.approx(0.1), 0.1)
    both = first_candidates(tuning, {"a": CVAR, "b": ERM})[1::3]
    assert both[0].lr < 0.1
    assert [centre.lr for centre in both[1::2]] == [0.1, 0.1]


@pytest.mark.parametrize("number", [3, 6, 7])
def test_a_learner_tuned_by_its_step_alone_has_a_symmetric_geometric_sequence(number):
    tuning = TuningSpec(by="accuracy", trials=number, factor=3, keys={"momentum": (0.0, 0.5)})
    candidates = first_candidates(tuning, {"a": ERM, "b": CVAR})
    for name, learner, weight in (("a", ERM, 1), ("b", CVAR, 9.1)):
        of_learner = [candidate for candidate in candidates if candidate.learner == name]
        assert len(of_learner) == 2 * number
        for momentum in (0.0, 0.5):
            step_sizes = [each.lr for each in of_learner if each.apply(learner).momentum == momentum]
            assert np.diff(np.log(step_sizes)) == pytest.approx(np.log(3))
            assert np.exp(np.mean(np.log(step_sizes))) == pytest.approx(0.1 * math.sqrt(9.1) / weight * (1 - momentum))
    assert len({*name_candidates(candidates)}) == len(candidates)


def steps(search):
    """Return the steps of the last pass."""
    return [place["lr"] for place in search.places[-5:]]


def test_a_further_pass_doubles_a_range_or_fills_the_widest_gaps():
    first = TuningSpec(by="loss", trials=5).searches({"a": ERM})["a"].next_pass(5, {}, SHIFT)
    assert steps(first) == [-2, -1, 0, 1, 2]
    low = first.next_pass(5, {"lr": first.ranges["lr"].widened("low")}, SHIFT)
    assert steps(low) == [-7, -6, -5, -4, -3]
    assert low.ranges == {"lr": LogRange(-7, 2)}
    assert steps(low.next_pass(5, {"lr": low.ranges["lr"].widened("high")}, SHIFT)) == [3, 4, 5, 6, 7]
    both = first.next_pass(5, {"lr": first.ranges["lr"].widened("both")}, SHIFT)
    assert sorted(steps(both)) == [-4, -3, 3, 4, 5]
    assert sorted(steps(first.next_pass(5, {}, SHIFT))) == [-1.75, -1.5, -0.5, 0.5, 1.5]


BOX = {"learners": {"CVaR": {"objective.lr_t": {"from": 1e-4, "to": 0.1}, "objective.alpha": {"from": 0.02, "to": 1}}}}


def test_a_learner_in_a_box_has_as_many_candidates_spread_over_it():
    tuning = TuningSpec.model_validate({"by": "loss", "trials": 64, **BOX})
    learners = {"erm": ERM, "CVaR": CVAR}
    candidates = first_candidates(tuning, learners)
    assert [sum(each.learner == name for each in candidates) for name in learners] == [64, 64]
    boxed = [each for each in candidates if each.learner == "CVaR"]
    lr_t = np.array([dict(each.settings)["objective.lr_t"] for each in boxed])
    alpha = np.array([dict(each.settings)["objective.alpha"] for each in boxed])
    assert 1e-4 <= lr_t.min() < 2e-4
    assert 0.05 < lr_t.max() <= 0.1
    for values in (np.log(lr_t / 1e-4) / np.log(1e3), np.log(alpha / 0.02) / np.log(50)):
        counts = np.histogram(values, bins=8, range=(0, 1))[0]
        assert counts.min() >= 6  # 8 in each eighth, of a sequence that is spread evenly
    corners = {(x > 1e-4 * math.sqrt(1e3), y > 0.02 * math.sqrt(50)) for x, y in zip(lr_t, alpha, strict=True)}
    assert len(corners) == 4
    for each in boxed:  # at any α the effective step is within the range of those of the others
        assert abs(math.log2(RULE.step(each.apply(CVAR)) / (0.1 * math.sqrt(9.1)))) <= 31.5 + 1e-9
        assert each.apply(CVAR).objective.lr_t == dict(each.settings)["objective.lr_t"]


def test_halton_points_are_those_of_a_calculation_in_exact_fractions():
    points = halton(0, 40, 3, np.array([0.25, 0.5, 0.0]))
    for number in range(40):
        for dimension, (base, shift) in enumerate(((2, Fraction(1, 4)), (3, Fraction(1, 2)), (5, Fraction(0)))):
            digits = np.base_repr(number, base)[::-1]
            exact = sum(Fraction(int(digit), base ** (place + 1)) for place, digit in enumerate(digits))
            assert points[number, dimension] == pytest.approx(float((exact + shift) % 1))


def test_keys_of_whole_numbers_are_rounded_and_end_where_the_learner_refuses_them():
    fedau = LearnerSpec(objective=Erm(), aggregation=Fedau(cutoff=50), lr=0.1, **WORK)
    box = {"learners": {"FedAU": {"aggregation.cutoff": {"from": 5, "to": 500}}}}
    tuning = TuningSpec.model_validate({"by": "loss", "trials": 20, **box})
    cutoffs = [each.values["aggregation.cutoff"] for each in first_candidates(tuning, {"FedAU": fedau})]
    assert all(isinstance(cutoff, int) and 5 <= cutoff <= 500 for cutoff in cutoffs)
    now = LogRange(math.log(5), math.log(500))
    wider = possible_range(fedau, "aggregation.cutoff", now, now.widened("both"))
    assert round(math.exp(wider.low)) == 1  # 0 is refused
    assert wider.high == now.widened("both").high
    alpha = possible_range(CVAR, "objective.alpha", LogRange(math.log(0.2), 0.0), LogRange(-5, 3))
    assert alpha == LogRange(-5, 0.0)


def test_the_state_says_whose_candidates_all_diverged():
    learners = dict.fromkeys("abc", ERM)
    tuning = TuningSpec(by="loss")
    best = Candidate("c", {"lr": 3}, 0.1)
    choice = TuningChoice(
        {
            "a": LearnerChoice(None, frozenset(), {"lr": LogRange(-9, 3)}, "diverged"),
            "b": LearnerChoice(best, frozenset()),
            "c": LearnerChoice(best, frozenset(), {"lr": LogRange(-3, 9)}),
        },
        passes=3,
        candidates=21,
        evaluations=12,
    )
    assert choice.is_over
    assert choice.problem(tuning) == (
        "all 21 candidates of a diverged, and the best lr of c by validation loss is at the edge of 21 candidates each"
    )
    stated = tuning_state(tuning, learners, [choice.problem(tuning)], [21], 12)
    assert stated == f"not tuned: {choice.problem(tuning)}"


def test_the_state_names_criterion_candidates_evaluations_and_keys_left_as_given():
    def state(spec, learners):
        return tuning_state(spec, learners, [""], [7], 12)

    tuned = "tuned by validation loss, 7 candidates each, means of 12 evaluations, for this choice of"
    assert state(TuningSpec(by="loss"), {"a": ERM}) == f"{tuned} step"
    learners = {"a": ERM, "CVaR": CVAR}
    left = "objective.alpha, objective.gamma, objective.lr_t as given"
    assert state(TuningSpec(by="loss"), learners) == f"{tuned} step, {left}"
    boxed = TuningSpec.model_validate({"by": "loss", **BOX})
    assert state(boxed, learners) == f"{tuned} settings, objective.gamma as given"
    assert state(boxed, {**learners, "over FedAU": CVAR}).endswith(
        "objective.gamma, objective.alpha of over FedAU, objective.lr_t of over FedAU as given"
    )


def test_the_state_of_replicas_that_are_tuned_by_themselves_is_one_sentence():
    by_replica = TuningSpec(by="loss", per="replica")
    assert tuning_state(by_replica, {"a": ERM}, ["", ""], [7, 21], 12) == (
        "tuned by validation loss, 7 to 21 candidates each, means of 12 evaluations, each replica by itself"
    )
    problem = "no candidate learns, of 21 of a"
    assert tuning_state(by_replica, {"a": ERM}, ["", problem, "other"], [7, 21, 21], 12) == (
        f"not tuned in 2 of 3 replicas: {problem}"
    )


def test_long_or_equal_names_of_candidates_are_numbers():
    near = [Candidate("a", {}, 0.1), Candidate("a", {}, 0.1000001), Candidate("b" * 99, {}, 0.1)]
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
        ({"tuning.trials": 1}, "tuning.trials: .*3"),
        ({"tuning.factor": 1}, "tuning.factor: .* more than 1"),
        ({"tuning.keys": {"batch": [4, 8]}}, "tuning.keys.batch: is no key of learner 'A'; did you mean 'batch_size'"),
        ({"tuning.keys": {"aggregation.cutoff": [4, 8]}}, "tuning.keys.aggregation.cutoff: is no key of learner 'A'"),
        ({"tuning.keys": {"batch_size": [4]}}, "tuning.keys.batch_size: .* too few entries"),
        ({"tuning.keys": {"batch_size": [4, 0]}}, "tuning.keys.batch_size: is not possible for learner 'A'"),
        ({"tuning.keys": {"lr": [0.1, 0.2]}}, "tuning.keys.lr: is always tuned; leave it out"),
        ({"tuning.keys": {"batch_size": [4, 8, 4]}}, r"tuning.keys.batch_size: lists an entry twice \(4\)"),
        (
            {"tuning.keys": {"objective.alpha": [0.1, 0.2]}},
            "keys.objective.alpha: .*, whose objective is of the kind erm; tune keys .* or use tuning.learners",
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
        ({"tuning.candidates": 7}, r"tuning.candidates: is called trials now \(7\); write trials in place of it"),
        *(
            ({"tuning.learners": ranges}, problem)
            for ranges, problem in (
                ({"C": {"aggregation.cutoff": {"from": 5, "to": 50}}}, "tuning.learners.C: no such learner"),
                (
                    {"A": {"aggregation.cutoff": {"from": 5, "to": 50}}},
                    "learners.A.aggregation.cutoff: is no key of .* 'A'",
                ),
                ({"B": {"aggregation.cutoff": {"from": 50, "to": 5}}}, r"cutoff.from: not below to \(5\) \(50.*\)"),
                ({"B": {"aggregation.cutoff": {"from": 0.2, "to": 5}}}, "cutoff.from: is not possible for learner 'B'"),
                ({"B": {"aggregation.cutoff": {"from": 5.1, "to": 5.3}}}, "cutoff.to: the range holds one value alone"),
                ({"B": {"aggregation.cutoff": {"from": 0, "to": 5}}}, "cutoff.from: .* more than 0"),
                ({"B": {"aggregation.cutoff": {"from": 5}}}, "cutoff.to: missing"),
                ({"B": {"objective": {"from": 5, "to": 50}}}, "learners.B.objective: is not possible for learner 'B'"),
                ({"B": {"lr": {"from": 0.1, "to": 1}}}, "learners.B.lr: is always tuned"),
                ({"B": {}}, "learners.B: .* too few entries"),
            )
        ),
        (
            {"tuning": {"by": "objective", "learners": {"B": {"objective.alpha": {"from": 0.1, "to": 1}}}}},
            "learners.B.objective.alpha: changes the objective, by which candidates are compared",
        ),
        (
            {"tuning.keys": {"momentum": [0, 0.5]}, "tuning.learners": {"B": {"momentum": {"from": 0.1, "to": 0.5}}}},
            "learners.B.momentum: is among the keys of all learners, too; leave one of them out",
        ),
        ({"tuning.floor": {"loss": 0.9}}, "tuning.floor.loss: "),
        ({"tuning.floor": {"accuracy": 1.1}}, "tuning.floor.accuracy: .* 1"),
        ({"tuning.per": "learner"}, "tuning.per: unknown value"),
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
