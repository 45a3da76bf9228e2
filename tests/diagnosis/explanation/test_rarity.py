"""Users that deliver less than their fair share, by chance or beyond it."""

import numpy as np
import pytest

from netfl.diagnosis.explanation.rarity import Standing, rarity_of


def share_of_alarms(draw, runs=200):
    """Return the share of runs with equal users in which any user counts as rare."""
    alarms = sum(rarity_of(draw(np.random.default_rng(seed))).is_rare.any() for seed in range(runs))
    return alarms / runs


def one_of(users, rounds=300):
    """Return a function that draws one user for each round."""

    def draw(rng):
        delivered = np.zeros((1, rounds, users), np.int64)
        delivered[0, np.arange(rounds), rng.integers(users, size=rounds)] = 1
        return delivered

    return draw


def in_runs_of(length, users=10, rounds=600):
    """Return a function that draws one user for each run of rounds, so that deliveries come in clusters."""

    def draw(rng):
        delivered = np.zeros((1, rounds, users), np.int64)
        chosen = np.repeat(rng.integers(users, size=rounds // length), length)
        delivered[0, np.arange(rounds), chosen] = 1
        return delivered

    return draw


@pytest.mark.parametrize("draw", [one_of(6), one_of(60), in_runs_of(5), in_runs_of(12)])
@pytest.mark.slow
def test_chance_rarities_are_no_alarm(draw):
    assert share_of_alarms(draw) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.parametrize("draw", [one_of(6), one_of(60), in_runs_of(5)])
@pytest.mark.slow
def test_causes_are_looked_for_in_few_runs_of_equal_users(draw):
    """In 1,000 runs of equal users, 5 have a user whose causes are looked for; 14 is the 99.9 % quantile."""
    rare_runs = 0
    for seed in range(1000):
        rarity = rarity_of(draw(np.random.default_rng(seed)))
        rare_runs += Standing.RARE in {rarity.standing(user) for user in range(len(rarity.p))}
    assert rare_runs <= 14


def test_chance_decides_between_doubt_and_a_cause():
    """Of 300 deliveries to ten equal users, the rarest has 16: P = 0.0031 for it alone, 0.031 for any of ten."""
    delivered = np.zeros((1, 300, 10), np.int64)
    others = np.resize(np.arange(1, 10), 284)
    delivered[0, np.arange(300), np.concatenate([np.zeros(16, int), others])] = 1
    rng = np.random.default_rng(3)
    rarity = rarity_of(delivered[:, rng.permutation(300)])
    assert rarity.p[0] == pytest.approx(0.031, abs=0.02)
    assert rarity.standing(0) is Standing.DOUBTFUL
    assert rarity.standing(1) is Standing.ABOVE


def test_rare_user_is_found():
    rng = np.random.default_rng(1)
    rates = np.array([0.3] * 9 + [0.05])
    rarity = rarity_of((rng.random((2, 300, 10)) < rates).astype(np.int64))
    assert np.flatnonzero(rarity.is_rare).tolist() == [9]
    assert rarity.standing(9) is Standing.RARE
    assert rarity.fair == pytest.approx(2 * 300 * rates.mean(), rel=0.1)
    assert rarity.rarest(1) == [9]


def test_many_silent_users_are_rare_although_each_could_be_so_by_chance():
    """Four users share 300 deliveries, 46 have none: with 6 for each, one of them could be silent by chance."""
    delivered = np.zeros((1, 200, 50), np.int64)
    rng = np.random.default_rng(2)
    delivered[0, :, :4] = rng.random((200, 4)) < 0.4
    rarity = rarity_of(delivered)
    assert rarity.is_rare[4:].all()
    assert not rarity.is_rare[:4].any()
    assert rarity.standing(0) is Standing.ABOVE


def test_network_that_hardly_delivers_starves_its_users():
    delivered = np.zeros((1, 200, 4), np.int64)
    delivered[0, ::50, 1] = 1
    rarity = rarity_of(delivered)
    assert rarity.hardly_delivers
    assert rarity.empty_rounds == 196
    assert rarity.standing(0) is Standing.STARVED
    nothing = rarity_of(np.zeros((1, 200, 4), np.int64))
    assert {nothing.standing(user) for user in range(4)} == {Standing.STARVED}


def test_typical_users_are_near_the_fair_share():
    delivered = np.zeros((1, 100, 4), np.int64)
    for user, count in enumerate((5, 60, 50, 90)):
        delivered[0, :count, user] = 1
    rarity = rarity_of(delivered)
    assert rarity.fair == 51.25
    assert rarity.typical(2) == [2, 1]
