"""Gains of one play over another: calibrated on plays that differ by chance, and by known amounts."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis.loss_attribution import gain_p_values

CAUSES = 6
"""Five causes, and all of them."""


def alarms(worlds, play):
    """In what share of worlds any cause would be named for any of the three rarest users, of whom all might be."""
    named = 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        plays = [play(rng) for _ in range(1 + CAUSES)]
        rare = np.argsort(plays[0].sum(axis=(0, 1)), kind="stable")[:3]
        p = [gain_p_values(plays[0][:, :, rare], one[:, :, rare]).min() for one in plays[1:]]
        named += min(p) <= 0.05 / (CAUSES * plays[0].shape[2])
    return named / worlds


def poisson(mean, users=20):
    """Independent counts that are alike for all users."""
    return lambda rng: rng.poisson(mean / 1000, (1, 1000, users))


def chains(rng):
    """Users who stay, and stay away, for ten rounds in the mean, in two replicas."""
    stays = rng.random((2, 600, 12)) < 0.9
    stays[:, 0] = False
    drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(600)[:, None]), axis=1)
    return np.take_along_axis(rng.random((2, 600, 12)) < 0.3, drawn, axis=1).astype(np.int64)


@pytest.mark.parametrize("mean", [1, 4, 12, 60, 400])
@pytest.mark.slow
def test_independent_plays_name_no_cause(mean):
    assert alarms(300, poisson(mean)) <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


@pytest.mark.slow
def test_memory_names_no_cause():
    assert alarms(200, chains) <= 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mean", [5, 50])
def test_a_single_p_value_is_no_smaller_than_it_says(mean):
    rng = np.random.default_rng(1)
    p = gain_p_values(rng.poisson(mean / 800, (1, 800, 4000)), rng.poisson(mean / 800, (1, 800, 4000)))
    for bound in (0.001, 0.01, 0.05):
        assert (p <= bound).mean() <= bound + 3 * (bound / 4000) ** 0.5


def test_few_deliveries_have_the_exact_law():
    before, after = np.zeros((1, 200, 1), np.int64), np.zeros((1, 200, 1), np.int64)
    after[0, ::40] = 1
    assert gain_p_values(before, after)[0] >= stats.binomtest(5, 5, alternative="greater").pvalue
    assert gain_p_values(after, before)[0] == 1.0
    assert gain_p_values(before, before)[0] == 1.0


def test_what_plays_share_is_no_chance():
    """The same but for forty deliveries more, which are few beside what independent plays would differ by."""
    rng = np.random.default_rng(2)
    before = (rng.random((1, 4000, 1)) < 0.5).astype(np.int64)
    after = before.copy()
    after[0, rng.choice(np.flatnonzero(before[0, :, 0] == 0), 40, replace=False)] = 1
    assert gain_p_values(before, after)[0] < 1e-4
    assert gain_p_values(before, rng.permutation(after, axis=1))[0] > 1e-4


def test_a_gain_is_found():
    rng = np.random.default_rng(3)
    p = gain_p_values(rng.poisson(0.02, (1, 1000, 200)), rng.poisson(0.06, (1, 1000, 200)))
    assert (p < 0.05 / 120).mean() > 0.8


def test_too_few_rounds_tell_nothing():
    assert gain_p_values(np.zeros((1, 4, 1), np.int64), np.ones((1, 4, 1), np.int64))[0] == 1.0
