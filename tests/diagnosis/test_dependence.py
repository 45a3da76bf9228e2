"""Dependence between users within rounds."""

import numpy as np
import pytest

from netfl.diagnosis.dependence import exclusion, find_dependence


def dependence_of(delivered):
    return find_dependence(delivered, np.zeros(delivered.shape[1]))


@pytest.mark.slow
def test_independent_users_have_no_dependence():
    p = [dependence_of(np.random.default_rng(seed).random((500, 8)) < 0.3).p for seed in range(200)]
    assert (np.array(p) <= 0.05).mean() <= 0.08


@pytest.mark.parametrize(("users", "size"), [(10, 3), (30, 5), (60, 20)])
def test_fixed_number_of_deliveries_is_no_dependence(users, size):
    rng = np.random.default_rng(1)
    keys = rng.exponential(size=(4000, users)) / rng.uniform(0.5, 1.5, users)
    delivered = keys <= np.sort(keys, axis=1)[:, size - 1 : size]
    assert dependence_of(delivered).p > 0.05
    assert dependence_of(delivered).spread == pytest.approx(0)


def test_groups_are_detected():
    rng = np.random.default_rng(2)
    available = rng.random((2000, 3)) < 0.7
    delivered = np.hstack([available[:, [0, 0, 0, 1, 1, 1, 2]], rng.random((2000, 3)) < 0.5]) & (
        rng.random((2000, 10)) < 0.6
    )
    result = dependence_of(delivered)
    assert result.p < 1e-9
    assert result.groups == ((0, 1, 2), (3, 4, 5))


def test_common_outages_are_detected():
    rng = np.random.default_rng(3)
    delivered = (rng.random((2000, 1)) < 0.5) & (rng.random((2000, 6)) < 0.4)
    assert dependence_of(delivered).p < 1e-9
    assert dependence_of(delivered).spread > 1.3


def test_dependence_is_undefined_with_one_user_per_round():
    result = dependence_of(np.eye(3, dtype=bool)[np.random.default_rng(4).integers(0, 3, 100)])
    assert result.p is None
    assert result.why_not == "one user per round"


def testexclusion_solves_its_equation():
    room = np.array([0.1, 0.2, 0.15, 0.24])
    share = exclusion(room)
    assert share * (share.sum() - share) == pytest.approx(room, rel=1e-6)


def test_covariances_of_two_of_three_users_are_exact():
    # selecting two of three equals omitting one: P(i and j) = P(k is omitted)
    omitted = np.array([0.5, 0.3, 0.2])
    chances = 1 - omitted
    share = exclusion(chances * (1 - chances))
    both = np.outer(chances, chances) - np.outer(share, share)
    assert [both[1, 2], both[0, 2], both[0, 1]] == pytest.approx(omitted)
