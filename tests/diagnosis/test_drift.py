"""Drift, windows and change points."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis.drift import assess_windows, find_changes, find_drift
from netfl.diagnosis.periodicity import whiten


@pytest.mark.slow
def test_white_noise_has_no_drift():
    p = [find_drift(np.random.default_rng(seed).normal(size=(600, 4))).p for seed in range(200)]
    assert (np.array(p) <= 0.05).mean() <= 0.06


@pytest.mark.parametrize("shape", ["line", "jump", "there and back"])
def test_drift_is_detected(shape):
    rng = np.random.default_rng(1)
    at = np.arange(3000) / 3000
    share = {"line": at, "jump": at > 0.6, "there and back": abs(2 * at - 1)}[shape]
    x = rng.random((3000, 5)) < 0.2 + 0.15 * np.asarray(share, float)[:, None]
    assert find_drift(whiten(x.astype(float)).series).p < 1e-6


def test_movements_far_below_those_of_chance_are_no_drift():
    """Users in fixed cycles leave a weak beat of one cycle, and nearly no noise."""
    beat = np.cos(2 * np.pi * np.arange(3000)[:, None] / 3000 + np.arange(4))
    noise = np.random.default_rng(4).normal(size=(3000, 4))
    assert find_drift(3e-4 * beat + 1e-3 * noise, has_memory=False).p > 0.05
    assert find_drift(0.3 * beat + noise, has_memory=False).p < 1e-6


@pytest.mark.parametrize("rounds", range(2, 14))
@pytest.mark.parametrize("deliveries", [[(6, 9)], [(6, 0), (9, 0)], [(2, 0), (3, 1)]])
def test_few_rounds_and_deliveries_have_a_drift_that_is_a_number(rounds, deliveries):
    delivered = np.zeros((rounds, 12))
    for place, user in deliveries:
        delivered[place % rounds, user] = 1.0
    drift = find_drift(whiten(delivered).series)
    assert 0.0 <= drift.p <= 1.0


def test_windows_equal_the_chi_square_test_of_homogeneity():
    x = (np.random.default_rng(2).random((800, 1)) < 0.3).astype(float)
    result = assess_windows(x, np.ones(1), 8)
    counts = x.reshape(8, 100).sum(axis=1)
    exact = stats.chi2_contingency(np.array([counts, 100 - counts]), correction=False)
    assert result.statistic == pytest.approx(exact.statistic)
    assert result.freedom == exact.dof
    assert result.p == pytest.approx(exact.pvalue, rel=1e-6)


def test_windows_with_one_user_per_round_keep_their_level():
    p = []
    for seed in range(200):
        x = np.eye(4)[np.random.default_rng(seed).choice(4, 800, p=[0.5, 0.3, 0.15, 0.05])]
        p.append(assess_windows(x, np.ones(4)).p)
    assert (np.array(p) <= 0.05).mean() == pytest.approx(0.05, abs=0.05)


def test_change_points_are_at_jumps_of_the_rates():
    rng = np.random.default_rng(3)
    x = rng.random((3000, 8)) < np.repeat([0.1, 0.4, 0.2], 1000)[:, None]
    result = find_changes(whiten(x.astype(float)).series)
    assert len(result) == 2
    assert np.abs(np.array(result) - [1000, 2000]).max() <= 30
    assert find_changes(rng.normal(size=(2000, 5))) == []
