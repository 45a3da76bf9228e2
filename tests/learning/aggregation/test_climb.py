"""CLIMB: duals and versions beside the authors' program, and its rules for users that do not report."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support import paper_algorithms as papers
from support.loss_traces import ABSENT, USERS, play_beside, updates_of

from netfl.learning.aggregation.climb import Climb

SIZE = 3


@pytest.mark.parametrize(
    ("eta", "lr_lambda", "epsilon", "primal_rounds"),
    [(1.0, 1.0, 1.0, 5), (0.7, 5.0, 0.1, 1), (1.0, 20.0, 0.0, 3), (2.0, 1000.0, 0.05, 2)],
)
def test_versions_and_duals_equal_the_authors_program(eta, lr_lambda, epsilon, primal_rounds):
    rule = Climb(server_lr=eta, lr_lambda=lr_lambda, epsilon=epsilon, primal_rounds=primal_rounds)
    reference = papers.Climb(USERS, eta, lr_lambda, epsilon, primal_rounds)
    largest = 0.0
    for index, (found, expected, state) in enumerate(play_beside(rule, reference, seed=5), start=1):
        scale = max(1.0, np.abs(expected).max())
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-11 * scale)
        assert state["lambdas"].numpy() == pytest.approx(reference.lambdas, rel=1e-11, abs=1e-11)
        assert index > 40 or state["lambdas"][ABSENT] == 0
        largest = max(largest, reference.lambdas.max())
    if lr_lambda > 1:
        assert largest > 0.5
    if lr_lambda == 1000:
        assert largest == 100


def run(rule, trace):
    """Return the λ after each round of *trace*: pairs of user, base round and loss of each delivery."""
    current = torch.zeros(SIZE, dtype=torch.float64)
    state = rule.open(3, current)
    found = []
    for index, deliveries in enumerate(trace, start=1):
        if deliveries:
            users, since, losses = (np.array(column) for column in zip(*deliveries, strict=True))
            rows = np.zeros((len(users), SIZE))
            updates = updates_of(index, users, since, rows, rows + 1, np.ones(3), losses)
            current, state = rule.step(state, current, updates)
        else:
            current, state = rule.idle(state, current, index, torch.ones(2))
        found.append(state["lambdas"].tolist())
    return found


def test_duals_by_hand():
    """η_λ/N = 1.  Losses 3, 1 and 2 have the mean 2; in the next step the last ones known are 3, 4 and 2."""
    trace = [[(0, 0, 3.0), (1, 0, 1.0), (2, 0, 2.0)], [(1, 1, 4.0)], []]
    found = run(Climb(lr_lambda=3, epsilon=0.25, primal_rounds=1), trace)
    assert found == [[0.75, 0.0, 0.0], [0.5, 0.75, 0.0], [0.25, 1.5, 0.0]]


def test_losses_are_of_before_the_primal_rounds():
    """Reports of versions 1 and later wait for the next step, in round 4; that of version 0 counts when it is late."""
    trace = [[(0, 0, 3.0)], [(0, 1, 9.0), (1, 0, 1.0)], [], [(1, 2, 7.0), (2, 3, 50.0)]]
    assert run(Climb(lr_lambda=3, epsilon=0, primal_rounds=2), trace)[1::2] == [[1.0, 0, 0], [2.0, 0, 0]]


def test_users_without_a_report_have_no_dual():
    found = run(Climb(lr_lambda=3, epsilon=0, primal_rounds=1), [[], [(2, 1, 5.0)], [(0, 2, 1.0)]])
    assert found == [[0, 0, 0], [0, 0, 0], [0, 0, 2.0]]


def test_the_weights_of_users_are_those_of_their_next_change():
    rule = Climb(lr_lambda=30, epsilon=0, primal_rounds=1)
    *_, (_, _, state) = play_beside(rule, papers.Climb(USERS, 1, 30, 0, 1), seed=2, rounds=20)
    weights = rule.user_weights(state)
    assert weights.mean().item() == pytest.approx(1)
    assert weights.min() < 0
    current = torch.zeros(SIZE, dtype=torch.float64)
    for user in range(USERS):
        updates = updates_of(
            21, np.array([user]), np.array([20]), np.zeros((1, SIZE)), np.ones((1, SIZE)), np.ones(USERS), [1.0]
        )
        moved, _ = rule.step(state, current, updates)
        assert moved.tolist() == pytest.approx([weights[user].item()] * SIZE)


@pytest.mark.parametrize("settings", [{"lr_lambda": 0}, {"epsilon": -1}, {"primal_rounds": 0}, {"server_lr": 0}])
def test_invalid_settings_are_errors(settings):
    with pytest.raises(ValidationError):
        Climb.model_validate(settings)
