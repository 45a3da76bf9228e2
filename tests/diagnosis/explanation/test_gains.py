"""P-values of gains between two replays that differ by chance or by a known amount."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis.explanation.gains import gain_between, gain_p_values

CAUSES = 6
"""Five causes, and all causes together."""


def false_alarm_rate(runs, draw_counts):
    """Return the share of runs in which a cause is named for one of the three rarest users."""
    named = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        replays = [draw_counts(rng) for _ in range(1 + CAUSES)]
        rare = np.argsort(replays[0].sum(axis=(0, 1)), kind="stable")[:3]
        p = [gain_p_values(replays[0][:, :, rare], replay[:, :, rare]).min() for replay in replays[1:]]
        named += min(p) <= 0.05 / (CAUSES * replays[0].shape[2])
    return named / runs


def poisson(mean, users=20):
    """Return a function that draws independent counts of the same mean for all users."""
    return lambda rng: rng.poisson(mean / 1000, (1, 1000, users))


def chains(rng):
    """Draw two replicas of users that stay present or absent for ten rounds on average."""
    stays = rng.random((2, 600, 12)) < 0.9
    stays[:, 0] = False
    drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(600)[:, None]), axis=1)
    return np.take_along_axis(rng.random((2, 600, 12)) < 0.3, drawn, axis=1).astype(np.int64)


@pytest.mark.parametrize("mean", [1, 4, 12, 60, 400])
@pytest.mark.slow
def test_independent_replays_name_no_cause(mean):
    assert false_alarm_rate(300, poisson(mean)) <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


@pytest.mark.slow
def test_memory_names_no_cause():
    assert false_alarm_rate(200, chains) <= 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mean", [5, 50])
def test_p_value_is_calibrated(mean):
    rng = np.random.default_rng(1)
    p = gain_p_values(rng.poisson(mean / 800, (1, 800, 4000)), rng.poisson(mean / 800, (1, 800, 4000)))
    for bound in (0.001, 0.01, 0.05):
        assert (p <= bound).mean() <= bound + 3 * (bound / 4000) ** 0.5


def test_few_deliveries_use_the_exact_distribution():
    before, after = np.zeros((1, 200, 1), np.int64), np.zeros((1, 200, 1), np.int64)
    after[0, ::40] = 1
    assert gain_p_values(before, after)[0] >= stats.binomtest(5, 5, alternative="greater").pvalue
    assert gain_p_values(after, before)[0] == 1.0
    assert gain_p_values(before, before)[0] == 1.0


def test_common_deliveries_of_two_replays_cancel():
    """Forty more deliveries are significant for paired replays and not for independent ones."""
    rng = np.random.default_rng(2)
    before = (rng.random((1, 4000, 1)) < 0.5).astype(np.int64)
    after = before.copy()
    after[0, rng.choice(np.flatnonzero(before[0, :, 0] == 0), 40, replace=False)] = 1
    assert gain_p_values(before, after)[0] < 1e-4
    assert gain_p_values(before, rng.permutation(after, axis=1))[0] > 1e-4


def test_gain_is_detected():
    rng = np.random.default_rng(3)
    p = gain_p_values(rng.poisson(0.02, (1, 1000, 200)), rng.poisson(0.06, (1, 1000, 200)))
    assert (p < 0.05 / 120).mean() > 0.8


def test_too_few_rounds_give_no_evidence():
    assert gain_p_values(np.zeros((1, 4, 1), np.int64), np.ones((1, 4, 1), np.int64))[0] == 1.0


def test_gain_has_an_interval_and_a_time_for_each_delivery():
    rng = np.random.default_rng(4)
    before = (rng.random((2, 400)) < 0.1).astype(np.int64)
    after = (rng.random((2, 400)) < 0.3).astype(np.int64)
    gain = gain_between(before, after, before_s=800.0, after_s=600.0)
    assert gain.deliveries == gain.after - gain.before == after.sum() - before.sum()
    assert gain.low < 160 < gain.high  # 800 rounds, 0.2 more in each
    assert 800 / before.sum() == gain.before_s
    assert gain.seconds == pytest.approx(800 / before.sum() - 600 / after.sum())


def test_interval_of_a_gain_holds_its_level():
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        before = rng.poisson(0.2, (1, 400))
        after = rng.poisson(0.3, (1, 400))
        gain = gain_between(before, after, 1.0, 1.0)
        hits += gain.low <= 40 <= gain.high
    assert hits >= 300 * 0.95 - 3 * (300 * 0.95 * 0.05) ** 0.5


def test_user_without_deliveries_gains_infinite_time():
    silent = np.zeros((1, 100), np.int64)
    one = silent.copy()
    one[0, 50] = 1
    assert gain_between(silent, one, 100.0, 100.0).seconds == np.inf
    assert np.isnan(gain_between(one, silent, 100.0, 100.0).seconds)
