"""Correlated access: marginals, correlations within and across groups, memory, and invalid groups."""

from __future__ import annotations

import numpy as np
import pytest

from netfl.access.bernoulli import Bernoulli
from netfl.access.correlated import Correlated
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts

ROUNDS = 20_000
P = np.array([0.6, 0.3, 0.3, 0.1, 0.5, 0.2])


def is_close(measured, expected, rounds=ROUNDS, spread=1.0):
    """Return whether *measured* is within five standard errors of *expected*."""
    return np.abs(np.asarray(measured) - expected).max() < 5 * spread / np.sqrt(rounds)


@pytest.mark.slow
def test_marginals_and_correlations(make_context, delivery_matrix):
    access = Correlated(probability=tuple(P), groups=[[0, 1, 2, 3], [5, 4]], correlation=0.5)
    available = delivery_matrix(access, make_context(6, ROUNDS)).astype(float)
    assert is_close(available.mean(axis=0), P, spread=0.5)
    measured = np.corrcoef(available.T)
    # by enumeration: the group is available with probability g, then each user independently;
    # g follows from the correlation of two users like the most frequent one
    for group in ([0, 1, 2, 3], [4, 5]):
        top = P[group].max()
        group_rate = next(
            g for g in np.linspace(top, 1, 200_001) if (top * top / g - top * top) / (top * (1 - top)) <= 0.5
        )
        for first in group:
            for second in group:
                if first < second:
                    both_available = group_rate * (P[first] / group_rate) * (P[second] / group_rate)
                    covariance = both_available - P[first] * P[second]
                    expected = covariance / np.sqrt(P[first] * (1 - P[first]) * P[second] * (1 - P[second]))
                    assert is_close(measured[first, second], expected, spread=1.5)
    assert is_close(measured[:4, 4:], 0.0)


@pytest.mark.parametrize("r", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.slow
def test_equal_users_have_the_given_correlation(make_context, delivery_matrix, r):
    available = delivery_matrix(Correlated(probability=0.3, groups=1, correlation=r), make_context(3, ROUNDS)).astype(
        float
    )
    assert is_close(np.corrcoef(available.T)[np.triu_indices(3, 1)], r, spread=1.5)
    assert is_close(available.mean(axis=0), 0.3, spread=0.5)


def test_fully_correlated_users_are_available_together(make_context, delivery_matrix):
    available = delivery_matrix(Correlated(probability=0.3, groups=2, correlation=1.0), make_context(6, 500))
    assert (available[:, :3] == available[:, :1]).all()
    assert (available[:, 3:] == available[:, 3:4]).all()
    assert (available[:, 0] != available[:, 3]).any()


@pytest.mark.parametrize(("switch_on", "memory"), [(None, 0.0), (0.05, 1 - 0.05 - 0.05 * 0.36 / 0.4)])
@pytest.mark.slow
def test_autocorrelation_is_that_of_the_groups(make_context, delivery_matrix, switch_on, memory):
    """A group is available with g = 0.4 / (0.4 + 0.6 * 0.6) and leaves with 0.05 (1 / g - 1) = 0.05 * 0.36 / 0.4."""
    access = Correlated(probability=0.4, groups=1, correlation=0.6, switch_on=switch_on)
    available = delivery_matrix(access, make_context(2, 40_000)).astype(float)
    spread = 1.0 if switch_on is None else 4.0  # memory reduces the number of independent rounds
    for first, second in ((0, 0), (0, 1)):
        assert is_close(np.corrcoef(available[:-1, first], available[1:, second])[0, 1], 0.6 * memory, 40_000, spread)
    assert is_close(available.mean(), 0.4, 40_000, spread)


def test_groups_are_equal_blocks_or_listed():
    assert Correlated(probability=0.5, groups=3, correlation=1).members(8).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    listed = Correlated(probability=0.5, groups=[[4, 1], [2, 3]], correlation=1)
    assert listed.members(6).tolist() == [2, 0, 1, 1, 0, 3]


@pytest.mark.slow
def test_users_without_a_group_are_independent(make_context, delivery_matrix):
    access = Correlated(probability=0.3, groups=[[0, 1]], correlation=0.9)
    available = delivery_matrix(access, make_context(4, ROUNDS)).astype(float)
    assert is_close(np.corrcoef(available.T)[2:, :2], 0.0)
    assert is_close(available.mean(axis=0), 0.3, spread=0.5)


def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users):
    access = Correlated(probability=0.3, groups=4, correlation=0.5, switch_on=0.1, deliveries=3)
    assert delivered_users(access, make_context(40, 4_000))[:25] == delivered_users(access, make_context(40, 25))


def test_rates_equal_the_probabilities(make_context):
    access = Correlated(probability=[0.2, 0.4], groups=1, correlation=0.5)
    assert access.rates(2, make_context().streams).tolist() == [0.2, 0.4]
    assert access.info.process == "emergent-correlated"
    assert access.model_copy(update={"switch_on": 0.1}).info.process == "Markovian"
    assert Bernoulli(probability=0.5).info.process in {None, "stationary"}


@pytest.mark.parametrize(
    "overrides",
    [
        {"correlation": 0.0},
        {"correlation": 1.1},
        {"groups": 0},
        {"groups": "two"},
        {"groups": []},
        {"groups": [[0, 1], []]},
        {"groups": [[0, -1]]},
        {"switch_on": 0.0},
    ],
)
def test_values_out_of_range_raise_an_error(overrides):
    with pytest.raises(ScenarioError) as error:
        Correlated(**{"probability": 0.5, "groups": 2, "correlation": 0.5} | overrides)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == set(overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"groups": 4}, "groups: no two of the 4 users would share a group (4)"),
        ({"groups": [[0, 1], [1, 2]]}, "groups: users occur twice ([1])"),
        ({"groups": [[0, 1], [2, 9]]}, "groups: no such users ([9])"),
        ({"groups": [[0], [2]]}, "groups: no two users share a group"),
        ({"probability": 1.0}, "probability: users that are always available have no correlation (1.0)"),
        (
            {"probability": [1.0, 0.5, 0.5, 0.5]},
            "probability: users that are always available keep their groups available permanently",
        ),
        ({"probability": [0.5, 0.5]}, "probability: 2 probabilities for 4 users"),
        ({"deliveries": 5}, "deliveries: more than the 4 users"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_errors(overrides, message):
    access = Correlated(**{"probability": 0.5, "groups": 2, "correlation": 0.5} | overrides)
    (fault,) = access.faults(ScenarioFacts(users=4, rounds=9))
    assert str(fault).startswith(message)
    assert fault.remedy


def test_dump_and_validate_restore_the_access():
    for groups in (2, [[0, 1], [2, 3]]):
        access = Correlated(probability=0.5, groups=groups, correlation=0.25, switch_on=0.1)
        assert Correlated.model_validate(access.model_dump(mode="json")) == access
        assert not [*access.faults(ScenarioFacts(users=4, rounds=9))]
