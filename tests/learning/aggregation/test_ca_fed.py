"""CA-Fed: versions beside the authors' program, and the greedy removal beside all subsets."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support import paper_algorithms as papers
from support.error_messages import assert_messages
from support.loss_traces import SIZE, USERS, play_beside, updates_of

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.ca_fed import CaFed, kept_users
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.types import ScenarioFacts

PI = (0.9, 0.6, 0.5, 0.3, 0.2, 0.25, 0.1)
LAMBDA = (0.1, -0.3, 0.8, 0.55, 0.0, 0.9, 0.45)
KNOWN = {"probability": PI, "correlation": LAMBDA}
OPTIMA = (0.1, 0.0, 0.2, 0.05, 0.3, 0.1, 0.0)
CASES = {
    "defaults": ({}, {}),
    "biased": ({"b": 0.2, "s": 0.2}, {"b": 0.2, "s": 0.2}),
    "tolerance": ({"b": 0.1, "tolerance": 0.02}, {"b": 0.1, "tolerance": 0.02}),
    "optima": ({"b": 0.3, "s": 0.8, "optimum": OPTIMA}, {"b": 0.3, "s": 0.8, "optimum": OPTIMA}),
    "known": ({"b": 0.3, "estimate": "known", **KNOWN}, {"b": 0.3, "known": (np.array(PI), LAMBDA)}),
    "prior": (
        {"b": 0.2, "s": 0.2, "estimate": "prior", "prior_rounds": 100, **KNOWN},
        {"b": 0.2, "s": 0.2, "known": (np.array(PI), LAMBDA), "prior": 100},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_versions_equal_the_authors_program(name):
    settings, published = CASES[name]
    reference = papers.CaFed(USERS, 0.3, **published)
    for found, expected, _ in play_beside(CaFed(server_lr=0.3, **settings), reference, seed=11):
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
    if name != "defaults":
        assert len({*reference.left_out}) >= 3  # numbers of users that are left out


def error(gaps, kept, b):
    """Return E of the paper for the *kept* users, with w = 1/K for them and the total variation from 1/N."""
    w = np.isin(np.arange(len(gaps)), kept) / len(kept)
    return w @ gaps + b * gaps.max() * (0.5 * np.abs(w - 1 / len(gaps)).sum()) ** 2


@pytest.mark.parametrize("b", [0.0, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_users_are_left_out_one_by_one_as_long_as_the_error_falls(b, tolerance):
    rng = np.random.default_rng(4)
    counts = set()
    for _ in range(40):
        gaps = rng.exponential(size=6)
        order = [*rng.permutation(6), *rng.permutation(6)]
        kept = list(range(6))
        for user in order:
            fewer = [other for other in kept if other != user]
            if user in kept and fewer and error(gaps, kept, b) - error(gaps, fewer, b) >= tolerance:
                kept = fewer
        assert np.flatnonzero(kept_users(gaps.tolist(), order, b, tolerance)).tolist() == kept
        counts.add(len(kept))
    assert (counts == {6}) is (b == 10.0)


def test_the_last_user_is_kept():
    assert kept_users([3.0, 2.0, 1.0], [2, 1, 0, 0, 1, 2], 0.0, 0.0) == [False, False, True]
    assert kept_users([0.0, 0.0], [0, 1], 1.0, 0.0) == [False, True]


def test_estimates_by_hand():
    """User 0 is there in rounds 1, 2 and 4 of 4, user 1 in round 2, user 2 never; nobody was before."""
    rule = CaFed()
    current = torch.zeros(SIZE, dtype=torch.float64)
    state = rule.open(3, current)
    for index, users in enumerate([[0], [0, 1], [], [0]], start=1):
        count = len(users)
        rows = np.zeros((count, SIZE))
        updates = updates_of(index, users, [index - 1] * count, rows, rows, np.ones(3), [1.0] * count)
        if users:
            current, state = rule.step(state, current, updates)
        else:
            current, state = rule.idle(state, current, index, torch.ones(2))
    availability, correlation = rule._estimates(state)
    assert availability.tolist() == [0.75, 0.25, 0.0]
    assert correlation.tolist() == [1 / 4 - 1, 2 / 4 - 1, 0.0]


def test_with_a_large_weight_of_the_bias_it_is_inverse_availability():
    rule = CaFed(b=1e6, estimate="known", **KNOWN)
    versions = [found for found, _, _ in play_beside(rule, papers.Average(), seed=2)]
    others = [found for found, _, _ in play_beside(KnownParticipation(probability=PI), papers.Average(), seed=2)]
    assert np.array(versions) == pytest.approx(np.array(others), rel=1e-10, abs=1e-12)


def scenario(**settings):
    return {
        "name": "kept",
        "users": 4,
        "rounds": 3,
        "access": {"kind": "markov", "probability": [0.9, 0.5, 0.3, 0.2]},
        "data": "digits",
        "partition": "iid",
        "model": "logistic",
        "learners": {
            "one": {
                "objective": "erm",
                "aggregation": {"kind": "ca_fed", **settings},
                "lr": 0.1,
                "batch_size": 8,
                "local_steps": 1,
            }
        },
    }


def test_the_access_states_the_availability():
    rule = CaFed(estimate="known", correlation=0.5)
    stated = rule.with_participation(np.array([0.5, 0.0, 0.2]))
    state = stated.open(3, torch.zeros(2))
    assert state["probability"].tolist() == [0.5, 0.0, 0.2]
    assert state["correlation"].tolist() == [0.5] * 3
    assert CaFed().with_participation(np.ones(3)).probability is None
    assert [fault.key for fault in rule.faults(ScenarioFacts(users=3, rounds=1))] == ["probability"]
    assert not [*rule.faults(ScenarioFacts(users=3, rounds=1, participation_known=True))]
    with pytest.raises(ValueError, match="outer aggregation must forward"):
        rule.open(3, torch.zeros(2))
    netfl.load(scenario(estimate="known", correlation=[0.1, 0, 0.9, 0]))


def test_a_user_that_is_never_there_has_no_weight():
    """The access gives it the probability 0; a delivery of it would be an error of the access."""
    rule = CaFed(estimate="known", correlation=0.0).with_participation(np.array([0.5, 0.0, 0.2]))
    current = torch.zeros(SIZE, dtype=torch.float64)
    rows = np.zeros((1, SIZE))
    updates = updates_of(1, [1], [0], rows, rows + 1, np.ones(3), [1.0])
    moved, _ = rule.step(rule.open(3, current), current, updates)
    assert moved.tolist() == [0.0] * SIZE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"correlation": 0.5}, "aggregation.correlation: has no effect without estimate: prior or known"),
        ({"estimate": "known"}, "aggregation.correlation: missing; estimate: known needs it"),
        ({"prior_rounds": 9}, "aggregation.prior_rounds: has no effect without estimate: prior"),
        ({"optimum": [0.1, 0.2]}, "aggregation.optimum: 2 values for 4 users; give one for each user"),
        ({"estimate": "known", "correlation": [0.5]}, "aggregation.correlation: 1 values for 4 users"),
    ],
)
def test_settings_that_do_not_fit_are_errors(settings, message):
    with pytest.raises(ScenarioError) as caught:
        netfl.load(scenario(**settings))
    assert_messages(str(caught.value).splitlines(), [f"learners.one.{message}"])


@pytest.mark.parametrize(
    "settings", [{"b": -1}, {"s": 1}, {"tolerance": -0.1}, {"server_lr": 0}, {"correlation": 2, "estimate": "known"}]
)
def test_invalid_settings_are_errors(settings):
    with pytest.raises(ValidationError):
        CaFed.model_validate(settings)
