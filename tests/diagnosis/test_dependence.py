"""Dependence within rounds."""

import numpy as np
import pytest

from netfl.diagnosis.dependence import _exclusion, find_dependence


def found_in(heard):
    return find_dependence(heard, np.zeros(heard.shape[1]))


@pytest.mark.slow
def test_independent_users_are_found_so():
    p = [found_in(np.random.default_rng(seed).random((500, 8)) < 0.3).p for seed in range(200)]
    assert (np.array(p) <= 0.05).mean() <= 0.08


@pytest.mark.parametrize(("users", "size"), [(10, 3), (30, 5), (60, 20)])
def test_rounds_of_one_size_are_no_dependence(users, size):
    rng = np.random.default_rng(1)
    keys = rng.exponential(size=(4000, users)) / rng.uniform(0.5, 1.5, users)
    heard = keys <= np.sort(keys, axis=1)[:, size - 1 : size]
    assert found_in(heard).p > 0.05
    assert found_in(heard).spread == pytest.approx(0)


def test_groups_are_found():
    rng = np.random.default_rng(2)
    up = rng.random((2000, 3)) < 0.7
    heard = np.hstack([up[:, [0, 0, 0, 1, 1, 1, 2]], rng.random((2000, 3)) < 0.5]) & (rng.random((2000, 10)) < 0.6)
    found = found_in(heard)
    assert found.p < 1e-9
    assert found.groups == ((0, 1, 2), (3, 4, 5))


def test_rounds_that_are_all_or_nothing_are_found():
    rng = np.random.default_rng(3)
    heard = (rng.random((2000, 1)) < 0.5) & (rng.random((2000, 6)) < 0.4)
    assert found_in(heard).p < 1e-9
    assert found_in(heard).spread > 1.3


def test_one_user_a_round_cannot_be_asked():
    found = found_in(np.eye(3, dtype=bool)[np.random.default_rng(4).integers(0, 3, 100)])
    assert found.p is None
    assert found.why_not == "one user per round"


def test_exclusion_solves_its_equation():
    room = np.array([0.1, 0.2, 0.15, 0.24])
    share = _exclusion(room)
    assert share * (share.sum() - share) == pytest.approx(room, rel=1e-6)


def test_the_covariances_of_two_of_three_are_exact():
    # two of three are the same as leaving out one: P(i and j) = P(k is left out)
    left_out = np.array([0.5, 0.3, 0.2])
    chances = 1 - left_out
    share = _exclusion(chances * (1 - chances))
    both = np.outer(chances, chances) - np.outer(share, share)
    assert [both[1, 2], both[0, 2], both[0, 1]] == pytest.approx(left_out)
