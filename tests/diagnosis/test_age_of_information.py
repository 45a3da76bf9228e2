"""Gaps, ages and waiting times, computed round by round."""

import numpy as np
import pytest

from netfl.diagnosis.rates import age_statistics


def test_waits_and_ages_match_a_loop_over_rounds():
    delivered = np.random.default_rng(1).random((60, 3)) < [0.5, 0.2, 0.05]
    result = age_statistics(delivered, None)
    for user in range(3):
        x = np.tile(delivered[:, user], 40)
        waits = [np.flatnonzero(x[start:])[0] + 1 for start in range(60)]
        assert np.mean(waits) == pytest.approx(result.until(1)[user])
        assert result.until(3)[user] - result.until(2)[user] == pytest.approx(60 / delivered[:, user].sum())
        age, ages = None, []
        for is_delivered in np.tile(delivered[:, user], 2):
            age = 1 if is_delivered else None if age is None else age + 1
            ages.append(age)
        assert np.mean(ages[60:]) == pytest.approx(result.age[user])


def test_memoryless_user_waits_the_inverse_of_its_rate():
    result = age_statistics(np.random.default_rng(2).random((400_000, 1)) < 0.1, None)
    assert result.until(1)[0] == pytest.approx(10, rel=0.03)
    assert result.until(10)[0] == pytest.approx(100, rel=0.03)
    assert result.peak[0] == pytest.approx(10, rel=0.03)


def test_longest_silence_includes_both_ends():
    delivered = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], bool)
    result = age_statistics(delivered, np.array([1.0, 2.0, 3.0, 4.0]))
    assert result.silence.tolist() == [2, 3, 4]
    assert result.silence_s.tolist() == [4, 9, 10]  # user 0: rounds of 1 s and 2 s at the start, of 4 s at the end


def test_user_without_deliveries_has_infinite_waits():
    result = age_statistics(np.array([[1, 0], [1, 0]], bool), np.ones(2))
    assert np.isinf([result.age[1], result.gap[1], result.until(10)[1], result.age_s[1]]).all()
    assert result.until(100)[0] == pytest.approx(100)


def test_age_in_seconds_is_the_mean_of_a_sawtooth():
    span_s = np.array([2.0, 1.0, 5.0, 2.0])
    result = age_statistics(np.array([[1, 0], [0, 1], [0, 0], [1, 0]], bool), span_s)
    # user 0 is delivered at 2 s and 10 s of a period of 10 s: gaps of 8 s and 2 s
    assert result.age_s[0] == pytest.approx((64 + 4) / 20)
    assert result.age_s[1] == pytest.approx(5.0)
