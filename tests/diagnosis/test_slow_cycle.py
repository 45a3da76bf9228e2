"""Cycles that are so slow that they look like drift: constellations, days, trends and short recordings."""

import numpy as np
import pandas as pd
import pytest

from netfl.diagnosis import diagnose, from_table

ORBIT, DAY = 19.0, 288.0
"""Periods of a constellation in rounds of five minutes: 1 h 35 min and 24 h."""


def constellation(seed, days, satellites=8, chance=0.8):
    """Return the deliveries of satellites on their own orbital planes to one ground station, ``[rounds, satellites]``.

    A satellite passes over the station at one phase of its orbit, while the rotation of the Earth brings the station
    below the plane.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(round(days * DAY))[:, None]
    orbit = at / ORBIT + rng.random(satellites)
    day = at / DAY + rng.random(satellites)
    is_visible = (orbit % 1.0 < 0.3) & (day % 1.0 < 0.4)
    return is_visible & (rng.random((len(at), satellites)) < chance)


@pytest.fixture(scope="module")
def three_days():
    delivered = constellation(1, days=3.0)
    return diagnose(with_times(delivered, 300.0 * np.arange(1, len(delivered) + 1)))


@pytest.fixture(scope="module")
def two_days():
    return diagnose(constellation(1, days=2.0))


def changing(seed, shape, rounds=2000, users=8):
    """Return independent users whose rates change without a cycle, half of them up and half of them down."""
    rng = np.random.default_rng(seed)
    at = np.arange(rounds)[:, None] / rounds
    if shape == "line":
        change = at
    elif shape == "jump":
        change = at > rng.uniform(0.25, 0.75)
    elif shape == "pieces":
        change = rng.random((4, users))[np.searchsorted(np.sort(rng.random(3)), at[:, 0])]
    else:
        walk = np.cumsum(rng.normal(size=(rounds, users)), axis=0)
        change = (walk - walk.min(axis=0)) / np.ptp(walk, axis=0)
    sign = np.where(np.arange(users) % 2, 1, -1)
    return rng.random((rounds, users)) < 0.4 + 0.4 * sign * (change - 0.5)


def with_times(delivered, closed_s):
    rounds, users = np.nonzero(delivered)
    table = pd.DataFrame({"round": rounds + 1, "user": users})
    return from_table(table, users=delivered.shape[1], rounds=len(delivered), closed_s=closed_s)


def test_constellation_is_cyclic_with_its_orbit_and_its_day(three_days):
    assert three_days.verdict == "cyclic"
    assert "cyclic with periods of 19 rounds (1 h 35 min) and 28" in three_days.sentence
    assert three_days.cycle.periods == pytest.approx((ORBIT, DAY), rel=0.02)
    assert three_days.cycle.periods_s == pytest.approx((5700, 86400), rel=0.02)
    assert {test.name: test.answer for test in three_days.tests}["cycle"].startswith("yes: 19 rounds (1 h 35 min) and")


@pytest.mark.parametrize("days", [3.3, 5.0, 10.5])
@pytest.mark.parametrize("chance", [0.5, 1.0])
@pytest.mark.slow
def test_constellations_are_cyclic_whatever_they_deliver(days, chance):
    results = [diagnose(constellation(seed, days, 16, chance), seed=seed) for seed in range(10)]
    assert [result.verdict for result in results].count("cyclic") >= 9
    named = [np.allclose(result.cycle.periods[-1], DAY, rtol=0.03) for result in results]
    assert np.mean(named) >= 0.9


def test_two_days_are_too_short_to_tell(two_days):
    assert two_days.verdict == "cycle + drift"
    assert not two_days.slow_cycle.is_certain
    assert two_days.slow_cycle.period == pytest.approx(DAY, rel=0.05)
    assert "It also repeats every 19 rounds. A cycle of 28" in two_days.sentence
    assert "too short to tell: it covers 2.0 periods. Record at least three." in two_days.sentence
    assert {test.name: test.answer for test in two_days.tests}["drift"] == "yes, or a slow cycle"


@pytest.mark.slow
def test_day_explains_the_drift_of_rounds_that_differ_in_length():
    rng = np.random.default_rng(8)
    closed_s = np.cumsum(rng.exponential(1.0, 3000))
    closed_s *= 3.55 * 86400 / closed_s[-1]
    orbit = closed_s[:, None] / 5700 + rng.random(8)
    day = closed_s[:, None] / 86400 + rng.random(8)
    rates = 0.2 * np.where(orbit % 1 < 0.4, 2.0, 0.3) * np.where(day % 1 < 0.4, 2.0, 0.3)
    result = diagnose(with_times(rng.random((3000, 8)) < rates, closed_s))
    assert result.verdict == "cyclic"
    assert result.slow_cycle.is_certain
    assert result.cycle.periods_s == pytest.approx((5700, 86400), rel=0.03)
    assert {test.name: test.answer for test in result.tests}["drift"] == "not beyond the cycle"


@pytest.mark.parametrize("cycle", [0, 19, 400])
@pytest.mark.parametrize("shape", ["line", "jump", "pieces", "walk"])
@pytest.mark.quick_first
def test_drift_that_is_no_cycle_remains(shape, cycle):
    verdicts = []
    for seed in range(1 if shape == "line" and cycle == 0 else 10):
        delivered = changing(seed, shape)
        if cycle:
            delivered &= ((np.arange(2000)[:, None] + 37 * np.arange(8)) % cycle) < 0.6 * cycle
        verdicts.append(diagnose(delivered, seed=seed).verdict)
    # the cycle of 400 rounds is too slow to be told from a drift in 2,000 rounds
    expected = "cycle + drift" if cycle == 19 else "non-stationary"
    assert "cyclic" not in verdicts
    assert verdicts.count(expected) >= 0.9 * len(verdicts)


@pytest.mark.slow
def test_memory_is_no_slow_cycle():
    verdicts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        available = rng.random(8) < 0.5
        delivered = np.zeros((2000, 8), bool)
        for row in delivered:
            available ^= rng.random(8) < 0.01
            row[:] = available
        verdicts.append(diagnose(delivered, seed=seed).verdict)
    assert verdicts.count("Markovian") >= 18


def test_json_has_both_periods_and_the_slow_cycle(three_days, two_days):
    flat = three_days.to_json()
    assert flat["cycle.period"] == flat["cycle.periods"][0] == pytest.approx(ORBIT, rel=0.01)
    assert flat["cycle.period_s"] == flat["cycle.periods_s"][0] == pytest.approx(5700, rel=0.01)
    assert flat["slow_cycle"] is None
    flat = two_days.to_json()
    assert flat["cycle.periods_s"] == []
    assert flat["slow_cycle.period"] == pytest.approx(DAY, rel=0.02)
    assert flat["slow_cycle.drift.p"] > 0.05 >= flat["drift.p"]
