"""Probabilities that fall as a power of the user's number: by one mechanism wherever a user's probability is stated."""

import numpy as np
import pytest
import torch

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse

USERS, ROUNDS = 5, 20_000
ZIPF = {"zipf": 1.5, "max_probability": 0.6}
LISTED = [0.6 / (user + 1) ** 1.5 for user in range(USERS)]
KINDS = {
    "bernoulli": {},
    "markov": {"switch_on": 0.05},
    "cyclic": {"cycle": 50},
    "bursty": {"presence": {"distribution": "geometric", "mean": 3}},
    "correlated": {"groups": 2, "correlation": 0.3},
}


def scenario(probability, rounds=20, **access):
    return validate(
        ScenarioDocument(
            {
                "name": "z",
                "users": USERS,
                "rounds": rounds,
                "record": "none",
                "access": access | {"probability": probability},
            }
        )
    )


def drifting(probability):
    knots = [{"round": 1, "probability": probability}, {"round": 30, "probability": 0.1}]
    return validate(
        ScenarioDocument({"name": "z", "users": USERS, "rounds": 40, "access": {"kind": "drifting", "knots": knots}})
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_formula_is_the_list_that_it_stands_for(tmp_path, kind):
    runs = [
        netfl.trace(scenario(said, 300, kind=kind, **KINDS[kind]), tmp_path / name)
        for name, said in (("zipf", ZIPF), ("list", LISTED))
    ]
    assert runs[0].deliveries.equals(runs[1].deliveries)
    assert len(runs[0].deliveries) > 100


def test_knots_of_a_drift_take_the_formula(tmp_path):
    runs = [netfl.trace(drifting(said), tmp_path / name) for name, said in (("zipf", ZIPF), ("list", LISTED))]
    assert runs[0].deliveries.equals(runs[1].deliveries)
    assert len(runs[0].deliveries) > 10


@pytest.mark.slow
def test_users_are_heard_as_often_as_the_formula_says(tmp_path):
    """p_i = 0.6 (i + 1)^-1.5, each count binomial: within 4 standard deviations."""
    run = netfl.trace(scenario(ZIPF, ROUNDS, kind="bernoulli"), tmp_path / "run")
    counts = run.deliveries.groupby("user").size().to_numpy()
    p = np.array(LISTED)
    assert (np.abs(counts - ROUNDS * p) < 4 * np.sqrt(ROUNDS * p * (1 - p))).all()


def test_the_formula_reads_back():
    told = scenario({"zipf": 1}, kind="bernoulli")
    written = parse(told.to_yaml(), "n")
    assert written["access"]["probability"] == {"zipf": 1.0, "max_probability": 1.0}
    assert validate(ScenarioDocument(written)) == told


def test_an_aggregation_that_knows_the_probabilities_takes_the_formula():
    start = torch.zeros(3, dtype=torch.float64)
    weights = [KnownParticipation(probability=said).open(USERS, start)["weights"] for said in (ZIPF, tuple(LISTED))]
    assert weights[0].tolist() == pytest.approx([1 / p for p in LISTED])
    assert weights[0].tolist() == pytest.approx(weights[1].tolist())


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ({"zipf": -1}, "access.probability.zipf: should be greater than or equal to 0 (-1)"),
        (
            {"zipf": 1, "max_probability": 2},
            "access.probability.max_probability: should be less than or equal to 1 (2)",
        ),
        ({"zip": 1}, "access.probability.zip: unknown key; did you mean 'zipf'?"),
    ],
)
def test_what_is_no_probability_is_a_located_fault(probability, message):
    with pytest.raises(ScenarioError) as raised:
        scenario(probability, kind="bernoulli")
    assert message in str(raised.value)


def test_users_who_are_always_there_are_found_in_a_formula_too():
    with pytest.raises(
        ScenarioError, match=r"access\.probability: users that are always available keep their groups available"
    ):
        scenario({"zipf": 1}, kind="correlated", groups=2, correlation=0.3)
