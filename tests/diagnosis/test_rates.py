"""Confidence intervals and concentration, compared with scipy and hand calculations."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis import diagnose
from netfl.diagnosis.rates import chains_entropy, clopper_pearson, concentration, entropy_rate, rates


@pytest.mark.parametrize("count", [0, 1, 7, 19, 20])
@pytest.mark.parametrize("level", [0.05, 0.001])
def test_interval_matches_clopper_and_pearson(count, level):
    low, high = clopper_pearson(np.array([float(count)]), np.array([20.0]), level)
    exact = stats.binomtest(count, 20).proportion_ci(1 - level, method="exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_simultaneous_intervals_have_the_stated_coverage():
    rng = np.random.default_rng(1)
    p = np.array([0.5, 0.2, 0.1, 0.02, 0.004])
    covered = 0
    for _ in range(400):
        result = rates(rng.random((300, 5)) < p, np.ones(5), 0.1)
        covered += ((p >= result.low) & (p <= result.high)).all()
    assert covered >= 400 * 0.9


def test_intervals_of_shares_have_the_stated_coverage():
    rng = np.random.default_rng(2)
    p = np.array([0.5, 0.3, 0.1, 0.05])
    covered = 0
    for _ in range(400):
        result = rates(rng.random((300, 4)) < p, np.ones(4), 0.1)
        covered += ((p / p.sum() >= result.share_low) & (p / p.sum() <= result.share_high)).all()
    assert covered >= 400 * 0.9


def count_covered_shares(samples, truth, level=0.05):
    """Return the number of *samples* in which all intervals contain the true shares."""
    covered = 0
    for delivered in samples:
        result = diagnose(delivered, level=level).rates
        covered += bool(((truth >= result.share_low) & (truth <= result.share_high)).all())
    return covered


@pytest.mark.slow
def test_intervals_of_shares_cover_correlated_users():
    """Twenty users are available together and one independently, so the number of deliveries is random."""
    rng = np.random.default_rng(7)
    truth = np.append(np.full(20, 0.1), 0.9) / 2.9
    samples = [np.c_[np.repeat(rng.random((2000, 1)) < 0.1, 20, 1), rng.random((2000, 1)) < 0.9] for _ in range(30)]
    assert count_covered_shares(samples, truth) >= 27


@pytest.mark.slow
def test_intervals_of_shares_cover_users_with_memory():
    rng = np.random.default_rng(8)
    p = np.array([0.6, 0.4, 0.3, 0.1, 0.5, 0.5])
    samples = []
    for _ in range(30):
        stays = rng.random((2500, 6)) < 0.9
        stays[0] = False
        drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(2500)[:, None]), axis=0)
        samples.append(np.take_along_axis(rng.random((2500, 6)) < p, drawn, axis=0))
    assert count_covered_shares(samples, p / p.sum()) >= 27


def test_shares_with_a_fixed_number_of_deliveries_are_scaled_rates():
    delivered = np.random.default_rng(9).random((500, 6)).argsort(axis=1) < 2
    result = rates(delivered, np.ones(6), 0.05)
    assert result.share_low == pytest.approx(result.low / 2)
    assert result.share_high == pytest.approx(result.high / 2)


def test_memory_widens_intervals():
    delivered = np.random.default_rng(3).random((1000, 2)) < 0.3
    plain, wide = rates(delivered, np.ones(2), 0.05), rates(delivered, np.full(2, 9.0), 0.05)
    assert (wide.high - wide.low) / (plain.high - plain.low) == pytest.approx(3.0, rel=0.1)


def test_concentration_matches_hand_calculation():
    even = concentration(np.full(8, 5))
    assert (even.effective, even.gini, even.jain, even.entropy, even.never) == pytest.approx((8, 0, 1, 3, 0))
    alone = concentration(np.array([0, 0, 0, 9]))
    assert (alone.effective, alone.gini, alone.jain, alone.entropy, alone.never) == pytest.approx((1, 0.75, 0.25, 0, 3))


def test_gini_coefficient_is_the_mean_difference():
    count = np.array([3, 9, 1, 4, 13])
    differences = np.abs(count[:, None] - count).mean()
    assert concentration(count).gini == pytest.approx(differences / (2 * count.mean()))


def test_entropy_rates_match_scipy():
    fair = np.full((2, 2), 0.5)
    assert entropy_rate(fair, np.array([0.5, 0.5])) == pytest.approx(1.0)
    assert entropy_rate(np.eye(2), np.array([0.5, 0.5])) == 0.0
    chain = np.array([[0.9, 0.1], [0.4, 0.6]])
    stationary = np.array([0.8, 0.2])
    result = chains_entropy(np.array([0.2]), np.array([0.1]), np.array([0.4]))
    assert result == pytest.approx(entropy_rate(chain, stationary))
    assert result == pytest.approx(
        sum(w * stats.entropy(row, base=2) for w, row in zip(stationary, chain, strict=True))
    )
