"""Silences, ages and waits, by walking through the rounds."""

import numpy as np
import pytest

from netfl.diagnosis.rates import age_statistics


def test_waits_by_walking_round_and_round():
    heard = np.random.default_rng(1).random((60, 3)) < [0.5, 0.2, 0.05]
    found = age_statistics(heard, None)
    for user in range(3):
        x = np.tile(heard[:, user], 40)
        walked = [np.flatnonzero(x[start:])[0] + 1 for start in range(60)]
        assert np.mean(walked) == pytest.approx(found.until(1)[user])
        assert found.until(3)[user] - found.until(2)[user] == pytest.approx(60 / heard[:, user].sum())
        age, ages = None, []
        for there in np.tile(heard[:, user], 2):
            age = 1 if there else None if age is None else age + 1
            ages.append(age)
        assert np.mean(ages[60:]) == pytest.approx(found.age[user])


def test_a_memoryless_user_waits_one_over_its_rate():
    found = age_statistics(np.random.default_rng(2).random((400_000, 1)) < 0.1, None)
    assert found.until(1)[0] == pytest.approx(10, rel=0.03)
    assert found.until(10)[0] == pytest.approx(100, rel=0.03)
    assert found.peak[0] == pytest.approx(10, rel=0.03)


def test_silences_count_the_ends():
    heard = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], bool)
    found = age_statistics(heard, np.array([1.0, 2.0, 3.0, 4.0]))
    assert found.silence.tolist() == [2, 3, 4]
    assert found.silence_s.tolist() == [4, 9, 10]  # user 0: rounds of 1 s and 2 s at the start, of 4 s at the end


def test_a_user_that_is_never_heard_waits_for_ever():
    found = age_statistics(np.array([[1, 0], [1, 0]], bool), np.ones(2))
    assert np.isinf([found.age[1], found.gap[1], found.until(10)[1], found.age_s[1]]).all()
    assert found.until(100)[0] == pytest.approx(100)


def test_ages_in_seconds_are_those_of_a_sawtooth():
    span_s = np.array([2.0, 1.0, 5.0, 2.0])
    found = age_statistics(np.array([[1, 0], [0, 1], [0, 0], [1, 0]], bool), span_s)
    # user 0 is heard at 2 s and 10 s, of 10 s that begin again: gaps of 8 s and 2 s
    assert found.age_s[0] == pytest.approx((64 + 4) / 20)
    assert found.age_s[1] == pytest.approx(5.0)
