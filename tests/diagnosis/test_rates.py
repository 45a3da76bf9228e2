"""Intervals and concentration, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis import diagnose
from netfl.diagnosis.rates import chains_entropy, clopper_pearson, concentration, entropy_rate, rates


@pytest.mark.parametrize("count", [0, 1, 7, 19, 20])
@pytest.mark.parametrize("level", [0.05, 0.001])
def test_the_interval_is_clopper_and_pearsons(count, level):
    low, high = clopper_pearson(np.array([float(count)]), np.array([20.0]), level)
    exact = stats.binomtest(count, 20).proportion_ci(1 - level, method="exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_all_intervals_hold_at_once_as_often_as_stated():
    rng = np.random.default_rng(1)
    p = np.array([0.5, 0.2, 0.1, 0.02, 0.004])
    held = 0
    for _ in range(400):
        found = rates(rng.random((300, 5)) < p, np.ones(5), 0.1)
        held += ((p >= found.low) & (p <= found.high)).all()
    assert held >= 400 * 0.9


def test_shares_of_deliveries_are_held_too():
    rng = np.random.default_rng(2)
    p = np.array([0.5, 0.3, 0.1, 0.05])
    held = 0
    for _ in range(400):
        found = rates(rng.random((300, 4)) < p, np.ones(4), 0.1)
        held += ((p / p.sum() >= found.share_low) & (p / p.sum() <= found.share_high)).all()
    assert held >= 400 * 0.9


def shares_held(worlds, truth, level=0.05):
    """In how many *worlds* all shares' intervals hold."""
    held = 0
    for heard in worlds:
        own = diagnose(heard, level=level).rates
        held += bool(((truth >= own.share_low) & (truth <= own.share_high)).all())
    return held


@pytest.mark.slow
def test_shares_are_held_where_users_come_together():
    """Twenty users who come together now and then, and one who comes alone: how many are heard is random."""
    rng = np.random.default_rng(7)
    truth = np.append(np.full(20, 0.1), 0.9) / 2.9
    worlds = [np.c_[np.repeat(rng.random((2000, 1)) < 0.1, 20, 1), rng.random((2000, 1)) < 0.9] for _ in range(30)]
    assert shares_held(worlds, truth) >= 27


@pytest.mark.slow
def test_shares_are_held_where_users_have_memory():
    rng = np.random.default_rng(8)
    p = np.array([0.6, 0.4, 0.3, 0.1, 0.5, 0.5])
    worlds = []
    for _ in range(30):
        stays = rng.random((2500, 6)) < 0.9
        stays[0] = False
        drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(2500)[:, None]), axis=0)
        worlds.append(np.take_along_axis(rng.random((2500, 6)) < p, drawn, axis=0))
    assert shares_held(worlds, p / p.sum()) >= 27


def test_shares_of_even_rounds_are_rates_over_their_size():
    heard = np.random.default_rng(9).random((500, 6)).argsort(axis=1) < 2
    found = rates(heard, np.ones(6), 0.05)
    assert found.share_low == pytest.approx(found.low / 2)
    assert found.share_high == pytest.approx(found.high / 2)


def test_memory_widens_intervals():
    heard = np.random.default_rng(3).random((1000, 2)) < 0.3
    plain, wide = rates(heard, np.ones(2), 0.05), rates(heard, np.full(2, 9.0), 0.05)
    assert (wide.high - wide.low) / (plain.high - plain.low) == pytest.approx(3.0, rel=0.1)


def test_concentration_by_hand():
    even = concentration(np.full(8, 5))
    assert (even.effective, even.gini, even.jain, even.entropy, even.never) == pytest.approx((8, 0, 1, 3, 0))
    alone = concentration(np.array([0, 0, 0, 9]))
    assert (alone.effective, alone.gini, alone.jain, alone.entropy, alone.never) == pytest.approx((1, 0.75, 0.25, 0, 3))


def test_ginis_coefficient_is_the_mean_difference():
    count = np.array([3, 9, 1, 4, 13])
    differences = np.abs(count[:, None] - count).mean()
    assert concentration(count).gini == pytest.approx(differences / (2 * count.mean()))


def test_entropy_rates():
    fair = np.full((2, 2), 0.5)
    assert entropy_rate(fair, np.array([0.5, 0.5])) == pytest.approx(1.0)
    assert entropy_rate(np.eye(2), np.array([0.5, 0.5])) == 0.0
    chain = np.array([[0.9, 0.1], [0.4, 0.6]])
    law = np.array([0.8, 0.2])
    own = chains_entropy(np.array([0.2]), np.array([0.1]), np.array([0.4]))
    assert own == pytest.approx(entropy_rate(chain, law))
    assert own == pytest.approx(sum(w * stats.entropy(row, base=2) for w, row in zip(law, chain, strict=True)))
