"""Choices of a former rule of tuning, judged by the present one from stored rows alone."""

import findings
import numpy as np
import pandas as pd
import pytest
from findings import FINDINGS
from judged_tuning import DEAD, EDGE, STANDS, TEST_SETS, is_alive, judge_choices, smallest_range

from netfl.learning.data.digits import Digits
from netfl.learning.tuning import grid_centres
from netfl.streams import Streams


def tune_by_the_former_rule(optima):
    """Return the places chosen for learners whose criterion falls with the distance from *optima*, and the grid."""
    low, high = -3, 3
    for widening in range(3):
        chosen = [min(range(low, high + 1), key=lambda place: abs(place - optimum)) for optimum in optima]
        if widening == 2 or not {low, high} & set(chosen):
            return chosen, (low, high)
        low, high = low - 3 * (low in chosen), high + 3 * (high in chosen)
    raise AssertionError


def test_the_range_is_that_of_the_former_rule():
    rng = np.random.default_rng(2)
    for optima in rng.uniform(-12, 12, (500, 3)):
        chosen, grid = tune_by_the_former_rule(optima)
        found = smallest_range(chosen)
        assert found == grid, (optima, chosen)


def test_the_test_set_of_digits_is_that_of_the_data():
    labels = Digits().load(Streams(0)).test_y
    assert TEST_SETS["digits"] == (len(labels), np.bincount(labels).max() / len(labels))


def test_a_model_is_alive_above_the_best_constant_answer():
    constant = 44 / 360
    noise = 0.001 * np.linspace(-1, 1, 10)
    assert not is_alive(constant + noise, "digits")
    assert not is_alive(constant + 2 * np.sqrt(constant * (1 - constant) / 360) + noise, "digits")
    assert is_alive(0.2 + noise, "digits")
    assert not is_alive(np.array([0.9, 0.1] + 8 * [0.1]), "digits")  # one replica of ten learns


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"FedAvg": 0, "MIFA": 2}, {"FedAvg": STANDS, "MIFA": STANDS}),
        ({"FedAvg": 2, "MIFA": -4}, {"FedAvg": EDGE, "MIFA": STANDS}),  # of -6 to 3, 2 is in the outer sixth
        ({"FedAvg": 1, "MIFA": -5}, {"FedAvg": STANDS, "MIFA": EDGE}),
        ({"FedAvg": 9, "MIFA": 0}, {"FedAvg": EDGE, "MIFA": STANDS}),
    ],
)
def test_choices_are_judged_by_their_place_in_the_range(places, expected):
    scenario = next(each for each in FINDINGS if each.name == "absence").load("")
    centres = grid_centres(scenario.learners, scenario.step_rule)
    rows = [
        ("20", learner, centres[learner] * scenario.tuning.factor**place, replica, "accuracy", 0.9)
        for learner, place in places.items()
        for replica in range(3)
    ]
    table = pd.DataFrame(rows, columns=["point", "learner", "lr", "replica", "metric", "value"])
    assert judge_choices(scenario, table) == {("20", learner): state for learner, state in expected.items()}


def test_collapsed_models_of_a_stored_finding_do_not_stand():
    judgements = next(each for each in FINDINGS if each.name == "cutoff").judgements
    dead = {key for key, state in judgements.items() if state == DEAD}
    assert dead == {("", "1,000", "K = 200"), ("", "1,000", "no cutoff")}


def test_all_stored_choices_of_the_former_rule_are_judged():
    for finding in FINDINGS:
        results = finding.results
        is_former = (results["metric"] == "accuracy") & (results["tuning"] == findings.FORMER)
        choices = results[is_former][["block", "point", "learner"]]
        assert set(finding.judgements) == {tuple(row) for row in choices.drop_duplicates().to_numpy().tolist()}
    assert any("dead: K = 200" in line for line in findings.judgement_lines())
