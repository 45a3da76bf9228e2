"""Groups that fail together: marginals, correlations within and across, memory, and groups that are none."""

from __future__ import annotations

import numpy as np
import pytest

from netfl.access.bernoulli import Bernoulli
from netfl.access.correlated import Correlated
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts

ROUNDS = 20_000
P = np.array([0.6, 0.3, 0.3, 0.1, 0.5, 0.2])


def close(found, wanted, rounds=ROUNDS, spread=1.0):
    """Within five standard deviations of *spread* over the root of so many independent rounds."""
    return np.abs(np.asarray(found) - wanted).max() < 5 * spread / np.sqrt(rounds)


@pytest.mark.slow
def test_marginals_and_correlations(make_setting, presence):
    access = Correlated(probability=tuple(P), groups=[[0, 1, 2, 3], [5, 4]], correlation=0.5)
    there = presence(access, make_setting(6, ROUNDS)).astype(float)
    assert close(there.mean(axis=0), P, spread=0.5)
    found = np.corrcoef(there.T)
    # by enumeration: the group is up (g) or not, and then coins; g from the pair of users like the most frequent one
    for group in ([0, 1, 2, 3], [4, 5]):
        top = P[group].max()
        up = next(g for g in np.linspace(top, 1, 200_001) if (top * top / g - top * top) / (top * (1 - top)) <= 0.5)
        for one in group:
            for other in group:
                if one < other:
                    together = up * (P[one] / up) * (P[other] / up)
                    covariance = together - P[one] * P[other]
                    wanted = covariance / np.sqrt(P[one] * (1 - P[one]) * P[other] * (1 - P[other]))
                    assert close(found[one, other], wanted, spread=1.5)
    assert close(found[:4, 4:], 0.0)


@pytest.mark.parametrize("r", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.slow
def test_users_alike_are_correlated_by_the_stated_number(make_setting, presence, r):
    there = presence(Correlated(probability=0.3, groups=1, correlation=r), make_setting(3, ROUNDS)).astype(float)
    assert close(np.corrcoef(there.T)[np.triu_indices(3, 1)], r, spread=1.5)
    assert close(there.mean(axis=0), 0.3, spread=0.5)


def test_wholly_correlated_users_are_there_together(make_setting, presence):
    there = presence(Correlated(probability=0.3, groups=2, correlation=1.0), make_setting(6, 500))
    assert (there[:, :3] == there[:, :1]).all()
    assert (there[:, 3:] == there[:, 3:4]).all()
    assert (there[:, 0] != there[:, 3]).any()


@pytest.mark.parametrize(("switch_on", "memory"), [(None, 0.0), (0.05, 1 - 0.05 - 0.05 * 0.36 / 0.4)])
@pytest.mark.slow
def test_memory_is_that_of_the_groups_alone(make_setting, presence, switch_on, memory):
    """A group is up with g = 0.4 / (0.4 + 0.6 * 0.6), so it goes with 0.05 (1 / g - 1) = 0.05 * 0.36 / 0.4."""
    access = Correlated(probability=0.4, groups=1, correlation=0.6, switch_on=switch_on)
    there = presence(access, make_setting(2, 40_000)).astype(float)
    spread = 1.0 if switch_on is None else 4.0  # with memory, fewer of the rounds are independent
    for one, other in ((0, 0), (0, 1)):
        assert close(np.corrcoef(there[:-1, one], there[1:, other])[0, 1], 0.6 * memory, 40_000, spread)
    assert close(there.mean(), 0.4, 40_000, spread)


def test_groups_are_even_neighbours_or_as_listed():
    assert Correlated(probability=0.5, groups=3, correlation=1).members(8).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    listed = Correlated(probability=0.5, groups=[[4, 1], [2, 3]], correlation=1)
    assert listed.members(6).tolist() == [2, 0, 1, 1, 0, 3]


@pytest.mark.slow
def test_users_on_their_own_are_as_of_bernoulli_in_law(make_setting, presence):
    access = Correlated(probability=0.3, groups=[[0, 1]], correlation=0.9)
    there = presence(access, make_setting(4, ROUNDS)).astype(float)
    assert close(np.corrcoef(there.T)[2:, :2], 0.0)
    assert close(there.mean(axis=0), 0.3, spread=0.5)


def test_the_first_rounds_do_not_depend_on_how_many_are_wanted(make_setting, hear):
    access = Correlated(probability=0.3, groups=4, correlation=0.5, switch_on=0.1, deliveries=3)
    assert hear(access, make_setting(40, 4_000))[:25] == hear(access, make_setting(40, 25))


def test_rates_are_the_probabilities(make_setting):
    access = Correlated(probability=[0.2, 0.4], groups=1, correlation=0.5)
    assert access.rates(2, make_setting().streams).tolist() == [0.2, 0.4]
    assert access.info.process == "emergent-correlated"
    assert access.model_copy(update={"switch_on": 0.1}).info.process == "Markovian"
    assert Bernoulli(probability=0.5).info.process in {None, "stationary"}


@pytest.mark.parametrize(
    "said",
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
def test_what_is_out_of_range_is_refused(said):
    with pytest.raises(ScenarioError) as caught:
        Correlated(**{"probability": 0.5, "groups": 2, "correlation": 0.5} | said)
    assert {fault.key.split(".")[1] for fault in caught.value.faults} == set(said)


@pytest.mark.parametrize(
    ("said", "told"),
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
def test_misfits_are_faults(said, told):
    access = Correlated(**{"probability": 0.5, "groups": 2, "correlation": 0.5} | said)
    (fault,) = access.faults(ScenarioFacts(users=4, rounds=9))
    assert str(fault).startswith(told)
    assert fault.remedy


def test_it_says_itself_again():
    for groups in (2, [[0, 1], [2, 3]]):
        access = Correlated(probability=0.5, groups=groups, correlation=0.25, switch_on=0.1)
        assert Correlated.model_validate(access.model_dump(mode="json")) == access
        assert not [*access.faults(ScenarioFacts(users=4, rounds=9))]
