"""Probabilities that follow Zipf's law, wherever the probability of a user is stated."""

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
    "time_varying": {"cycle": {"period": 5, "spread": 0.5}, "common_loss": 0.1},
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
def test_formula_equals_its_list(tmp_path, kind):
    runs = [
        netfl.trace(scenario(probability, 300, kind=kind, **KINDS[kind]), tmp_path / name)
        for name, probability in (("zipf", ZIPF), ("list", LISTED))
    ]
    assert runs[0].deliveries.equals(runs[1].deliveries)
    assert len(runs[0].deliveries) > 100


def test_drift_knots_accept_formula(tmp_path):
    runs = [
        netfl.trace(drifting(probability), tmp_path / name) for name, probability in (("zipf", ZIPF), ("list", LISTED))
    ]
    assert runs[0].deliveries.equals(runs[1].deliveries)
    assert len(runs[0].deliveries) > 10


@pytest.mark.slow
def test_delivery_rates_follow_formula(tmp_path):
    """p_i = 0.6 (i + 1)^-1.5; each binomial count is within 4 standard deviations."""
    run = netfl.trace(scenario(ZIPF, ROUNDS, kind="bernoulli"), tmp_path / "run")
    counts = run.deliveries.groupby("user").size().to_numpy()
    p = np.array(LISTED)
    assert (np.abs(counts - ROUNDS * p) < 4 * np.sqrt(ROUNDS * p * (1 - p))).all()


def test_formula_survives_yaml_round_trip():
    original = scenario({"zipf": 1}, kind="bernoulli")
    yaml = parse(original.to_yaml(), "n")
    assert yaml["access"]["probability"] == {"zipf": 1.0, "max_probability": 1.0}
    assert validate(ScenarioDocument(yaml)) == original


def test_known_participation_accepts_formula():
    start = torch.zeros(3, dtype=torch.float64)
    weights = [
        KnownParticipation(probability=probability).open(USERS, start)["weights"]
        for probability in (ZIPF, tuple(LISTED))
    ]
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
def test_invalid_probability_is_reported_with_its_key(probability, message):
    with pytest.raises(ScenarioError) as raised:
        scenario(probability, kind="bernoulli")
    assert message in str(raised.value)


def test_always_available_users_are_found_in_formula():
    with pytest.raises(
        ScenarioError, match=r"access\.probability: users that are always available keep their groups available"
    ):
        scenario({"zipf": 1}, kind="correlated", groups=2, correlation=0.3)
