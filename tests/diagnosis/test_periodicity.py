"""Spectra, spectral lines, cycles and duty cycles."""

import numpy as np
import pytest
from scipy import signal

from netfl.diagnosis.participation import from_matrix
from netfl.diagnosis.periodicity import (
    duty_cycle,
    effective_columns,
    find_cycle,
    find_lines,
    is_harmonic,
    periodogram,
    remove_cycle,
    whiten,
)


def chain(rng, rounds, stay, users=1):
    """Return symmetric two-state chains that keep their state with probability *stay*."""
    x = np.zeros((rounds, users))
    x[0] = rng.random(users) < 0.5
    for at in range(1, rounds):
        x[at] = np.where(rng.random(users) < stay, x[at - 1], 1 - x[at - 1])
    return x


@pytest.mark.parametrize("rounds", [64, 65])
def test_power_matches_scipys_periodogram(rounds):
    x = np.random.default_rng(1).normal(size=(rounds, 3))
    _, spectra = signal.periodogram(x, axis=0, detrend=False, return_onesided=False)
    assert periodogram(x) == pytest.approx(spectra[: rounds // 2 + 1].mean(axis=1))


def test_innovations_are_white_with_unit_variance():
    white = whiten(chain(np.random.default_rng(2), 4000, 0.9, 3))
    assert white.series.T @ white.series / 4000 == pytest.approx(np.eye(3), abs=1e-9)
    assert np.mean(white.series[1:] * white.series[:-1]) == pytest.approx(0, abs=0.02)


def test_one_user_per_round_has_one_column_less_than_users():
    white = whiten(np.eye(5)[np.random.default_rng(3).integers(0, 5, 2000)])
    assert white.freedom == 4


def test_effective_columns_counts_independent_columns():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5000, 20))
    assert effective_columns(x) == pytest.approx(20, rel=0.02)
    assert effective_columns(np.repeat(x[:, :4], 5, axis=1)) == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize(("period", "rounds"), [(2, 400), (7, 1000), (24, 2000), (50.5, 3030), (100, 4050)])
def test_period_of_a_noisy_cycle_is_detected(period, rounds):
    rng = np.random.default_rng(5)
    turn = (np.arange(rounds)[:, None] + rng.integers(0, 100, 6)) / period % 1
    x = (rng.random((rounds, 6)) < np.where(turn < 0.5, 0.6, 0.2)).astype(float)
    lines = find_lines(whiten(x), 0.01)
    assert lines.p < 1e-4
    assert lines.period == pytest.approx(period, rel=0.01)


def test_fundamental_is_detected_with_strong_harmonics():
    turn = np.arange(3000) % 60
    x = ((turn % 20 < 5) & (turn != 1))[:, None].astype(float)  # nearly a cycle of 20
    lines = find_lines(whiten(np.hstack([x, np.random.default_rng(6).random((3000, 1)) < 0.5])), 0.01)
    assert lines.period == 60.0
    assert 3000 // 20 in lines.bins


@pytest.mark.parametrize("stay", [0.5, 0.8, 0.95])
@pytest.mark.slow
def test_chains_have_no_lines(stay):
    p = [find_lines(whiten(chain(np.random.default_rng(seed), 1500, stay, 3)), 0.01).p for seed in range(60)]
    assert (np.array(p) <= 0.05).sum() <= 6


def test_removing_its_lines_removes_a_cycle():
    x = np.repeat(np.tile(np.eye(4), (30, 1)), 5, axis=0)
    white = whiten(x)
    lines = find_lines(white, 0.01)
    assert lines.period == 20
    assert np.abs(remove_cycle(white.series, lines)).max() < 1e-9


def test_slow_lines_remain_above_a_limit():
    at = np.arange(1200)
    series = np.cos(2 * np.pi * at / 20)[:, None] + 2 * np.cos(2 * np.pi * at / 240)[:, None]
    series += 0.05 * np.random.default_rng(8).normal(size=(1200, 1))
    lines = find_lines(whiten(series), 0.01)
    rest = remove_cycle(series, lines, min_frequency=24)
    assert periodogram(rest)[5] == pytest.approx(periodogram(series)[5])
    assert periodogram(rest)[60] < 1e-9


@pytest.mark.parametrize(
    ("short", "long", "rounds"), [(19, 288, 1440), (7.3, 100, 1500), (24, 168, 2000), (30, 500, 1600)]
)
def test_cycle_within_a_cycle_has_both_periods(short, long, rounds):
    rng = np.random.default_rng(9)
    at = np.arange(rounds)[:, None]
    is_on = ((at / short + rng.random(6)) % 1 < 0.4) & ((at / long + rng.random(6)) % 1 < 0.5)
    delivered = is_on & (rng.random((rounds, 6)) < 0.7)
    lines = find_lines(whiten(delivered.astype(float)), 0.01)
    cycle = find_cycle(delivered.astype(float), from_matrix(delivered), lines, 0.01)
    assert cycle.periods == pytest.approx((short, long), rel=0.02)
    assert cycle.period == cycle.periods[0]


@pytest.mark.parametrize("duty", [0.05, 0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("period", [9, 60, 300])
def test_pulses_of_any_width_are_one_cycle(duty, period):
    rng = np.random.default_rng(10)
    turn = (np.arange(2000)[:, None] + rng.integers(0, period, 6)) % period
    delivered = (turn < max(1, duty * period)) & (rng.random((2000, 6)) < 0.8)
    lines = find_lines(whiten(delivered.astype(float)), 0.01)
    cycle = find_cycle(delivered.astype(float), from_matrix(delivered), lines, 0.01)
    assert cycle.periods == (cycle.period,) == pytest.approx((period,), rel=0.02)


def test_harmonics_are_multiples_up_to_the_sixth():
    assert [is_harmonic(frequency, 10.0) for frequency in (10, 31, 33, 60, 70)] == [True, True, False, True, False]


@pytest.mark.parametrize("duty", [0.1, 0.5, 1.0])
def test_duty_cycle_is_the_available_share_of_the_period(duty):
    rng = np.random.default_rng(7)
    phase = np.arange(20_000) % 50
    x = (rng.random((20_000, 2)) < 0.3) & (phase < 50 * duty)[:, None]
    assert duty_cycle(x.astype(float), phase) == pytest.approx(duty, rel=0.05)
