"""Weights of users at optima: linear programs, enumerations of rounds, and figures worked out by hand."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from netfl.errors import ScenarioError
from netfl.learning.performance import cvar
from netfl.learning.user_weights import (
    CvarLevel,
    critical_alpha,
    equal_weights,
    fedau_weights,
    independent_merge_shares,
    merge_shares,
)

LEVELS = [(0.1, 0.1), (0.03, 0.1), (0.3, 0.3), (1.0, 0.2), (0.5, 0.0), (0.02, 0.9)]


def weights_of_group(rho, group, level, direction):
    """Return the extreme total weight of the users in *group*, by the linear program of the dual form.

    Maximise or minimise ``Σ_{k in group} ((1-γ) q_k + γ ρ_k)`` over ``0 <= q_k <= ρ_k/α`` with ``Σ q_k = 1``.
    """
    is_member = np.isin(np.arange(len(rho)), group).astype(float)
    solution = linprog(
        -direction * (1 - level.gamma) * is_member,
        A_eq=np.ones((1, len(rho))),
        b_eq=[1.0],
        bounds=[(0, share / level.alpha) for share in rho],
    )
    assert solution.success
    return (1 - level.gamma) * solution.x @ is_member + level.gamma * rho @ is_member


@pytest.mark.parametrize(("alpha", "gamma"), LEVELS)
@pytest.mark.parametrize("group", [[0], [3], [5], [4, 5], [0, 1, 2]])
def test_bounds_are_the_extremes_of_the_linear_program(alpha, gamma, group):
    rho = np.array([0.45, 0.3, 0.14, 0.07, 0.03, 0.01])
    level = CvarLevel(alpha, gamma)
    share = rho[group].sum(keepdims=True)
    assert level.highest(share)[0] == pytest.approx(weights_of_group(rho, group, level, 1), abs=1e-9)
    assert level.lowest(share)[0] == pytest.approx(weights_of_group(rho, group, level, -1), abs=1e-9)


@pytest.mark.parametrize(("alpha", "gamma"), LEVELS)
def test_the_largest_weighted_mean_is_the_objective(alpha, gamma):
    """The largest mean loss in the dual form is ``(1-γ) CVaR_α + γ mean`` of the primal form."""
    draws = np.random.default_rng(3)
    rho = draws.dirichlet(np.ones(7))
    losses = draws.exponential(size=7)
    solution = linprog(-losses, A_eq=np.ones((1, 7)), b_eq=[1.0], bounds=[(0, share / alpha) for share in rho])
    weights = (1 - gamma) * solution.x + gamma * rho
    level = CvarLevel(alpha, gamma)
    assert weights @ losses == pytest.approx((1 - gamma) * cvar(losses, rho, alpha) + gamma * rho @ losses, rel=1e-9)
    assert (weights <= level.highest(rho) + 1e-9).all()
    assert (weights >= level.lowest(rho) - 1e-9).all()


@pytest.mark.parametrize(
    ("users", "rho", "alpha", "gamma", "highest", "critical"),
    [
        (10, 0.02, 0.1, 0.1, 0.182, 0.1837),
        (10, 0.01, 0.1, 0.1, 0.091, 0.0909),
        (10, 0.005, 0.1, 0.1, 0.0455, 0.0452),
        (10, 0.02, 0.3, 0.3, 0.0527, 0.1489),
        (10, 0.015, 0.1, 0.1, 0.1365, 0.1371),
        (10, 0.015, 0.03, 0.1, 0.4515, 0.1371),
        (10, 0.015, 0.3, 0.3, 0.0395, 0.1099),
        (20, 0.02, 0.1, 0.1, 0.182, 0.375),
        (20, 0.02, 0.02, 0.1, 0.902, 0.375),
        (20, 0.02, 0.1, 0.0, 0.2, 0.4),
    ],
)
def test_bounds_by_hand(users, rho, alpha, gamma, highest, critical):
    level = CvarLevel(alpha, gamma)
    share = np.array([rho])
    assert level.highest(share)[0] == pytest.approx(highest, abs=5e-5)
    assert critical_alpha(share, users, gamma)[0] == pytest.approx(critical, abs=5e-5)
    assert level.can_lift(share, users)[0] == (alpha < critical)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("members", [1, 3])
def test_the_bound_at_the_critical_level_is_importance_weighting(gamma, members):
    shares = np.array([0.001, 0.02, 0.05, members / 20])
    for share, critical in zip(shares, critical_alpha(shares, 20, gamma, members), strict=True):
        assert CvarLevel(critical, gamma).highest(share) == pytest.approx(members / 20, rel=1e-12)
        assert CvarLevel(0.999 * critical, gamma).can_lift(share, 20, members)


def test_critical_levels_at_the_edges():
    shares = np.array([0.0, 0.05, 0.1, 0.4])
    assert critical_alpha(shares, 10, 0.0).tolist() == [0, 0.5, 1, 1]
    assert critical_alpha(shares, 10, 1.0).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("values", [(0, 0.1), (1.5, 0.1), (float("nan"), 0.1), (0.1, -0.1), (0.1, 1.1)])
def test_levels_out_of_range_are_errors(values):
    with pytest.raises(ScenarioError, match="write a number in"):
        CvarLevel(*values)


def test_both_wrong_values_are_reported():
    with pytest.raises(ScenarioError) as error:
        CvarLevel(2, 2)
    assert [fault.value for fault in error.value.faults] == [2, 2]


@pytest.mark.parametrize(
    ("alpha", "expected"), [(1, 0.02), (0.3, 0.062), (0.1, 0.182), (0.05, 0.362), (0.02, 0.5), (0.01, 0.5)]
)
def test_weight_of_a_rare_block_by_hand(alpha, expected):
    assert CvarLevel(alpha, 0.1).two_block_weight(0.02, equalising=0.5) == pytest.approx(expected, abs=1e-12)


def test_a_rare_block_is_lifted_if_bound_and_equalising_weight_exceed_its_part():
    """Two blocks of quadratics: f_rare falls with the weight θ, so that its loss decides; the optimum is by search."""
    grid = np.linspace(0, 1, 200_001)
    users, members, gamma = 20, 2, 0.1
    for share, alpha, offset in product([0.01, 0.04, 0.08], [0.03, 0.1, 0.4], [-0.2, 0.3, 0.45]):
        losses = np.stack([grid**2 / 2 + offset, (grid - 1) ** 2 / 2], axis=1)
        rho = np.array([1 - share, share])
        objective = (1 - gamma) * cvar(losses, rho, alpha) + gamma * losses @ rho
        best = grid[objective.argmin()]
        level = CvarLevel(alpha, gamma)
        equalising = 0.5 - offset
        assert level.two_block_weight(share, equalising) == pytest.approx(best, abs=1e-4)
        lifted = level.can_lift(share, users, members) and equalising > members / users
        assert lifted == (best > members / users + 1e-4)


def enumerated_shares(probability, weights):
    """Return the expected shares of a merge by all sets of users."""
    expected = np.zeros(len(weights))
    for chosen in product([0, 1], repeat=len(weights)):
        present = np.array(chosen)
        if present.any():
            chance = np.where(present, probability, 1 - probability).prod()
            expected += chance * present * weights / (present @ weights)
    return expected / expected.sum()


@pytest.mark.parametrize(
    "weights", [[1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2], [1, 5, 200, 3, 40, 700], [700, 1, 1, 1, 1, 1]]
)
@pytest.mark.parametrize("probability", [[0.9, 0.8, 0.7, 0.5, 0.3, 0.1], [1, 1, 0.01, 0.01, 0.5, 0], [1e-3] * 6])
def test_merge_shares_of_independent_users_by_enumeration(probability, weights):
    p, n = np.array(probability), np.array(weights, float)
    shares = independent_merge_shares(p, n)
    assert shares == pytest.approx(enumerated_shares(p, n), abs=1e-7)
    assert shares.sum() == pytest.approx(1)


def test_merge_shares_are_not_the_participation_rates():
    shares = independent_merge_shares(np.array([0.9, 0.8, 0.7, 0.5, 0.3, 0.1]), np.ones(6))
    assert shares == pytest.approx([0.294, 0.250, 0.210, 0.141, 0.080, 0.025], abs=6e-4)
    assert independent_merge_shares(np.zeros(2), np.ones(2)).tolist() == [0, 0]


def test_merge_shares_of_recorded_rounds_by_hand():
    delivered = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]], bool)
    thirds = [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3]
    assert merge_shares(delivered, np.ones(3)) == pytest.approx(np.array(thirds) / 3)
    sizes = np.array([1.0, 3.0, 4.0])
    by_size = [1 + 1 / 4 + 1 / 8, 3 / 4 + 3 / 8, 4 / 8]
    assert merge_shares(delivered, sizes) == pytest.approx(np.array(by_size) / 3)
    assert merge_shares(delivered[1:2], sizes).tolist() == [0, 0, 0]


def test_merge_shares_of_single_deliveries_are_their_counts():
    users = np.array([0, 2, 2, 1, 0, 2])
    delivered = users[:, None] == np.arange(4)
    assert merge_shares(delivered, np.array([1.0, 9.0, 2.0, 5.0])) == pytest.approx([2 / 6, 1 / 6, 3 / 6, 0])


@pytest.mark.parametrize("cutoff", [1, 5, 20, 50])
def test_weights_of_fedau_by_the_mean_interval(cutoff):
    """The mean interval by its distribution: it ends after i < K rounds with p (1-p)^(i-1), else after K."""
    p = np.array([0.02, 0.3, 1.0, 0.0])
    length = np.arange(1, cutoff)
    ends = p[:, None] * (1 - p[:, None]) ** (length - 1)
    mean = ends @ length + cutoff * (1 - ends.sum(axis=1))
    assert fedau_weights(p, cutoff) == pytest.approx(p * mean / 4)


def test_weights_of_rules_that_correct_participation():
    assert 4 * fedau_weights(np.array([0.02, 0.3, 1.0, 0.0])) == pytest.approx([1, 1, 1, 0])
    assert [20 * fedau_weights(np.full(20, 0.02), k)[0] for k in (5, 20, 50)] == pytest.approx(
        [0.10, 0.33, 0.64], abs=5e-3
    )
    assert equal_weights(np.array([True, True, False, True])).tolist() == [0.25, 0.25, 0, 0.25]
